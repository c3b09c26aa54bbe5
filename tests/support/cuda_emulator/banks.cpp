#include "banks.hpp"

#include <algorithm>

namespace emulator {

Banks banks;

namespace {

constexpr unsigned none = ~0u;

// Return the turns for `count` lanes from `first` on: the largest number of different words requested from one bank.
unsigned turns_of(const unsigned* places, unsigned size, unsigned first, unsigned count) {
    unsigned words[32], number = 0, in_bank[32] = {};
    for (unsigned lane = first; lane < first + count; ++lane)
        for (unsigned byte = 0; places[lane] != none && byte < size; byte += 4) words[number++] = (places[lane] + byte) / 4;
    std::sort(words, words + number);
    number = unsigned(std::unique(words, words + number) - words);
    for (unsigned i = 0; i < number; ++i) ++in_bank[words[i] % 32];
    return *std::max_element(in_bank, in_bank + 32);
}

}  // namespace

void Banks::start_launch(unsigned threads) {
    of_launch.clear();
    warps.assign((threads + 31) / 32, Warp{});
}

void Banks::access(unsigned thread, unsigned place, unsigned size, bool write, unsigned counter) {
    Warp& warp = warps[thread / 32];
    Instruction& now = warp.instructions[(unsigned long long)counter << 6 | size << 1 | write];
    if (now.requests.empty()) {
        now = {counter, size, {}, {}};
        warp.touched.push_back(&now);
    }
    unsigned lane = thread % 32, time = now.times[lane]++;
    if (time == now.requests.size()) {
        now.requests.emplace_back();
        std::fill_n(now.requests.back().places, 32, none);
    }
    now.requests[time].places[lane] = place;
}

void Banks::meet(unsigned number) {
    for (Instruction* now : warps[number].touched) {
        Turns& sum = of_launch[now->counter];
        unsigned together = now->size <= 4 ? 32 : 128 / now->size;
        for (const Request& request : now->requests)
            for (unsigned first = 0; first < 32; first += together) {
                unsigned turns = turns_of(request.places, now->size, first, together);
                sum.least += turns > 0;
                sum.taken += turns;
            }
        now->requests.clear();
    }
    warps[number].touched.clear();
}

}  // namespace emulator

// Write (program counter, least turns, turns taken) of each instruction in the last launch; return their number.
extern "C" unsigned emulator_turns(unsigned long long (*rows)[3], unsigned room) {
    unsigned number = 0;
    for (const auto& [counter, turns] : emulator::banks.of_launch)
        if (number++ < room) {
            rows[number - 1][0] = counter;
            rows[number - 1][1] = turns.least;
            rows[number - 1][2] = turns.taken;
        }
    return number;
}
