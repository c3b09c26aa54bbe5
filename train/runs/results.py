"""Writes the results of a run with everything on which they depend, so that others can check them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...files import write_json
from .machine import blas, machine, revision, versions

PACKAGES = ("numpy", "numba", "mkl", "cupy-cuda12x", "cupy-cuda13x")


def checksum(data: Any) -> str:
    """Compute the SHA-256 of the texts in the training, validation and test parts of `data`."""
    parts = [getattr(data, part) for part in ("train", "valid", "test")]
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"), default=dataclasses.astuple)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write_results(path: str | Path, config: Mapping[str, Any], tables: Mapping[str, Any]) -> None:
    """Write tables to a JSON file, with the command that makes them, its seed and data, machine, versions and revision.

    Args:
        config: the configuration of the run, as `command_line.start_run` writes it.
        tables: the rows of each table, by name.

    The revision and the machine are those of the process that writes the file.
    """
    data = {"summary": config.get("data"), "notes": config.get("notes"), "sha256": config.get("data_sha256")}
    seed = config.get("options", {}).get("seed")
    run = {"command": config.get("command"), "seed": seed, "data": data}
    here = {"revision": revision(), "machine": machine() | blas(), "versions": versions(*PACKAGES)}
    write_json(path, {**run, **here, "tables": tables})
