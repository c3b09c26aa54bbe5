// The instructions of inline PTX, in the form that ../ptx.py generates.
#pragma once
#include <array>

#include "runtime.hpp"

namespace emulator::ptx {

// The inputs of an asm statement, by constraint. A value of another width would need another type of register.
template <class T>
unsigned r(T value) {
    static_assert(std::is_integral_v<T> && sizeof(T) == 4, "the constraint r is for whole numbers of 32 bits");
    return unsigned(value);
}
template <class T>
unsigned long long l(T value) {
    static_assert(sizeof(T) == 8 && !std::is_floating_point_v<T>, "the constraint l is for 64 bits");
    return (unsigned long long)(value);
}
template <class T>
float f(T value) {
    static_assert(std::is_same_v<T, float>, "the constraint f is for float");
    return value;
}
constexpr int n(int value) { return value; }

// A register that is only written holds an arbitrary value before: here NaN, as a float or as a pair of float16.
template <class T>
void unset(T& value) {
    static_assert(sizeof(T) == 4);
    const unsigned nan = 0xffffffffu;
    __builtin_memcpy(&value, &nan, 4);
}

inline std::array<float, 4> mma_m16n8k16(std::array<unsigned, 4> a, std::array<unsigned, 2> b, std::array<float, 4> c,
                                         Place place) {
    MmaCall call{a.data(), b.data(), c.data()};
    sync_warp(0xffffffffu, "mma.sync", place, combine_mma_m16n8k16, &call, false);
    return c;
}

template <bool TRANSPOSED>
std::array<unsigned, 4> ldmatrix_x4(unsigned address, Place place) {
    std::array<unsigned, 4> registers;
    const void* row = shared_pointer(address, 16, "ldmatrix", place);
    note_read(row, 16);
    MatrixCall call{row, registers.data(), TRANSPOSED};
    sync_warp(0xffffffffu, "ldmatrix", place, combine_ldmatrix, &call, false);
    return registers;
}

inline void copy_async(unsigned shared, unsigned long long global, unsigned bytes, unsigned valid_bytes, Place place) {
    emulator::copy_async(shared_pointer(shared, bytes, "cp.async", place), (const void*)global, bytes, valid_bytes, place);
}

inline float ex2_flushed(float x) {
    float result = exp2f(x);
    return result < 1.17549435e-38f ? 0.0f : result;
}

}  // namespace emulator::ptx

// Return an address in the shared-memory window that ldmatrix and cp.async use.
static inline size_t __cvta_generic_to_shared(const void* pointer) {
    return emulator::shared_window + size_t((const char*)pointer - (const char*)emulator::shared_memory());
}
