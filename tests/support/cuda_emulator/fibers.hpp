// Fibers: one stack for each CUDA thread, and the switch between them.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace emulator {

#ifdef __x86_64__

using Context = void*;  // the stack pointer; callee-saved registers are on the stack

extern "C" void emulator_switch(void** save, void* resume);
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, @function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulator_switch, .-emulator_switch
)");

inline void switch_context(Context* save, Context* resume) { emulator_switch(save, *resume); }

inline void prepare_context(Context* context, char* stack, size_t size, void (*entry)()) {
    auto top = reinterpret_cast<uintptr_t>(stack + size) & ~uintptr_t(15);
    auto* frame = reinterpret_cast<void**>(top - 8);  // as after a call: rsp + 8 is a multiple of 16
    *frame = nullptr;
    *--frame = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--frame = nullptr;
    *context = frame;
}

#else

using Context = ucontext_t;

inline void switch_context(Context* save, Context* resume) { swapcontext(save, resume); }

inline void prepare_context(Context* context, char* stack, size_t size, void (*entry)()) {
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = size;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
}

#endif

// Stacks, reused by later launches. A guard page is below each stack.
class Stacks {
public:
    static constexpr size_t size = 128 * 1024;

    char* get(size_t number) {
        while (stacks.size() <= number) {
            size_t page = size_t(sysconf(_SC_PAGESIZE));
            void* memory = mmap(nullptr, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory == MAP_FAILED) return nullptr;
            mprotect(memory, page, PROT_NONE);
            stacks.push_back(static_cast<char*>(memory) + page);
        }
        return stacks[number];
    }

    // Return whether `address` is in the guard page of a stack: the thread overflowed its stack.
    bool overflowed(const char* address) const {
        for (const char* stack : stacks)
            if (address < stack && address >= stack - sysconf(_SC_PAGESIZE)) return true;
        return false;
    }

private:
    std::vector<char*> stacks;
};

}  // namespace emulator
