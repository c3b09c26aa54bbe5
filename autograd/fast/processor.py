"""The processor's caches and cores, read once and kept in the user's cache folder: by them blocks of arrays are sized.

    python -m handloom.doctor             shows them
    python -m handloom.doctor --measure   reads them again and keeps them

They are read from Linux's /sys; elsewhere a common size is taken. They decide only how ops that treat each number by
itself are cut into blocks. Where the order of a sum follows from a block's length, that length is a constant
(`parallel.PIECE`): no result depends on the machine's sizes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

CPU = Path("/sys/devices/system/cpu/cpu0/cache")
_CPUINFO = Path("/proc/cpuinfo")
# Measured with Adam of 20 million numbers, two threads and 2 MB of second-level cache (docs/log.md): blocks of 2^15 and
# 2^19 take half as long again as those of 2^17, whose arrays are a third larger than the cache.
_LEAST, _MOST = 1 << 16, 1 << 17
_KIB, _GIB = 1 << 10, 1 << 30


@dataclasses.dataclass(frozen=True)
class Processor:
    """The name, bytes of the second-level cache of a core and of the third-level cache (0: none), and cores.

    `source` says where the sizes are from. A virtual machine may name the whole host's third-level cache.
    """

    name: str
    l2: int
    l3: int
    cores: int
    source: str

    def is_plausible(self) -> bool:
        numbers = (self.l2, self.l3, self.cores)
        return (
            all(type(number) is int for number in numbers)
            and isinstance(self.name, str)
            and isinstance(self.source, str)
            and 64 * _KIB <= self.l2 <= _GIB
            and 0 <= self.l3 <= 64 * _GIB
            and 1 <= self.cores <= 1 << 16
        )


def _name() -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in _CPUINFO.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    import platform  # slow to import, and needed where there is no /proc

    return platform.processor() or platform.machine()


def _count(cpus: str) -> int:
    """The number of processors in a list such as "0-3,8"."""
    ends = [part.split("-") for part in cpus.strip().split(",")]
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)


def measured() -> Processor:
    """What the system says of the first core's caches, or common sizes where it says nothing."""
    found, sharing = {}, 1
    for index in CPU.glob("index[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
            number = re.fullmatch(r"(\d+)K", size)
            if kind != "Instruction" and number:
                found[int(level)] = int(number[1]) * _KIB
                if level == "2":
                    sharing = _count((index / "shared_cpu_list").read_text())
    cores = os.cpu_count() or 1
    read = Processor(_name(), found.get(2, 0) // max(sharing, 1), found.get(3, 0), cores, str(CPU.parent))
    if read.is_plausible():
        return read
    return Processor(_name(), 1024 * _KIB, 0, cores, "the system does not say: common sizes")


def cache_file() -> Path:
    """Where the sizes are kept: processor.json in handloom's folder of the user's cache folder."""
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        folder = home / "Library" / "Caches"
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return folder / "handloom" / "processor.json"


def kept(file: Path) -> Processor | None:
    """What the file holds, if it is of this processor and these cores; None for any other content."""
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
        if file.is_file() and file.stat().st_size < 4096:
            found = Processor(**json.loads(file.read_text(encoding="utf-8")))
            if found.is_plausible() and found.name == _name():
                return found
    return None


def keep(found: Processor, file: Path) -> bool:
    """Write the sizes into the file, whole or not at all; False where that can't be done."""
    own = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(json.dumps(dataclasses.asdict(found)), encoding="utf-8")
        os.replace(own, file)
    except OSError:
        with contextlib.suppress(OSError):
            own.unlink()
        return False
    return True


@functools.cache
def processor() -> Processor:
    """This machine's sizes: those kept in the user's cache folder, or measured now and kept."""
    file = cache_file()
    found = kept(file)
    if found is None:
        found = measured()
        keep(found, file)
    return found


def block_length(bytes_each: int) -> int:
    """How many elements a block should have so that its arrays, `bytes_each` for an element in all, about fill the
    second-level cache between the passes over them: a power of two, rounded up."""
    fitting = max(processor().l2 // bytes_each, 1)
    return min(max(1 << (fitting - 1).bit_length(), _LEAST), _MOST)


def blocks(start: int, stop: int, bytes_each: int) -> Iterator[slice]:
    """Slices of start..stop of `block_length`; for ops whose results don't depend on how they are cut."""
    length = block_length(bytes_each)
    for first in range(start, stop, length):
        yield slice(first, min(first + length, stop))
