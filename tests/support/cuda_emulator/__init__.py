"""Runs CUDA kernels on the CPU: g++ compiles their unchanged source against a small C++17 runtime.

    source = read_source("layer_norm.cu")                       # handloom.autograd.kernels.loading
    kernel = EmulatedModule(source, ("-DWIDTH=64",)).get_function("layer_norm_forward")
    kernel((blocks,), (threads,), (x, y, np.int32(n), np.float32(eps)), shared_mem=1024)

Arguments are the same as for a cupy.RawKernel: NumPy arrays for pointers, NumPy scalars of the exact size for numbers.
(A Python int counts as 8 bytes, a Python float as a double; a wrong size raises an error.) A launch copies arrays
between guard pages and copies them back at its end. Arrays that overlap in memory (views of one array) still overlap
there. Strides are ignored, as on a device: a kernel that takes a view needs the strides as arguments.

Each CUDA thread is a fiber that runs until it waits; blocks run one after the other. A launch raises KernelError, with
the place, for out-of-bounds accesses (guard pages), divergent or missing partners at barriers and warp operations,
deadlock, cp.async without a wait, unaligned vector accesses and stack overflow. Shared memory starts as NaN in each
block; cp.async copies at its wait and no earlier. `seed` determines the order of warps and lanes. Run an even seed and
the next odd seed, which reverses the order.

`EmulatedModule(source, options, checked=True)` also checks every access (through -fsanitize=thread). It finds races
between threads of a block and between blocks, reads of unwritten shared memory, the exact misaligned or out-of-bounds
access, and accesses to shared memory while a cp.async to it is in flight. It is about ten times slower.

Kernels must be `extern "C" __global__`, with options by -D. Shared memory must be dynamic (`extern __shared__ float
x[];`), and integers of 64 bits `unsigned long long`. Kernels can't call memcpy, or wait for other blocks of the launch.
Checked mode counts bank conflicts (`shared_memory_turns`). The emulator can't show the memory model between barriers
(`volatile` polling), the rounding of the tensor cores, or speed.
"""

from .module import EmulatedKernel, EmulatedModule, KernelError, compiler_missing, shared_memory_turns
