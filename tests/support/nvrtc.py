"""Runs NVIDIA's run-time compiler without a GPU, and records the resources that each kernel needs.

    python -m tests.support.nvrtc  # compile all for every kind of GPU, write benchmarks/results/nvrtc_kernels.json

The library comes with the wheel nvidia-cuda-nvrtc, the headers with nvidia-cuda-runtime.
"""

import ctypes
import functools
import hashlib
import importlib.util
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import write_results
from handloom.autograd.kernels.loading import compile_options, read_source

OF_CUPY = ("-ftz=true",)  # the option that cupy.RawModule adds (cupy/cuda/compiler.py)
UNRECORDED = "sm_87", "sm_103", "sm_121"  # Orin, B300, GB10: the tests compile for them, but the record omits them
RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "nvrtc_kernels.json"


def architectures(file: str) -> tuple[str, ...]:
    """Return the architectures that the record contains for a file; see also `UNRECORDED`."""
    recent = "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"
    return recent if file.startswith("attention") else ("sm_75", *recent)


def digest(file: str, constants: dict[str, Any]) -> str:
    """Return a hash of everything that the compiler gets, except comments and white space."""
    code = re.sub(r"//.*|^#line.*", "", read_source(file), flags=re.MULTILINE)
    given = [*code.split(), *compile_options(constants), *OF_CUPY, *architectures(file)]
    return hashlib.sha256("\n".join(given).encode()).hexdigest()[:16]


class NvrtcError(AssertionError):
    """The kernel does not compile; the message is the compiler's."""


@dataclass(frozen=True)
class Usage:
    """What one kernel needs, in bytes. `registers` (32 bits each, per thread) and `mma_instructions` are counts."""

    registers: int
    spilled: int
    stack: int
    static_shared: int
    mma_instructions: int


@functools.cache
def _installed() -> tuple[Path, Path] | None:
    """Return the wheel's library and the folder of its headers, or None."""
    spec = importlib.util.find_spec("nvidia")
    for root in map(Path, (spec.submodule_search_locations or []) if spec else []):
        for library in sorted(root.glob("*/lib/libnvrtc.so.13*"), reverse=True):
            headers = [*library.parents[1].glob("include/cuda_fp16.h"), *root.glob("cuda_runtime/include/cuda_fp16.h")]
            if headers and "alt" not in library.name:
                return library, headers[0].parent
    return None


def missing() -> str | None:
    """Return why the compiler can't be used here, or None."""
    if _installed():
        return None
    return "NVRTC 13 is not installed: pip install nvidia-cuda-nvrtc nvidia-cuda-runtime (with the extra oracles)"


@functools.cache
def _library() -> ctypes.CDLL:
    installed = _installed()
    assert installed is not None, missing()
    library = ctypes.CDLL(str(installed[0]))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def version() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def _call(name: str, *arguments: Any) -> None:
    status = getattr(_library(), name)(*arguments)
    if status:
        raise NvrtcError(f"{name}: {_library().nvrtcGetErrorString(status).decode()}")


def _bytes(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    _call(f"nvrtcGet{what}", program, buffer)
    return buffer.raw


def _compiled(source: str, options: tuple[str, ...], architecture: str) -> tuple[str, str, bytes]:
    """Return the compiler's log, the PTX and the machine code. Raises NvrtcError with the log, also for warnings."""
    installed = _installed()
    assert installed is not None, missing()
    words = [*options, f"--gpu-architecture={architecture}", f"-I{installed[1]}", "--ptxas-options=-v"]
    program = ctypes.c_void_p()
    _call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
    try:
        failed = _library().nvrtcCompileProgram(
            program, len(words), (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
        )
        log = _bytes(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if failed or "warning" in log:
            raise NvrtcError(f"{architecture} {' '.join(options)}:\n{log}")
        return log, _bytes(program, "PTX").rstrip(b"\0").decode(), _bytes(program, "CUBIN")
    finally:
        _call("nvrtcDestroyProgram", ctypes.byref(program))


def compile_kernels(source: str, options: tuple[str, ...], architecture: str) -> dict[str, Usage]:
    """Compile `source` for a real architecture. Return what each kernel needs, by kernel name."""
    log, ptx, _ = _compiled(source, options, architecture)
    return _usage(log, ptx)


def _usage(log: str, ptx: str) -> dict[str, Usage]:
    """Read the report of ptxas (one section per kernel), and count the tensor-core instructions in the PTX."""
    bodies = re.split(r"\.entry\s+(\w+)", ptx)
    entries = zip(bodies[1::2], bodies[2::2], strict=True)
    products = {name: len(re.findall(r"\b(?:mma|wgmma)\.", body)) for name, body in entries}
    found = {}
    for stretch in re.split(r"Compiling entry function '", log)[1:]:
        name = stretch.partition("'")[0]

        def number(pattern: str, stretch: str = stretch) -> int:
            return sum(map(int, re.findall(pattern, stretch)))

        found[name] = Usage(
            registers=number(r"Used (\d+) registers"),
            spilled=number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
            stack=number(r"(\d+) bytes stack frame"),
            static_shared=number(r"(\d+) bytes smem"),
            mma_instructions=products[name],
        )
    return found


def compile_file(file: str, constants: dict[str, Any], architecture: str) -> dict[str, Usage]:
    """Compile the kernels of a file of the package, with the package's options and the options that CuPy adds."""
    return compile_kernels(read_source(file), (*compile_options(constants), *OF_CUPY), architecture)


def machine_code(file: str, constants: dict[str, Any], architecture: str) -> bytes:
    """Return the cubin of a file of the package."""
    return _compiled(read_source(file), (*compile_options(constants), *OF_CUPY), architecture)[2]


def variant_name(file: str, constants: dict[str, Any]) -> str:
    return " ".join([file, *(f"{name}={value}" for name, value in sorted(constants.items()))])


def usages(record: dict[str, Any], variant: str) -> dict[str, dict[str, Usage]]:
    """Return the recorded needs of each kernel of a variant, by kernel name and architecture."""
    kernels = record["kernels"][variant].items()
    return {name: {kind: Usage(*x) for kinds, x in rows.items() for kind in kinds.split()} for name, rows in kernels}


def measure_all(known: dict[str, Any]) -> dict[str, Any]:
    """Return the record: each kernel of each variant on each architecture, and its shared memory at launch in bytes.

    Entries of the record `known` are reused if the source text and the compiler are the same.
    """
    from tests.support.kernel_variants import SHARED_MEMORY, VARIANTS

    digests, kernels, shared = {}, {}, {}

    def measured(file: str, constants: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
        found: dict[str, dict[Usage, list[str]]] = {}
        for architecture in architectures(file):
            for name, usage in compile_file(file, constants, architecture).items():
                found.setdefault(name, {}).setdefault(usage, []).append(architecture)
        return {
            name: {" ".join(kinds): [*asdict(usage).values()] for usage, kinds in usages.items()}
            for name, usages in found.items()
        }

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, constants in ((file, x) for file, variants in VARIANTS.items() for x in variants):
            variant = variant_name(file, constants)
            digests[variant] = digest(file, constants)
            if file in SHARED_MEMORY:
                shared[variant] = SHARED_MEMORY[file](constants)
            same = known.get("nvrtc") == version() and known.get("digests", {}).get(variant) == digests[variant]
            kernels[variant] = known["kernels"][variant] if same else pool.submit(measured, file, constants)
        kernels = {variant: x if isinstance(x, dict) else x.result() for variant, x in kernels.items()}
    return {
        "nvrtc": version(),
        "command": "python -m tests.support.nvrtc",
        "columns": [field.name for field in fields(Usage)],
        "digests": digests,
        "shared": shared,
        "kernels": kernels,
    }


def main() -> None:
    if reason := missing():
        raise SystemExit(reason)
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    record = measure_all(known)
    for variant, kernels in record["kernels"].items():
        for name, rows in kernels.items():
            print(variant, name, *(f"{kinds}: {x[0]}, {x[1]} spilled" for kinds, x in rows.items()))
    write_results(RECORD, record)


if __name__ == "__main__":
    main()
