// Counts the turns of shared memory for a warp's accesses. Shared memory has 32 banks; successive four-byte words are
// in successive banks. In a turn, each bank transfers one word, for any number of lanes. One turn can serve 32 lanes
// with accesses of up to 4 bytes, 16 lanes with 8 bytes, or 8 lanes with 16 bytes. More turns are bank conflicts.
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
    // Record an access of a thread at byte `place` of shared memory. `counter`: its program counter.
    void access(unsigned thread, unsigned place, unsigned size, bool write, unsigned counter);
    // The lanes of a warp have met: their later accesses belong to other instructions.
    void meet(unsigned warp);

    std::map<unsigned, Turns> of_launch;  // key: program counter of the instruction

private:
    struct Request {  // one execution of an instruction, by the lanes whose place is not `none`
        unsigned places[32];
    };
    // All executions of an instruction since the lanes met. The threads of a warp run one after another: the n-th
    // execution by one lane is paired with the n-th execution by another lane.
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
