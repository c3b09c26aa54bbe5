"""Runs CUDA kernels on the CPU: their source, unchanged, is compiled with g++ against a small C++17 runtime.

    source = read_source("layer_norm.cu")                       # handloom.autograd.kernels.loading
    kernel = EmulatedModule(source, ("-DWIDTH=64",)).get_function("layer_norm_forward")
    kernel((blocks,), (threads,), (x, y, np.int32(n), np.float32(eps)), shared_mem=1024)

Arguments are as for a cupy.RawKernel: NumPy arrays for pointers, NumPy scalars of the exact size for numbers (a Python
int counts as 8 bytes, a Python float as a double; a wrong size raises). Arrays are copied between guard pages for the
launch and back after it; arrays that overlap in memory (views of one array) stay so. Strides are ignored, as on a
device: a kernel that takes a view must be told its strides.

Each CUDA thread is a fiber that runs until it waits; blocks run one after the other. What a launch reports, as
KernelError with the place: out of bounds (guard pages), divergent or missing partners at barriers and warp operations,
deadlock, cp.async never waited for, unaligned vector accesses, stack overflow. Shared memory starts as NaN in each
block; cp.async copies at its wait and no earlier. `seed` draws the order of warps and lanes; run an even seed and the
odd one after it, which reverses the order.

`EmulatedModule(source, options, checked=True)` also watches every access (through -fsanitize=thread): races between
threads of a block and between blocks, shared memory read before it is written, misaligned and out-of-bounds accesses
exactly, shared memory touched while a cp.async to it is in flight. It is some ten times slower.

For kernels: `extern "C" __global__` only, options by -D; dynamic shared memory only (`extern __shared__ float x[];`);
no memcpy; no communication between blocks of a launch; `unsigned long long` where 64 bits are meant. Bank conflicts are
counted in checked mode (`shared_memory_turns`). The emulator can't see the memory model between barriers (`volatile`
polling), the tensor core's own rounding, or speed.
"""

from .module import EmulatedKernel, EmulatedModule, KernelError, compiler_missing, shared_memory_turns
