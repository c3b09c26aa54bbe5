// The built-in arithmetic functions of CUDA C++ that the kernels use.
#pragma once

template <class To, class From>
static inline To emulator_bits(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To result;
    __builtin_memcpy(&result, &value, sizeof result);
    return result;
}
static inline float __int_as_float(int x) { return emulator_bits<float>(x); }

static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((uint64_t(a) * b) >> 32); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }

#define EMULATOR_MIN_MAX(T)                                          \
    static inline T min(T a, T b) { return a < b ? a : b; }          \
    static inline T max(T a, T b) { return a > b ? a : b; }
EMULATOR_MIN_MAX(int)
EMULATOR_MIN_MAX(unsigned)
EMULATOR_MIN_MAX(long long)
EMULATOR_MIN_MAX(unsigned long long)
#undef EMULATOR_MIN_MAX
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
#define __expf(x) expf(x)  // a macro, since the C library declares an internal function of this name
static inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678f); }
using std::isfinite;

template <class T> EMULATOR_UNSEEN T __ldcg(const T* p) {
    emulator::note_read_past_l1(p, sizeof(T));
    return *p;
}
