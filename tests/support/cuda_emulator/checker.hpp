// Records which threads last accessed each byte. Finds races, reads of unwritten shared memory, out-of-bounds and
// misaligned accesses. -fsanitize=thread inserts a call to the checker before each memory access of a kernel.
#pragma once
#include <map>
#include <vector>

#include "include/runtime.hpp"

namespace emulator {

// One access. Time is counted in barriers. Block 0 means no access.
struct Access {
    unsigned block, block_epoch, warp_epoch, counter;  // `counter`: program counter, from the start of the library
    unsigned short thread;
    bool atomic, past_l1;
};

// The recorded accesses of one byte. Up to two readers, of different warps, represent all readers.
struct Shadow {
    Access write, readers[2];
    bool copying;  // a cp.async to this byte is in flight
};

// A thread's fence, in the time of its block. A fence and an atomic operation publish a block's writes to other blocks.
struct Fence {
    unsigned short thread;
    unsigned block_epoch;
};

class Checker {
public:
    void start_launch(const std::vector<Region>& regions, const void* code, bool checked, unsigned threads);
    void finish_launch();
    void start_block(unsigned block);
    void thread(unsigned number) { current = number; }
    void block_barrier() { ++block_epoch; }
    void warp_barrier(unsigned warp) { ++warp_epochs[warp]; }

    void fence();
    void access(const void* address, size_t size, bool write, bool atomic, const void* counter, bool past_l1 = false);
    void aligned_access(const void* address, size_t size, bool write, const void* counter);
    void copy_started(void* shared, size_t size, const void* counter);
    void copy_finished(void* shared, size_t size, const void* counter);
    void describe(const char* address, char* text, size_t size) const;

private:
    struct Tracked {
        Region region;
        std::vector<Shadow> shadow;
    };
    Tracked* find(const char* address);
    unsigned offset_of(const void* counter) const { return unsigned(static_cast<const char*>(counter) - library) - 1; }
    void note_turns(const void* address, size_t size, bool write, const void* counter) const;
    bool ordered(const Access& earlier, bool shared) const;
    bool told(const Access& earlier) const;
    void note_atomic(const void* address);
    void race(const Tracked& tracked, size_t offset, const Access& earlier, const char* what, const Access& now) const;
    void touch(Tracked& tracked, size_t offset, bool write, const Access& now);

    std::vector<Tracked> regions;
    std::vector<unsigned> warp_epochs;
    // Fences followed by an atomic operation. Keys: address of the operation, block.
    std::map<const void*, std::map<unsigned, Fence>> released;
    std::map<unsigned, std::pair<Fence, Fence>> known;  // by block: its fence, and this block's after the atomic
    std::map<unsigned, unsigned> fences;                // the epoch of each thread's last fence
    std::multimap<unsigned, const void*> touched;       // by thread: addresses of its atomics since that fence
    unsigned current = 0, block = 0, block_epoch = 0;
    const char* library = nullptr;  // base address of the kernel's library
};

extern Checker checker;

}  // namespace emulator
