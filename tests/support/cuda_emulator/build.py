"""Compiles libraries for the emulator, and keeps them in a cache folder."""

import ctypes
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .ptx import PtxError, translate

FOLDER = Path(__file__).parent
# -fstack-clash-protection: a frame larger than the stack touches the page below its own stack before other memory.
_FLAGS = [
    "-std=c++17", "-march=native", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-w", "-fstack-clash-protection",
]  # fmt: skip


class CompileError(AssertionError):
    """The kernel does not compile; the message is the compiler's."""


@functools.cache
def compiler() -> str | None:
    return shutil.which("g++")


@functools.cache
def _identity() -> str:
    """Return what a compiled library depends on besides its source: compiler, processor, files of the emulator."""
    version = subprocess.run([str(compiler()), "--version"], capture_output=True, text=True, check=True).stdout
    flags = ""
    if Path("/proc/cpuinfo").exists():
        flags = next((x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("flags")), "")
    files = [path for path in sorted(FOLDER.rglob("*")) if path.suffix in (".h", ".hpp") or path.name == "build.py"]
    own = "".join(path.read_text(encoding="utf-8") for path in files)
    return "\n".join([version, platform.machine(), flags, own])


@functools.cache
def cache_folder() -> Path:
    """Return a folder in the system's temporary folder that belongs to the user and that no other user can write to."""
    folder = Path(tempfile.gettempdir()) / f"handloom-cuda-emulator-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix="handloom-cuda-emulator-"))
    return folder


def _compile(name: str, text: str, command: list[str]) -> Path:
    """Return the library that `command` makes from `text`, from the cache if it is there."""
    key = hashlib.sha256("\n".join([_identity(), text, *command]).encode()).hexdigest()[:24]
    library = cache_folder() / f"{name}-{key}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        source, made = Path(folder) / f"{name}.cpp", Path(folder) / "made.so"
        source.write_text(text, encoding="utf-8")
        includes = ["-I", str(FOLDER), "-I", str(FOLDER / "include")]
        unlinked = Path(folder) / "made.o"
        # Linking is a separate step, because the emulator's checker replaces the runtime of -fsanitize=thread.
        for words in (
            [*_FLAGS, *command, *includes, "-c", str(source), "-o", str(unlinked)],
            ["-shared", str(unlinked), "-o", str(made)],
        ):
            done = subprocess.run([str(compiler()), *words], capture_output=True, text=True)
            if done.returncode:
                raise CompileError(f"{name} does not compile:\n{done.stderr.replace(str(source), name)}")
        os.replace(made, library)  # another process may be making the same library
    return library


@functools.cache
def runtime() -> ctypes.CDLL:
    """Return the emulator's own library, whose symbols the kernels use."""
    parts = ("runtime.cpp", "checker.cpp", "banks.cpp", "warp_matrices.cpp")
    text = "".join((FOLDER / part).read_text(encoding="utf-8") for part in parts)
    library = ctypes.CDLL(str(_compile("runtime", text, ["-O2", "-fvisibility=default"])), mode=ctypes.RTLD_GLOBAL)
    library.emulator_launch.restype = ctypes.c_int
    library.emulator_turns.restype = ctypes.c_uint
    library.emulator_map.argtypes = [*[ctypes.c_size_t] * 3, ctypes.c_int, ctypes.c_void_p]
    return library


@functools.cache
def _poison() -> list[str]:
    """Return the option that fills uninitialised variables with NaN, if the compiler has it (g++ 12)."""
    option = "-ftrivial-auto-var-init=pattern"
    command = [str(compiler()), option, "-E", "-x", "c++", os.devnull]
    return [option] if subprocess.run(command, capture_output=True).returncode == 0 else []


def kernel_names(source: str) -> list[str]:
    """Return the names of the kernels in a source."""
    text = re.sub(r"__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)", "", source)
    return re.findall(r'extern\s+"C"\s+__global__\s+void\s+(\w+)\s*\(', text)


def build_kernels(source: str, defines: list[str], checked: bool) -> Path:
    """Compile every kernel of `source` into one library, and return its path."""
    # Apart from inline PTX, only this text changes: dynamic shared memory becomes what the launch provides.
    text = re.sub(
        r"extern\s+__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;",
        r"\1* \2 = static_cast<\1*>(emulator::shared_memory());",
        source,
    )
    if "__shared__" in text:
        raise CompileError("the emulator knows dynamic shared memory only: extern __shared__ T name[];")
    names = kernel_names(source)
    if not names:
        raise CompileError('the source has no kernel of the form: extern "C" __global__ void name(')
    exports = "".join(f"\nEMULATOR_EXPORT({name})" for name in names)
    try:
        text = translate(text)
    except PtxError as error:
        raise CompileError(f"inline PTX: {error}") from None
    mode = ["-O1", "-g1", "-gdwarf-4", *(["-fsanitize=thread"] if checked else _poison())]
    text = f'#include "emulator.hpp"\n#line 1 "kernel.cu"\n{text}\n#line 1 "exports"{exports}\n'
    return _compile("kernel", text, [*mode, *defines])
