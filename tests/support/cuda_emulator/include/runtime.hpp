// The interface between compiled kernels and the emulator's runtime. The runtime is a separate library, compiled
// without instrumentation. Kernels are compiled against this header and read the launch from the variables below.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulator {

struct Index {
    unsigned x, y, z;
};

// The running thread. Not const: the indices change at every switch between fibers.
extern Index thread_index, block_index, block_size, grid_size;
extern bool checking;  // whether memory accesses are recorded

// The location of a call in the kernel's source.
struct Place {
    const char* file;
    int line;
};

// One lane's part in a warp operation. `data` points to the lane's inputs and results.
struct LaneCall {
    void* data;
};

// Executes an operation for all lanes at once. calls[i] is null if lane i does not participate.
using Combine = void (*)(LaneCall* const* calls);

void* shared_memory();
constexpr unsigned shared_window = 1024;  // where shared memory begins for instructions that use its own addresses
// Return a pointer to `bytes` of shared memory. Fail if they are out of bounds or not at a multiple of `bytes`.
char* shared_pointer(unsigned address, unsigned bytes, const char* what, Place place);
void sync_block(Place place);
// Wait until every lane in `mask` has called the same operation at the same place. The last lane triggers `combine`.
void sync_warp(unsigned mask, const char* name, Place place, Combine combine, void* data, bool orders_memory);
unsigned lane_number();

// cp.async: nothing is copied before the wait that covers its group.
void copy_async(void* shared, const void* global, unsigned bytes, unsigned valid_bytes, Place place);
void copy_async_commit();
void copy_async_wait(int groups_in_flight);

void note_read(const void* address, size_t size);
void note_read_past_l1(const void* address, size_t size);
void note_fence();  // __threadfence
void note_access(const void* address, size_t size, bool write, bool atomic, const void* program_counter);
[[noreturn]] void fail(const char* kind, const char* format, ...) __attribute__((format(printf, 2, 3)));

struct MmaCall {
    const unsigned *a, *b;
    float* accumulator;
};
void combine_mma_m16n8k16(LaneCall* const* calls);

struct MatrixCall {
    const void* row;
    unsigned* registers;
    bool transposed;
};
void combine_ldmatrix(LaneCall* const* calls);

// A kernel, as launched from Python.
struct Kernel {
    void (*invoke)(void** arguments);
    int count;
    const size_t* sizes;
    const bool* is_pointer;
};

// The launch's description of one array. Kernels may access [low, high). The array owns the pages [map_low, map_high).
struct Region {
    char *map_low, *map_high, *low, *high;
    int argument;  // number of the kernel's argument, -1 for shared memory
};

}  // namespace emulator
