"""Modules and kernels with the interface of CuPy. The emulator runs them."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .build import build_kernels, compiler, runtime

_MAX_SHARED = 232448  # bytes that one block can have on sm_90
_ALIGNMENT = 256  # CuPy aligns memory to 512 bytes, but a kernel may rely only on 256 for an array
_COPIED = 1 << 30  # bytes: a launch does not copy an array that spans more
_lock = threading.Lock()


class KernelError(AssertionError):
    """An error of a launch. `kind` is one or two words: race, out of bounds, deadlock, ..."""

    def __init__(self, kind: str, text: str):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def compiler_missing() -> str | None:
    """Return why kernels can't be emulated here, or None."""
    return None if compiler() else "the CUDA emulator needs g++ (Debian, Ubuntu: apt-get install g++)"


#: Turns of shared memory in checked launches, (fewest possible, taken), by library, kernel and program counter.
_turns: dict[tuple[Path, str, int], tuple[int, int]] = {}


def shared_memory_turns() -> dict[tuple[str, str], tuple[int, int]]:
    """Return the turns of shared memory in checked launches since the last call: without and with bank conflicts.

    Keys: the kernel's name and the place in its source. Plain loads and stores, ldmatrix, cp.async count (banks.hpp).
    """
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for library in {path for path, _, _ in _turns}:
        own = {(name, counter): turns for (path, name, counter), turns in _turns.items() if path == library}
        places = _places(library, sorted({counter for _, counter in own}))
        for (name, counter), (least, taken) in own.items():
            before = found.get((name, places[counter]), (0, 0))
            found[name, places[counter]] = before[0] + least, before[1] + taken
    _turns.clear()
    return found


def _places(library: Path, counters: list[int]) -> dict[int, str]:
    """Return the source file and line of each program counter: the innermost frame in a .cu file."""
    found = {counter: [x for x in lines if ".cu" in x] for counter, lines in _frames(library, counters).items()}
    return {counter: lines[0] if lines else "elsewhere" for counter, lines in found.items()}


def _frames(library: Path, counters: list[int]) -> dict[int, list[str]]:
    """Return the source files and lines of each program counter, the innermost frame first."""
    tool = shutil.which("addr2line")
    if tool is None:
        return {counter: [f"offset {counter} of {library.name}"] for counter in counters}
    command = [tool, "-a", "-i", "-e", str(library), *map(hex, counters)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    frames = re.split(r"^0x[0-9a-f]+$", text, flags=re.MULTILINE)[1:]
    found = [re.findall(r"[^/\n]+:[\d?]+", lines) for lines in frames]  # folder names may contain blanks
    return dict(zip(counters, found, strict=True))


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("invoke", ctypes.c_void_p),
        ("count", ctypes.c_int),
        ("sizes", ctypes.POINTER(ctypes.c_size_t)),
        ("is_pointer", ctypes.POINTER(ctypes.c_bool)),
    )


class _Region(ctypes.Structure):
    _fields_ = (
        ("map_low", ctypes.c_void_p),
        ("map_high", ctypes.c_void_p),
        ("low", ctypes.c_void_p),
        ("high", ctypes.c_void_p),
        ("argument", ctypes.c_int),
    )


class EmulatedModule:
    """A compiled source.

    Args:
        source: CUDA C++, with the project's headers inlined.
        options: -D options are used; others that NVRTC knows are ignored.
        checked: watch every access.

    Raises CompileError with the compiler's message.
    """

    def __init__(self, source: str, options: Sequence[str] = (), *, checked: bool = False):
        self.checked = checked
        runtime()
        self.path = build_kernels(source, [o for o in options if o.startswith("-D")], checked)
        self._library = ctypes.CDLL(str(self.path))

    def get_function(self, name: str) -> EmulatedKernel:
        """Return the kernel called `name`. Raises KeyError if the source has no such kernel."""
        try:
            describe = self._library[f"emulator_kernel_{name}"]
        except AttributeError:
            raise KeyError(f"the source has no kernel {name!r}") from None
        describe.restype = ctypes.POINTER(_Kernel)
        return EmulatedKernel(self, name, describe().contents)


class EmulatedKernel:
    """One kernel. Call it as `kernel(grid, block, args, shared_mem=bytes, seed=0)`."""

    def __init__(self, module: EmulatedModule, name: str, kernel: Any):
        self.module, self.name, self._kernel = module, name, kernel
        self.max_dynamic_shared_size_bytes = 48 * 1024

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        seed: int = 0,
        only: tuple[int, int, int] | None = None,
        moved: dict[int, int] | None = None,
    ) -> None:
        """Launch the kernel, or `only` one block. `moved` contains the bytes to add to pointers, by argument number."""
        self.check(grid, block, args, shared_mem)
        grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
        with _lock, _Memory(args, shared_mem, moved or {}) as memory:
            message = ctypes.create_string_buffer(2000)
            failed = runtime().emulator_launch(
                ctypes.byref(self._kernel),
                (ctypes.c_uint * 3)(*map(int, grid)),
                (ctypes.c_uint * 3)(*map(int, block)),
                memory.arguments,
                ctypes.byref(memory.shared),
                memory.regions,
                len(memory.regions),
                ctypes.c_uint(seed),
                int(self.module.checked),
                (ctypes.c_uint * 3)(*only) if only else None,
                message,
                ctypes.c_size_t(len(message)),
            )
            if failed:
                kind, _, text = message.value.decode().partition("\n")
                raise KernelError(kind, f"{self.name}: {self._with_lines(text)}")
            memory.finish(self.name)
            if self.module.checked:
                self._add_turns()

    def check(self, grid: Any, block: Any, args: Sequence[Any], shared_mem: int) -> None:
        """Raise KernelError if this launch is impossible."""
        grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
        if len(args) != self._kernel.count:
            raise KernelError("arguments", f"{self.name} takes {self._kernel.count} arguments, not {len(args)}")
        for number, arg in enumerate(args):
            size, is_pointer = self._kernel.sizes[number], self._kernel.is_pointer[number]
            if is_pointer != (isinstance(arg, np.ndarray) or arg is None):
                what = "a pointer (an array)" if is_pointer else "a number"
                raise KernelError("arguments", f"{self.name}: argument {number} is {what}, not {type(arg).__name__}")
            if not is_pointer and _as_bytes(arg).nbytes != size:
                raise KernelError(
                    "arguments",
                    f"{self.name}: argument {number} has {size} bytes, but {type(arg).__name__} has "
                    f"{_as_bytes(arg).nbytes}: pass a NumPy scalar, such as np.int32 or np.float32",
                )
        if min(*grid, *block) < 1 or np.prod(block) > 1024 or block[2] > 64 or max(grid[1:]) > 65535:
            raise KernelError("launch", f"{self.name}: a grid of {grid} blocks of {block} threads can't be launched")
        if shared_mem > min(self.max_dynamic_shared_size_bytes, _MAX_SHARED):
            raise KernelError(
                "launch",
                f"{self.name}: {shared_mem} bytes of shared memory; set kernel.max_dynamic_shared_size_bytes for more "
                f"than {self.max_dynamic_shared_size_bytes}, at most {_MAX_SHARED}",
            )

    def _add_turns(self) -> None:
        rows = (ctypes.c_ulonglong * 3 * 1000)()
        number = runtime().emulator_turns(rows, len(rows))
        assert number <= len(rows)
        for counter, least, taken in rows[:number]:
            key = self.module.path, self.name, counter
            before = _turns.get(key, (0, 0))
            _turns[key] = before[0] + least, before[1] + taken

    def _with_lines(self, text: str) -> str:
        """Replace the program counters in a message with lines of the source."""
        return re.sub(r"@(\d+)@", lambda at: " < ".join(_frames(self.module.path, [int(at[1])])[int(at[1])]), text)


def _as_bytes(value: Any) -> np.ndarray:
    """Return a number as CuPy passes it to a kernel: Python numbers are 8 bytes wide."""
    return np.asarray(value, dtype=np.int64 if isinstance(value, int) and not isinstance(value, bool) else None)


def _is_far_apart(arg: np.ndarray) -> bool:
    low, high = np.lib.array_utils.byte_bounds(arg)
    return high - low > _COPIED


def _begin(arg: np.ndarray) -> int:
    """Return the start address of the memory that an array views. On a device it is a multiple of 256 bytes."""
    while isinstance(arg.base, np.ndarray):
        arg = arg.base
    return arg.ctypes.data


class _Memory:
    """The arrays of a launch, copied between guard pages. Overlapping arrays share one region.

    An array keeps its offset, modulo 256 bytes, in the memory that it is a view of.

    A view whose rows lie gigabytes apart is passed without a copy: accesses between its rows are not noticed.
    """

    def __init__(self, args: Sequence[Any], shared_mem: int, moved: dict[int, int]):
        spans = sorted(
            (*np.lib.array_utils.byte_bounds(arg), number)
            for number, arg in enumerate(args)
            if isinstance(arg, np.ndarray) and arg.size and not _is_far_apart(arg)
        )
        groups: list[list[int]] = []  # [low, high, first argument]
        for low, high, number in spans:
            if groups and low < groups[-1][1]:
                groups[-1][1] = max(groups[-1][1], high)
            else:
                groups.append([low, high, number])
        self._groups = groups
        self.regions = (_Region * len(groups))()
        self.shared = _Region()
        self._map(shared_mem, 0, -1, self.shared)
        for (low, high, number), region in zip(groups, self.regions, strict=True):
            self._map(high - low, low - _begin(args[number]), number, region)
            ctypes.memmove(region.low, low, high - low)
        self._values = [self._value(arg) for arg in args]
        for number, distance in moved.items():
            self._values[number] = (self._values[number].view(np.int64) + distance).view(np.uint64)
        self.arguments = (ctypes.c_void_p * max(len(args), 1))(*(v.ctypes.data for v in self._values))

    @staticmethod
    def _map(size: int, place: int, number: int, region: _Region) -> None:
        if runtime().emulator_map(size, _ALIGNMENT, place % _ALIGNMENT, number, ctypes.byref(region)):
            raise MemoryError(f"the emulator found no memory for {size} bytes")

    def _value(self, arg: Any) -> np.ndarray:
        if arg is None:
            return np.zeros(1, dtype=np.uint64)
        if not isinstance(arg, np.ndarray):
            return _as_bytes(arg)
        address = arg.ctypes.data
        if _is_far_apart(arg):
            return np.array([address], dtype=np.uint64)
        for (low, high, _), region in zip(self._groups, self.regions, strict=True):
            if low <= address < high and arg.size:
                return np.array([region.low + address - low], dtype=np.uint64)
        return np.array([self.shared.map_low], dtype=np.uint64)  # an empty array: any access faults

    def finish(self, name: str) -> None:
        """Copy the arrays back. Raises KernelError if a kernel overwrote bytes next to them."""
        for (low, high, number), region in zip(self._groups, self.regions, strict=True):
            if not runtime().emulator_slack_is_whole(ctypes.byref(region)):
                raise KernelError("out of bounds", f"{name}: bytes beside argument {number} were overwritten")
            ctypes.memmove(low, region.low, high - low)

    def __enter__(self) -> _Memory:
        return self

    def __exit__(self, *_: object) -> None:
        for region in (self.shared, *self.regions):
            runtime().emulator_unmap(ctypes.byref(region))
