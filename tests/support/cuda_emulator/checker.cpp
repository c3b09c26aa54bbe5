#include "checker.hpp"

#include "banks.hpp"

#include <dlfcn.h>

#include <cstdio>

namespace emulator {

Checker checker;

void Checker::start_launch(const std::vector<Region>& all, const void* code, bool checked, unsigned threads) {
    Dl_info information{};
    dladdr(code, &information);
    library = static_cast<const char*>(information.dli_fbase);
    regions.clear();
    for (const Region& region : all)
        regions.push_back({region, std::vector<Shadow>(checked ? size_t(region.high - region.low) : 0)});
    warp_epochs.assign((threads + 31) / 32, 0);
}

void Checker::finish_launch() {
    regions.clear();
    released.clear();
}

void Checker::start_block(unsigned number) {
    block = number + 1;
    block_epoch = 0;
    known.clear();
    fences.clear();
    touched.clear();
    for (unsigned& epoch : warp_epochs) epoch = 0;
    for (Tracked& tracked : regions)
        if (tracked.region.argument < 0) tracked.shadow.assign(tracked.shadow.size(), Shadow{});
}

Checker::Tracked* Checker::find(const char* address) {
    for (Tracked& tracked : regions)
        if (address >= tracked.region.map_low && address < tracked.region.map_high) return &tracked;
    return nullptr;  // a thread's own stack or a constant
}

void Checker::describe(const char* address, char* text, size_t size) const {
    for (const Tracked& tracked : regions) {
        const Region& region = tracked.region;
        if (address < region.map_low || address >= region.map_high) continue;
        char name[40];
        if (region.argument < 0) snprintf(name, sizeof name, "shared memory");
        else snprintf(name, sizeof name, "argument %d", region.argument);
        snprintf(text, size, "byte %td of %s, which has %td", address - region.low, name, region.high - region.low);
        return;
    }
    snprintf(text, size, "address %p, which is in no array of this launch", static_cast<const void*>(address));
}

// Return whether `earlier` happens before the current access of the running thread.
bool Checker::ordered(const Access& earlier, bool shared) const {
    if (earlier.block != block) return shared || earlier.block == 0 || told(earlier);
    if (earlier.thread == current || earlier.block_epoch != block_epoch) return true;
    return earlier.thread / 32 == current / 32 && earlier.warp_epoch != warp_epochs[current / 32];
}

// Return whether `earlier`, an access of another block, happens before the current access. There: the access, a
// barrier, a fence, an atomic operation. Here: an atomic operation on the same address, a fence, a barrier.
bool Checker::told(const Access& earlier) const {
    auto found = known.find(earlier.block);
    if (found == known.end()) return false;
    const Fence &theirs = found->second.first, &ours = found->second.second;
    bool before = earlier.block_epoch < theirs.block_epoch || earlier.thread == theirs.thread;
    return before && (block_epoch > ours.block_epoch || current == ours.thread);
}

void Checker::fence() {
    fences[current] = block_epoch;
    auto [first, last] = touched.equal_range(current);
    for (auto ticket = first; ticket != last; ++ticket)
        for (const auto& [other, theirs] : released[ticket->second])
            if (other != block) known[other] = {theirs, {(unsigned short)current, block_epoch}};
    touched.erase(first, last);
}

void Checker::note_atomic(const void* address) {
    auto fenced = fences.find(current);
    if (fenced == fences.end()) return;  // without a fence, it publishes nothing
    released[address][block] = {(unsigned short)current, fenced->second};
    touched.emplace(current, address);
}

void Checker::race(const Tracked& tracked, size_t offset, const Access& earlier, const char* what,
                   const Access& now) const {
    char text[200];
    describe(tracked.region.low + offset, text, sizeof text);
    fail("race", "%s at @%u@ and thread %u of block %u at @%u@, no barrier between: %s", what, now.counter,
         unsigned(earlier.thread), earlier.block - 1, earlier.counter, text);
}

void Checker::touch(Tracked& tracked, size_t offset, bool write, const Access& now) {
    Shadow& shadow = tracked.shadow[offset];
    bool shared = tracked.region.argument < 0;
    if (shadow.copying) {
        char text[200];
        describe(tracked.region.low + offset, text, sizeof text);
        fail("cp.async in flight", "touched at @%u@ before the copy to it was waited for: %s", now.counter, text);
    }
    if (shadow.write.block && !ordered(shadow.write, shared) && !(now.atomic && shadow.write.atomic))
        race(tracked, offset, shadow.write, write ? "two writes" : "a read, after a write", now);
    // "Visibility is ensured" by a volatile read or __ldcg: CUDA C++ Programming Guide, Memory Fence Functions.
    if (!write && !shared && !now.atomic && !now.past_l1 && shadow.write.block && shadow.write.block != block)
        race(tracked, offset, shadow.write, "a read through L1, after a write", now);
    if (write) {
        for (const Access& reader : shadow.readers)
            if (reader.block && !ordered(reader, shared) && !(now.atomic && reader.atomic))
                race(tracked, offset, reader, "a write, after a read", now);
        shadow.write = now;
        return;
    }
    if (shared && !shadow.write.block) {
        char text[200];
        describe(tracked.region.low + offset, text, sizeof text);
        fail("uninitialised", "a read at @%u@ of what no thread of the block has written: %s", now.counter, text);
    }
    Access &first = shadow.readers[0], &second = shadow.readers[1];
    auto replaceable = [&](const Access& reader) { return !reader.block || (reader.block == block && ordered(reader, shared)); };
    if (replaceable(first)) first = now;
    else if (replaceable(second) || second.thread / 32 == first.thread / 32) second = now;
}

void Checker::access(const void* address, size_t size, bool write, bool atomic, const void* counter, bool past_l1) {
    auto* low = static_cast<const char*>(address);
    Tracked* tracked = find(low);
    if (!tracked) return;
    Access now{block, block_epoch, warp_epochs[current / 32], offset_of(counter), (unsigned short)current, atomic, past_l1};
    if (low < tracked->region.low || low + size > tracked->region.high) {
        char text[200];
        describe(low < tracked->region.low ? low : low + size - 1, text, sizeof text);
        fail("out of bounds", "%zu bytes %s at @%u@: %s", size, write ? "written" : "read", now.counter, text);
    }
    size_t offset = size_t(low - tracked->region.low);
    for (size_t i = 0; i < size; ++i) touch(*tracked, offset + i, write, now);
    if (atomic) note_atomic(address);
}

void Checker::aligned_access(const void* address, size_t size, bool write, const void* counter) {
    if (uintptr_t(address) % size && find(static_cast<const char*>(address))) {
        char text[200];
        describe(static_cast<const char*>(address), text, sizeof text);
        fail("misaligned", "%zu bytes at @%u@: %s", size, offset_of(counter), text);
    }
    access(address, size, write, false, counter);
    note_turns(address, size, write, counter);
}

void Checker::note_turns(const void* address, size_t size, bool write, const void* counter) const {
    const Tracked& shared = regions.back();
    auto* low = static_cast<const char*>(address);
    if (checking && low >= shared.region.low && low < shared.region.high)
        banks.access(current, unsigned(low - shared.region.low), unsigned(size), write, offset_of(counter));
}

void Checker::copy_started(void* shared, size_t size, const void* counter) {
    access(shared, size, true, false, counter);
    note_turns(shared, size, true, counter);
    Tracked* tracked = find(static_cast<char*>(shared));
    size_t offset = size_t(static_cast<char*>(shared) - tracked->region.low);
    for (size_t i = 0; i < size; ++i) tracked->shadow[offset + i].copying = true;
}

void Checker::copy_finished(void* shared, size_t size, const void* counter) {
    Tracked* tracked = find(static_cast<char*>(shared));
    size_t offset = size_t(static_cast<char*>(shared) - tracked->region.low);
    for (size_t i = 0; i < size; ++i) tracked->shadow[offset + i].copying = false;
    access(shared, size, true, false, counter);
}

}  // namespace emulator

// -- hooks of -fsanitize=thread --------------------------------------------------------------------------------------

#define EMULATOR_HOOK(NAME, SIZE, WRITE, METHOD)                                                       \
    void __tsan_##NAME(void* address) {                                                                \
        if (emulator::checking)                                                                        \
            emulator::checker.METHOD(address, SIZE, WRITE, __builtin_return_address(0));               \
    }
#define EMULATOR_HOOKS(SIZE)                                                                            \
    EMULATOR_HOOK(read##SIZE, SIZE, false, aligned_access)                                              \
    EMULATOR_HOOK(write##SIZE, SIZE, true, aligned_access)                                              \
    EMULATOR_HOOK(volatile_read##SIZE, SIZE, false, aligned_access)                                     \
    EMULATOR_HOOK(volatile_write##SIZE, SIZE, true, aligned_access)                                     \
    EMULATOR_HOOK(unaligned_read##SIZE, SIZE, false, aligned_access)                                    \
    EMULATOR_HOOK(unaligned_write##SIZE, SIZE, true, aligned_access)

extern "C" {
EMULATOR_HOOKS(1)
EMULATOR_HOOKS(2)
EMULATOR_HOOKS(4)
EMULATOR_HOOKS(8)
EMULATOR_HOOKS(16)

void __tsan_read_range(void* address, size_t size) {
    if (emulator::checking) emulator::checker.access(address, size, false, false, __builtin_return_address(0));
}
void __tsan_write_range(void* address, size_t size) {
    if (emulator::checking) emulator::checker.access(address, size, true, false, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}
