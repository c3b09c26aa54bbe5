// Runs the blocks of a launch one after the other. The threads of a block are fibers that yield at barriers.
//
// Within a block one warp at a time runs until all its lanes wait. The order of warps and lanes is a permutation drawn
// from the seed. An odd seed reverses the permutation of its predecessor: of two threads that do not wait for each
// other, each runs first under one of the two seeds.
#include "include/runtime.hpp"

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "banks.hpp"
#include "checker.hpp"
#include "fibers.hpp"

namespace emulator {

Index thread_index, block_index, block_size, grid_size;
bool checking = false;

namespace {

constexpr size_t guard_size = 4 << 20;  // on both sides of every array

enum class State { ready, at_block, at_warp, done };

struct AsyncCopy {
    char* shared;
    const char* global;
    unsigned bytes, valid_bytes, group;
};

struct Fiber {
    Context context;
    State state;
    Index index;
    unsigned number, lane, mask;
    const char* waits_at;  // name of the operation that the fiber waits in
    Place place;
    Combine combine;
    LaneCall call;
    bool orders_memory;
    std::vector<AsyncCopy> copies;
    unsigned group;  // group number of the next cp.async
};

struct Launch {
    const Kernel* kernel;
    void** arguments;
    Region shared;
    std::vector<Region> arrays;
    std::mt19937 random;
    bool backwards;
    char* message;
    size_t message_size;
};

Launch* launch;
Stacks stacks;
std::vector<Fiber> fibers;
Fiber* current;
Context scheduler;
sigjmp_buf escape;

void give_way() { switch_context(&current->context, &scheduler); }

[[noreturn]] void fiber_main() {
    launch->kernel->invoke(launch->arguments);
    if (!current->copies.empty())
        fail("unfinished cp.async", "the thread ended with %zu copies that it never waited for", current->copies.size());
    current->state = State::done;
    give_way();
    __builtin_unreachable();
}

bool same_text(const char* a, const char* b) { return a == b || !strcmp(a, b); }

bool same_place(const Fiber& a, const Fiber& b) {
    return a.place.line == b.place.line && same_text(a.place.file, b.place.file) && same_text(a.waits_at, b.waits_at);
}

// Complete a warp operation if every lane in the mask of `last` has reached it.
void release_warp(Fiber* warp, unsigned lanes, Fiber& last) {
    unsigned all = lanes == 32 ? ~0u : (1u << lanes) - 1, mask = last.mask & all;
    LaneCall* calls[32] = {};
    for (unsigned lane = 0; lane < lanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        Fiber& other = warp[lane];
        if (other.state == State::done)
            fail("divergent warp", "%s at %s:%d names lane %u, whose thread has ended", last.waits_at, last.place.file,
                 last.place.line, lane);
        if (other.state != State::at_warp) return;
        if ((other.mask & all) != mask || !same_place(other, last))
            fail("divergent warp", "%s at %s:%d with mask %08x, but lane %u is in %s at %s:%d with mask %08x",
                 last.waits_at, last.place.file, last.place.line, last.mask, lane, other.waits_at, other.place.file,
                 other.place.line, other.mask);
        calls[lane] = &other.call;
    }
    if (last.combine) last.combine(calls);
    if (last.orders_memory && mask == all) checker.warp_barrier(last.number / 32);
    if (checking && mask == all) banks.meet(last.number / 32);
    for (unsigned lane = 0; lane < lanes; ++lane)
        if (calls[lane]) warp[lane].state = State::ready;
}

void run_warp(Fiber* warp, unsigned lanes, const std::vector<unsigned>& order) {
    for (bool progress = true; progress;) {
        progress = false;
        for (unsigned position : order) {
            if (position >= lanes || warp[position].state != State::ready) continue;
            progress = true;
            current = &warp[position];
            thread_index = current->index;
            checker.thread(current->number);
            switch_context(&scheduler, &current->context);
            if (current->state == State::at_warp) release_warp(warp, lanes, *current);
        }
    }
}

// Every thread waits or has ended: open the barrier, or report why no thread can continue.
bool open_barrier() {
    Fiber *waiting = nullptr, *stuck = nullptr;
    for (Fiber& fiber : fibers) {
        if (fiber.state == State::at_warp) stuck = &fiber;
        if (fiber.state == State::at_block) {
            if (waiting && !same_place(*waiting, fiber))
                fail("divergent barrier", "thread %u waits at %s:%d, thread %u at %s:%d", waiting->number,
                     waiting->place.file, waiting->place.line, fiber.number, fiber.place.file, fiber.place.line);
            waiting = &fiber;
        }
    }
    if (stuck)
        fail("deadlock", "thread %u waits in %s at %s:%d for lanes %08x%s", stuck->number, stuck->waits_at,
             stuck->place.file, stuck->place.line, stuck->mask,
             waiting ? ", others of its block wait in __syncthreads" : "");
    for (unsigned warp = 0; checking && warp < (fibers.size() + 31) / 32; ++warp) banks.meet(warp);
    if (!waiting) return false;
    for (Fiber& fiber : fibers)
        if (fiber.state == State::at_block) fiber.state = State::ready;
    checker.block_barrier();
    return true;
}

std::vector<unsigned> draw_order(size_t size) {
    std::vector<unsigned> order(size);
    std::iota(order.begin(), order.end(), 0u);
    for (size_t i = size; i > 1; --i) std::swap(order[i - 1], order[launch->random() % i]);
    if (launch->backwards) return {order.rbegin(), order.rend()};
    return order;
}

void run_block() {
    memset(launch->shared.low, 0xff, size_t(launch->shared.high - launch->shared.low));  // NaN in float and half
    checker.start_block(grid_size.x * (grid_size.y * block_index.z + block_index.y) + block_index.x);
    unsigned number = 0, count = unsigned(fibers.size());
    for (Fiber& fiber : fibers) {
        fiber.state = State::ready;
        fiber.number = number;
        fiber.lane = number % 32;
        fiber.index = {number % block_size.x, number / block_size.x % block_size.y,
                       number / block_size.x / block_size.y};
        fiber.copies.clear();
        fiber.group = 0;
        prepare_context(&fiber.context, stacks.get(number++), Stacks::size, fiber_main);
    }
    auto warps = draw_order((count + 31) / 32), lanes = draw_order(32);
    do {
        for (unsigned warp : warps) run_warp(&fibers[32 * warp], std::min(32u, count - 32 * warp), lanes);
    } while (open_barrier());
}

[[noreturn]] void finish(const char* kind, const char* text) {
    char where[160] = "";
    if (current)
        snprintf(where, sizeof where, "block (%u, %u, %u), thread (%u, %u, %u): ", block_index.x, block_index.y,
                 block_index.z, thread_index.x, thread_index.y, thread_index.z);
    snprintf(launch->message, launch->message_size, "%s\n%s%s", kind, where, text);
    siglongjmp(escape, 1);
}

void on_signal(int number, siginfo_t* information, void*) {
    char text[400];
    auto* address = static_cast<char*>(information->si_addr);
    if (number == SIGFPE) finish("division by zero", "an integer was divided by zero");
    if (stacks.overflowed(address)) finish("stack overflow", "the thread used more than its 128 KiB of stack");
    if (!address) finish("wild pointer", "a null pointer, or an address that its type can't be aligned to");
    checker.describe(address, text, sizeof text);
    finish("out of bounds", text);
}

// Kernels are compiled with -ftz=true, as in CuPy: subnormal float32 operands and results count as zero. (Subnormal
// float16 numbers do not.)
class FlushToZero {
#ifdef __SSE2__
public:
    FlushToZero() { __builtin_ia32_ldmxcsr(before | 0x8040); }
    void restore() { __builtin_ia32_ldmxcsr(before); }

private:
    unsigned before = __builtin_ia32_stmxcsr();
#else
public:
    void restore() {}
#endif
};

// Installs the signal handlers for the duration of a launch. The handlers have a separate stack.
class SignalHandlers {
public:
    SignalHandlers() {
        static char stack[64 * 1024];
        stack_t own{};
        own.ss_sp = stack;
        own.ss_size = sizeof stack;
        sigaltstack(&own, &old_stack);
        struct sigaction action {};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        for (int i = 0; i < 3; ++i) sigaction(numbers[i], &action, &old[i]);
    }
    void restore() {
        for (int i = 0; i < 3; ++i) sigaction(numbers[i], &old[i], nullptr);
        sigaltstack(&old_stack, nullptr);
    }

private:
    static constexpr int numbers[3] = {SIGSEGV, SIGBUS, SIGFPE};
    struct sigaction old[3];
    stack_t old_stack{};
};

}  // namespace

// -- functions for kernels --------------------------------------------------------------------------------------------

void fail(const char* kind, const char* format, ...) {
    char text[600];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    finish(kind, text);
}

void* shared_memory() { return launch->shared.low; }

char* shared_pointer(unsigned address, unsigned bytes, const char* what, Place place) {
    auto size = size_t(launch->shared.high - launch->shared.low), offset = size_t(address) - shared_window;
    if (address % bytes)
        fail("misaligned", "%s of %u bytes at %s:%d: both addresses must be multiples of %u", what, bytes, place.file,
             place.line, bytes);
    if (address < shared_window || offset + bytes > size)
        fail("out of bounds", "%s at %s:%d goes outside of shared memory, to byte %td of %zu", what, place.file, place.line,
             ptrdiff_t(offset), size);
    return launch->shared.low + offset;
}

unsigned lane_number() { return current->lane; }

void sync_block(Place place) {
    current->state = State::at_block;
    current->waits_at = "__syncthreads";
    current->place = place;
    give_way();
}

void sync_warp(unsigned mask, const char* name, Place place, Combine combine, void* data, bool orders_memory) {
    if (!(mask >> current->lane & 1))
        fail("divergent warp", "%s at %s:%d: the lane is not in its own mask %08x", name, place.file, place.line, mask);
    current->state = State::at_warp;
    current->mask = mask;
    current->waits_at = name;
    current->place = place;
    current->combine = combine;
    current->call.data = data;
    current->orders_memory = orders_memory;
    give_way();
}

void copy_async(void* shared, const void* global, unsigned bytes, unsigned valid_bytes, Place place) {
    if (uintptr_t(global) % bytes)
        fail("misaligned", "cp.async of %u bytes at %s:%d: both addresses must be multiples of %u", bytes, place.file,
             place.line, bytes);
    if (valid_bytes > bytes)
        fail("bad cp.async", "%u valid bytes of %u at %s:%d", valid_bytes, bytes, place.file, place.line);
    if (checking) {
        const void* counter = __builtin_return_address(0);
        if (valid_bytes) checker.access(global, valid_bytes, false, false, counter);
        checker.copy_started(shared, bytes, counter);
    } else if (valid_bytes) {
        volatile char touched = static_cast<const char*>(global)[valid_bytes - 1];  // fault here, not at the wait
        (void)touched;
    }
    current->copies.push_back({static_cast<char*>(shared), static_cast<const char*>(global), bytes, valid_bytes, current->group});
}

void copy_async_commit() { ++current->group; }

void copy_async_wait(int groups_in_flight) {
    auto& copies = current->copies;
    size_t kept = 0;
    for (AsyncCopy& copy : copies) {
        if (copy.group + unsigned(groups_in_flight) >= current->group) {
            copies[kept++] = copy;
            continue;
        }
        memcpy(copy.shared, copy.global, copy.valid_bytes);
        memset(copy.shared + copy.valid_bytes, 0, copy.bytes - copy.valid_bytes);
        if (checking) checker.copy_finished(copy.shared, copy.bytes, __builtin_return_address(0));
    }
    copies.resize(kept);
}

void note_read(const void* address, size_t size) {
    if (checking) checker.aligned_access(address, size, false, __builtin_return_address(0));
}

void note_read_past_l1(const void* address, size_t size) {
    if (checking) checker.access(address, size, false, false, __builtin_return_address(0), true);
}

void note_fence() { checker.fence(); }

void note_access(const void* address, size_t size, bool write, bool atomic, const void* program_counter) {
    if (atomic) checker.access(address, size, write, true, program_counter);
    else checker.aligned_access(address, size, write, program_counter);
}

}  // namespace emulator

// -- functions for Python ---------------------------------------------------------------------------------------------

using namespace emulator;

extern "C" {

// Map `size` bytes between inaccessible guard regions, at an address that is `place` modulo `alignment`. Fill the slack
// around the bytes with a pattern.
int emulator_map(size_t size, size_t alignment, size_t place, int argument, Region* region) {
    size_t page = size_t(sysconf(_SC_PAGESIZE)), body = (size + alignment + page - 1) / page * page;
    size_t whole = body + 2 * guard_size;
    void* memory = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return -1;
    char *low = static_cast<char*>(memory), *high = low + whole;
    mprotect(low + guard_size, body, PROT_READ | PROT_WRITE);
    char* start = high - guard_size - size;
    start -= (size_t(start) - place) % alignment;
    *region = {low, high, start, start + size, argument};
    memset(low + guard_size, 0xa5, body);
    return 0;
}

void emulator_unmap(Region* region) { munmap(region->map_low, size_t(region->map_high - region->map_low)); }

// Return whether the slack around an array is unchanged.
int emulator_slack_is_whole(const Region* region) {
    for (char* p = region->map_low + guard_size; p < region->low; ++p)
        if (*p != char(0xa5)) return 0;
    for (char* p = region->high; p < region->map_high - guard_size; ++p)
        if (*p != char(0xa5)) return 0;
    return 1;
}

// Return 0, or 1 with the error's kind, a newline and a description in `message`. `only`: the block to run, or null.
int emulator_launch(const Kernel* kernel, const unsigned* grid, const unsigned* block, void** arguments,
                    const Region* shared, const Region* arrays, int array_count, unsigned seed, int checked,
                    const unsigned* only, char* message, size_t message_size) {
    Launch description{kernel, arguments, *shared, {arrays, arrays + array_count}, std::mt19937(seed / 2),
                       seed % 2 == 1, message, message_size};
    launch = &description;
    current = nullptr;
    checking = checked;
    grid_size = {grid[0], grid[1], grid[2]};
    block_size = {block[0], block[1], block[2]};
    fibers.resize(size_t(block[0]) * block[1] * block[2]);
    std::vector<Region> regions(description.arrays);
    regions.push_back(*shared);
    checker.start_launch(regions, reinterpret_cast<const void*>(kernel->invoke), checked, unsigned(fibers.size()));
    banks.start_launch(checked ? unsigned(fibers.size()) : 0);
    SignalHandlers handlers;
    FlushToZero flush;
    int failed = sigsetjmp(escape, 1);
    if (!failed) {
        if (!stacks.get(fibers.size() - 1)) fail("no memory", "no stacks for %zu threads", fibers.size());
        std::vector<size_t> order(only ? 1 : size_t(grid[0]) * grid[1] * grid[2]);
        std::iota(order.begin(), order.end(), only ? only[0] + size_t(grid[0]) * (only[1] + size_t(grid[1]) * only[2]) : 0);
        if (seed > 1) std::shuffle(order.begin(), order.end(), std::mt19937(seed / 2));
        if (description.backwards) std::reverse(order.begin(), order.end());
        for (size_t number : order) {
            block_index = {unsigned(number % grid[0]), unsigned(number / grid[0] % grid[1]),
                           unsigned(number / grid[0] / grid[1])};
            run_block();
        }
    }
    flush.restore();
    handlers.restore();
    checker.finish_launch();
    checking = false;
    return failed;
}
}
