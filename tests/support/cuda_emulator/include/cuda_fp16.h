// IEEE binary16 with the interface of CUDA's cuda_fp16.h. Arithmetic is in float32, rounded once to nearest even.
#pragma once
#include "emulator.hpp"

namespace emulator {

#ifdef __F16C__  // compiler builtins for two instructions: parsing <immintrin.h> takes longer than most kernels
typedef short Halves __attribute__((vector_size(16)));
typedef float Floats __attribute__((vector_size(16)));
#endif

inline float half_to_float(unsigned short bits) {
#ifdef __F16C__
    return __builtin_ia32_vcvtph2ps(Halves{short(bits)})[0];
#else
    unsigned sign = unsigned(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent == 31) return emulator_bits<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent) return emulator_bits<float>(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = float(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
#endif
}

inline unsigned short float_to_half(float value) {
#ifdef __F16C__
    return __builtin_ia32_vcvtps2ph(Floats{value}, 0)[0];  // 0: round to nearest even
#else
    unsigned bits = emulator_bits<unsigned>(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to 65536 or more
    if (magnitude < 0x38800000u) {                        // subnormal: multiples of 2^-24
        float scaled = emulator_bits<float>(magnitude) * 0x1p24f;
        return sign | unsigned(rintf(scaled));
    }
    unsigned rounded = magnitude + 0xfffu + (magnitude >> 13 & 1);
    return sign | ((rounded >> 13) - (112u << 10));
#endif
}

}  // namespace emulator

struct __half {
    unsigned short bits;
    __half() = default;
    __half(float x) : bits(emulator::float_to_half(x)) {}
    __half(double x) : bits(emulator::float_to_half(float(x))) {}
    __half(int x) : bits(emulator::float_to_half(float(x))) {}
    operator float() const { return emulator::half_to_float(bits); }
};
struct __align__(4) __half2 {
    __half x, y;
    EMULATOR_ALIGNED_COPY(__half2)
    __half2(__half x, __half y) : x(x), y(y) {}
    void assign(const __half2& other) { x = other.x, y = other.y; }
};
using half = __half;
using half2 = __half2;

static inline float __half2float(__half x) { return x; }
static inline __half __float2half_rn(float x) { return __half(x); }
static inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }

// All operators, used or not: without an operator, its operands would silently convert to float.
static inline __half operator+(__half a, __half b) { return __half(float(a) + float(b)); }
static inline __half operator-(__half a, __half b) { return __half(float(a) - float(b)); }
static inline __half operator*(__half a, __half b) { return __half(float(a) * float(b)); }
static inline __half operator/(__half a, __half b) { return __half(float(a) / float(b)); }
static inline __half operator-(__half a) { return __half(-float(a)); }
static inline __half& operator+=(__half& a, __half b) { return a = a + b; }
static inline __half& operator*=(__half& a, __half b) { return a = a * b; }

EMULATOR_UNSEEN static inline __half2 atomicAdd(__half2* address, __half2 value) {
    return emulator::atomically(address, [value](__half2 old) __attribute__((no_sanitize_thread)) {
        return __half2{old.x + value.x, old.y + value.y};
    });
}
