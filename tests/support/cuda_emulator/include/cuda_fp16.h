// IEEE binary16 as CUDA's cuda_fp16.h offers it. Arithmetic is done in float32 and rounded once, to nearest even.
#pragma once
#include "emulator.hpp"

namespace emulator {

#ifdef __F16C__  // the compiler's own names for two instructions: <immintrin.h> takes longer to read than most kernels
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
    return __builtin_ia32_vcvtps2ph(Floats{value}, 0)[0];  // 0: to nearest even
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
static inline __half __float2half(float x) { return __half(x); }
static inline __half __float2half_rn(float x) { return __half(x); }
static inline __half __int2half_rn(int x) { return __half(x); }
static inline unsigned short __half_as_ushort(__half x) { return x.bits; }
static inline short __half_as_short(__half x) { return short(x.bits); }
static inline __half __ushort_as_half(unsigned short bits) {
    __half x;
    x.bits = bits;
    return x;
}
static inline __half2 make_half2(__half x, __half y) { return {x, y}; }
static inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
static inline __half2 __half2half2(__half x) { return {x, x}; }
static inline __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
static inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
static inline __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
static inline float2 __half22float2(__half2 v) { return {float(v.x), float(v.y)}; }
static inline __half __low2half(__half2 v) { return v.x; }
static inline __half __high2half(__half2 v) { return v.y; }
static inline float __low2float(__half2 v) { return v.x; }
static inline float __high2float(__half2 v) { return v.y; }

static inline __half __hadd(__half a, __half b) { return __half(float(a) + float(b)); }
static inline __half __hsub(__half a, __half b) { return __half(float(a) - float(b)); }
static inline __half __hmul(__half a, __half b) { return __half(float(a) * float(b)); }
static inline __half __hdiv(__half a, __half b) { return __half(float(a) / float(b)); }
static inline __half __hfma(__half a, __half b, __half c) { return __half(fmaf(a, b, c)); }
static inline __half __hneg(__half a) { return __ushort_as_half(a.bits ^ 0x8000u); }
static inline __half __habs(__half a) { return __ushort_as_half(a.bits & 0x7fffu); }
static inline __half __hmax(__half a, __half b) { return __half(fmaxf(a, b)); }
static inline __half __hmin(__half a, __half b) { return __half(fminf(a, b)); }
static inline bool __hisnan(__half a) { return (a.bits & 0x7fffu) > 0x7c00u; }
static inline int __hisinf(__half a) { return (a.bits & 0x7fffu) == 0x7c00u ? (a.bits >> 15 ? -1 : 1) : 0; }
static inline bool __hgt(__half a, __half b) { return float(a) > float(b); }
static inline bool __hlt(__half a, __half b) { return float(a) < float(b); }
static inline __half hexp(__half a) { return __half(expf(a)); }
static inline __half hexp2(__half a) { return __half(exp2f(a)); }

static inline __half2 __hadd2(__half2 a, __half2 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
static inline __half2 __hsub2(__half2 a, __half2 b) { return {__hsub(a.x, b.x), __hsub(a.y, b.y)}; }
static inline __half2 __hmul2(__half2 a, __half2 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
static inline __half2 __hmax2(__half2 a, __half2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
static inline __half2 h2exp2(__half2 a) { return {hexp2(a.x), hexp2(a.y)}; }

static inline __half operator+(__half a, __half b) { return __hadd(a, b); }
static inline __half operator-(__half a, __half b) { return __hsub(a, b); }
static inline __half operator*(__half a, __half b) { return __hmul(a, b); }
static inline __half operator/(__half a, __half b) { return __hdiv(a, b); }
static inline __half operator-(__half a) { return __hneg(a); }
static inline __half& operator+=(__half& a, __half b) { return a = __hadd(a, b); }
static inline __half& operator*=(__half& a, __half b) { return a = __hmul(a, b); }
static inline __half2 operator+(__half2 a, __half2 b) { return __hadd2(a, b); }
static inline __half2 operator*(__half2 a, __half2 b) { return __hmul2(a, b); }

EMULATOR_UNSEEN static inline __half2 atomicAdd(__half2* address, __half2 value) {
    return emulator::atomically(address, [value](__half2 old) __attribute__((no_sanitize_thread)) {
        return __hadd2(old, value);
    });
}
