"""The results of a run with everything on which they depend: processor, library, versions, revision of the code."""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ...autograd.backend import blas_of_numpy
from ...files import write_json
from ...kinds import checked

PACKAGES = ("numpy", "numba", "mkl", "cupy-cuda12x", "cupy-cuda13x")
PACKAGE = Path(__file__).resolve().parents[2]


def cpu_fields() -> dict[str, str]:
    """Return the fields of /proc/cpuinfo for the first core; empty if the file doesn't exist."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def processor() -> str:
    """Return the processor's name, family and model. Virtual machines often hide the name."""
    named = cpu_fields()
    name = named.get("model name", platform.processor())
    if "cpu family" in named:
        name += f" (family {named['cpu family']}, model {named.get('model', '?')})"
    return name


def blas() -> dict[str, Any]:
    """Return the linear algebra library that NumPy uses, the kernels it chose and its threads."""
    found = blas_of_numpy()
    return {"blas": found.name, "kernels": found.kernel, "threads": found.threads}


def machine() -> dict[str, Any]:
    return {
        "cpu": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def versions(*names: str) -> dict[str, str]:
    """Return the versions of distributions. Those that aren't installed are left out."""
    from importlib import metadata  # slow to import, and not needed to use a model

    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def revision() -> str:
    """Return the commit of this code, with -dirty if files differ from it, or the version if it is installed."""
    try:
        top, commit = (
            subprocess.check_output(["git", *words.split()], cwd=PACKAGE, text=True, stderr=subprocess.DEVNULL).strip()
            for words in ("rev-parse --show-toplevel", "describe --always --dirty --abbrev=40 --exclude=*")
        )
    except (OSError, subprocess.CalledProcessError):
        top = ""
    if top and Path(top) == PACKAGE:  # not the revision of another project in whose folder handloom is installed
        return commit
    return f"version {versions('handloom').get('handloom', 'unknown')}"


@cache
def code_digest() -> str:
    """Compute the SHA-256 of handloom's sources on which the numbers of a run depend."""
    total = hashlib.sha256()
    for folder in ("autograd", "nn", "models", "tokenizer", "train", "cli", "examples"):
        for path in sorted(PACKAGE.joinpath(folder).rglob("*")):
            if path.suffix in (".py", ".cu", ".cuh", ".txt") and path.is_file():
                total.update(path.relative_to(PACKAGE).as_posix().encode() + path.read_bytes())
    return total.hexdigest()


def checksum(data: Any) -> str:
    """Compute the SHA-256 of the texts in the training, validation and test parts of `data`."""
    parts = [getattr(data, part, None) for part in ("train", "valid", "test")]
    if None in parts:
        raise TypeError(f"checksum: data is {type(data).__name__}, but it must have the parts train, valid and test")
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@checked
def write_results(path: str | Path, config: Mapping[str, Any], tables: Mapping[str, Any]) -> None:
    """Write tables to a JSON file, with the command that makes them, its seed and data, machine, versions and revision.

    Args:
        config: the configuration of the run, as `cli.examples.start_run` writes it.
        tables: the rows of each table, by name.

    The revision and the machine are those of the process that writes the file.
    """
    data = {"summary": config.get("data"), "notes": config.get("notes"), "sha256": config.get("data_sha256")}
    seed = config.get("options", {}).get("seed")
    run = {"command": config.get("command"), "seed": seed, "data": data}
    here = {"revision": revision(), "machine": machine() | blas(), "versions": versions(*PACKAGES)}
    write_json(path, {**run, **here, "tables": tables})
