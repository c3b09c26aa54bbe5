// What compiled kernels and the emulator's runtime know of each other. The runtime is a library of its own, compiled
// without instrumentation; kernels are compiled against this header and see the launch through the variables below.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulator {

struct Index {
    unsigned x, y, z;
};

// The thread that runs at the moment. Not const: they change whenever a fiber gives way to another.
extern Index thread_index, block_index, block_size, grid_size;
extern bool checking;  // whether memory accesses are to be noted

// Where in the kernel's source something was called.
struct Place {
    const char* file;
    int line;
};

// One lane's part in an operation of its warp: `data` is what the operation needs of it and gives back to it.
struct LaneCall {
    void* data;
};

// Carries an operation out for all lanes at once: calls[i] is null where lane i takes no part.
using Combine = void (*)(LaneCall* const* calls);

void* shared_memory();
constexpr unsigned shared_window = 1024;  // where shared memory begins for instructions that take its own addresses
// What lies there, `bytes` of it. Fails if it is not all in the block's shared memory, at a multiple of `bytes`.
char* shared_pointer(unsigned address, unsigned bytes, const char* what, Place place);
void sync_block(Place place);
// Waits until every lane in `mask` has called the same operation at the same place; the last to come combines.
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

// A kernel as Python launches it.
struct Kernel {
    void (*invoke)(void** arguments);
    int count;
    const size_t* sizes;
    const bool* is_pointer;
};

// The launch's description of one array: [low, high) may be touched, the pages of [map_low, map_high) are its own.
struct Region {
    char *map_low, *map_high, *low, *high;
    int argument;  // number of the kernel's argument, -1 for shared memory
};

}  // namespace emulator
