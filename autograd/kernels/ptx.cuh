// Instructions for which CUDA C++ has no function: tensor-core products, loads of their fragments, asynchronous copies.
// Only this file contains inline PTX. tests/support/cuda_emulator reads and executes this PTX too.
// Source: NVIDIA, PTX ISA 8.x, "Warp Level Matrix Instructions" and "Data Movement and Conversion Instructions".
#pragma once
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// accumulator += A B by one warp. A (16 x 16) and B (16 x 8) are float16, accumulator (16 x 8) is float32. Needs sm_80.
// With g = lane / 4 and t = lane % 4, a lane holds these elements:
//   A: a[0] = (g, 2t), (g, 2t+1); a[1] = the same in row g + 8; a[2], a[3] = as a[0], a[1], eight columns further right
//   B: b0 = (2t, g), (2t+1, g); b1 = (2t+8, g), (2t+9, g)
//   accumulator: [0], [1] = (g, 2t), (g, 2t+1); [2], [3] = the same in row g + 8
__device__ __forceinline__ void mma_m16n8k16(float (&accumulator)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(accumulator[0]), "+f"(accumulator[1]), "+f"(accumulator[2]), "+f"(accumulator[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Load four 8 x 8 matrices of float16 from shared memory. Lane i passes the address of row i % 8 of matrix i / 8 (16
// bytes, aligned to 16). Register m of a lane receives elements (g, 2t), (g, 2t+1) of matrix m. A row-major 16 x 16
// block arrives as A if lane i passes the address of row i % 16, column 8 * (i / 16). Needs sm_75.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&registers)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(row)
                 : "memory");
}

// Like ldmatrix_x4, but each matrix is transposed: register m receives (2t, g), (2t+1, g) of matrix m. The rows of a
// row-major (k x n) block arrive as B.
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&registers)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(row)
                 : "memory");
}

// Start a copy of 16 bytes from global to shared memory (both aligned to 16). If `inside` is false, the destination
// becomes zero and the source is not read. Partial copies would take six more instructions. Needs sm_80.
__device__ __forceinline__ void cp_async_16(unsigned shared, const void* global, bool inside = true) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
                 :
                 : "r"(shared), "l"(global), "r"(inside ? 16 : 0)
                 : "memory");
}

// Close a group, which contains the copies that this thread started since it closed the previous group.
__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

// Wait until at most N groups of this thread are pending. Copies by other threads are visible only after a barrier.
template <int N>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

// Return 2^x with an error of about 2 units in the last place. Flush subnormal results to zero. One instruction.
__device__ __forceinline__ float exp2_approx(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(x));
    return result;
}

// Return x, and hide from the compiler that it is unchanged. Values that depend on x are then computed here, not once
// before a loop, and do not occupy registers during the whole loop.
__device__ __forceinline__ unsigned computed_here(unsigned x) {
    asm volatile("" : "+r"(x));
    return x;
}
