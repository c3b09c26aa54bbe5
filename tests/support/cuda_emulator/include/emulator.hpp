// The part of CUDA C++ that the kernels use without an include: qualifiers, built-in variables, vector types, warp
// operations, atomics. This file is included before the kernel's source.
#pragma once
#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime.hpp"

#undef INFINITY  // defined by the host's headers, which the real compiler does not read
#undef NAN

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define EMULATOR_UNSEEN __attribute__((no_sanitize_thread, noinline))  // its accesses are recorded explicitly

#define threadIdx emulator::thread_index
#define blockIdx emulator::block_index
#define blockDim emulator::block_size
#define gridDim emulator::grid_size

#define EMULATOR_HERE emulator::Place place = {__builtin_FILE(), __builtin_LINE()}

// -- vector types ----------------------------------------------------------------------------------------------------

namespace emulator {
// A GPU accesses a vector as a whole, at a multiple of its size. (The host's processor does not require this.)
template <class V>
__attribute__((always_inline, no_sanitize_thread)) inline void check_alignment(const V* address) {
    auto number = uintptr_t(address);
    asm("" : "+r"(number));  // the compiler assumes the type's alignment; this forces the check
    if (number % alignof(V)) fail("misaligned", "a vector of %zu bytes is not at a multiple of %zu", sizeof(V), alignof(V));
}
}  // namespace emulator

#ifdef __SANITIZE_THREAD__  // record a vector access as one access
namespace emulator {
template <class V>
EMULATOR_UNSEEN void copy_vector(V* to, const V* from) {
    note_access(from, sizeof(V), false, false, __builtin_return_address(0));
    note_access(to, sizeof(V), true, false, __builtin_return_address(0));
    __builtin_memcpy(static_cast<void*>(to), from, sizeof(V));
}
}  // namespace emulator
#define EMULATOR_COPY(other) emulator::copy_vector(this, &other)
#else
#define EMULATOR_COPY(other) assign(other)
#endif

#define EMULATOR_ALIGNED_COPY(V)                            \
    V() = default;                                          \
    V(const V& other) { *this = other; }                    \
    V& operator=(const V& other) {                          \
        emulator::check_alignment(this);                    \
        emulator::check_alignment(&other);                  \
        EMULATOR_COPY(other);                               \
        return *this;                                       \
    }

#define EMULATOR_VECTORS(T, NAME)                                                                       \
    struct __align__(2 * sizeof(T)) NAME##2 {                                                           \
        T x, y;                                                                                         \
        EMULATOR_ALIGNED_COPY(NAME##2)                                                                  \
        NAME##2(T x, T y) : x(x), y(y) {}                                                               \
        void assign(const NAME##2& other) { x = other.x, y = other.y; }                                 \
    };                                                                                                  \
    struct __align__(4 * sizeof(T)) NAME##4 {                                                           \
        T x, y, z, w;                                                                                   \
        EMULATOR_ALIGNED_COPY(NAME##4)                                                                  \
        NAME##4(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}                                         \
        void assign(const NAME##4& other) { x = other.x, y = other.y, z = other.z, w = other.w; }       \
    };                                                                                                  \
    static inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                                   \
    static inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATOR_VECTORS(unsigned, uint)
EMULATOR_VECTORS(float, float)
#undef EMULATOR_VECTORS

// -- barriers, votes, shuffles ---------------------------------------------------------------------------------------

static inline void __syncthreads(EMULATOR_HERE) { emulator::sync_block(place); }
static inline void __threadfence() {
    if (emulator::checking) emulator::note_fence();
}

namespace emulator {

template <class T>
struct ShuffleCall {
    T value, result;
    int source;  // lane to read, or this lane
};

template <class T>
void combine_shuffle(LaneCall* const* calls) {
    for (int lane = 0; lane < 32; ++lane) {
        if (!calls[lane]) continue;
        auto& call = *static_cast<ShuffleCall<T>*>(calls[lane]->data);
        if (!calls[call.source]) fail("shuffle", "lane %d reads lane %d, which takes no part", lane, call.source);
        call.result = static_cast<ShuffleCall<T>*>(calls[call.source]->data)->value;
    }
}

template <class T>
T shuffle(unsigned mask, T value, int source, bool inside, const char* name, Place place) {
    ShuffleCall<T> call{value, value, inside ? source : int(lane_number())};
    sync_warp(mask, name, place, combine_shuffle<T>, &call, false);
    return call.result;
}

struct VoteCall {
    unsigned predicate, ballot;
};
inline void combine_vote(LaneCall* const* calls) {
    unsigned ballot = 0;
    for (int lane = 0; lane < 32; ++lane)
        if (calls[lane] && static_cast<VoteCall*>(calls[lane]->data)->predicate) ballot |= 1u << lane;
    for (int lane = 0; lane < 32; ++lane)
        if (calls[lane]) static_cast<VoteCall*>(calls[lane]->data)->ballot = ballot;
}
inline unsigned vote(unsigned mask, bool predicate, const char* name, Place place) {
    VoteCall call{predicate, 0};
    sync_warp(mask, name, place, combine_vote, &call, false);
    return call.ballot;
}

}  // namespace emulator

static inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATOR_HERE) {
    emulator::sync_warp(mask, "__syncwarp", place, nullptr, nullptr, true);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATOR_HERE) {
    return emulator::vote(mask, predicate, "__ballot_sync", place);
}
static inline int __any_sync(unsigned mask, int predicate, EMULATOR_HERE) {
    return emulator::vote(mask, predicate, "__any_sync", place) != 0;
}
// Lanes form segments of `width`. A lane keeps its value if the source is before (up) or after (xor) its segment.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMULATOR_HERE) {
    int lane = emulator::lane_number();
    return emulator::shuffle(mask, value, (lane & ~(width - 1)) + (source & (width - 1)), true, "__shfl_sync", place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATOR_HERE) {
    int lane = emulator::lane_number();
    bool inside = int(lane & (width - 1)) >= int(delta);
    return emulator::shuffle(mask, value, lane - int(delta), inside, "__shfl_up_sync", place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, EMULATOR_HERE) {
    int lane = emulator::lane_number(), source = lane ^ bits;
    bool inside = source / width <= lane / width;
    return emulator::shuffle(mask, value, source, inside, "__shfl_xor_sync", place);
}

// -- atomics ---------------------------------------------------------------------------------------------------------

namespace emulator {
template <class T, class Change>
__attribute__((no_sanitize_thread, always_inline)) inline T atomically(T* address, Change change) {
    if (checking) note_access(address, sizeof(T), true, true, __builtin_return_address(0));
    T old;
    __builtin_memcpy(&old, address, sizeof(T));
    T changed = change(old);
    __builtin_memcpy(address, &changed, sizeof(T));
    return old;
}
}  // namespace emulator

#define EMULATOR_ATOMIC(NAME, EXPRESSION)                                                           \
    template <class T>                                                                              \
    EMULATOR_UNSEEN T NAME(T* address, std::common_type_t<T> value) {                               \
        return emulator::atomically(address, [value](T old) __attribute__((no_sanitize_thread)) {   \
            return T(EXPRESSION);                                                                   \
        });                                                                                         \
    }
EMULATOR_ATOMIC(atomicAdd, old + value)
EMULATOR_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
#undef EMULATOR_ATOMIC

#include "intrinsics.hpp"

#include "ptx.hpp"

// -- launching -------------------------------------------------------------------------------------------------------

namespace emulator {

template <class... P>
struct Launcher {
    template <void (*kernel)(P...), size_t... I>
    static void call(void** arguments, std::index_sequence<I...>) {
        (void)arguments;
        kernel(*static_cast<std::remove_reference_t<P>*>(arguments[I])...);
    }
    template <void (*kernel)(P...)>
    static void invoke(void** arguments) {
        call<kernel>(arguments, std::index_sequence_for<P...>{});
    }
    template <void (*kernel)(P...)>
    static const Kernel* describe() {
        static const size_t sizes[] = {sizeof(P)..., 0};
        static const bool pointers[] = {std::is_pointer_v<P>..., false};
        static const Kernel description{invoke<kernel>, int(sizeof...(P)), sizes, pointers};
        return &description;
    }
};
template <class... P>
Launcher<P...> launcher_for(void (*)(P...));

}  // namespace emulator

#define EMULATOR_EXPORT(NAME)                                                                              \
    extern "C" __attribute__((visibility("default"))) const emulator::Kernel* emulator_kernel_##NAME() {   \
        return decltype(emulator::launcher_for(&NAME))::describe<&NAME>();                                 \
    }
