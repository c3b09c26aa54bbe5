// How long shared memory takes for what a warp asks of it. It has 32 banks, and the words of four bytes lie in them by turns.
// A turn gives or takes one word of each bank, to however many lanes want it. Accesses of up to 4 bytes are served for 32
// lanes at a time, those of 8 for 16, those of 16 for 8: so much a turn can do, and more turns are bank conflicts.
#pragma once
#include <map>
#include <unordered_map>
#include <vector>

namespace emulator {

struct Turns {
    unsigned long long least, taken;
};

class Banks {
public:
    void start_launch(unsigned threads);
    // An access of a thread, at byte `place` of shared memory, by the instruction at `counter` of the kernel's library.
    void access(unsigned thread, unsigned place, unsigned size, bool write, unsigned counter);
    // The lanes of a warp have come together: what they do from here on belongs to other instructions.
    void meet(unsigned warp);

    std::map<unsigned, Turns> of_launch;  // by the instruction's counter

private:
    struct Request {  // one instruction, carried out by those lanes whose place is not `none`
        unsigned places[32];
    };
    // All times that an instruction was carried out since the lanes met. The threads of a warp come one after another: the
    // n-th time of one lane is taken for the same as the n-th of another.
    struct Instruction {
        unsigned counter, size, times[32];
        std::vector<Request> requests;
    };
    struct Warp {
        std::unordered_map<unsigned long long, Instruction> instructions;
        std::vector<Instruction*> touched;
    };
    std::vector<Warp> warps;
};

extern Banks banks;

}  // namespace emulator
