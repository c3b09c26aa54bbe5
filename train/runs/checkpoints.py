"""Saves and loads named arrays and their configuration in one safetensors file. A crash leaves the old file intact.

The configuration is JSON in the header of the safetensors file. Weights and configuration therefore can't come from two
different saves, however a run ends. The header also has a checksum of both, which loading verifies, so a changed byte
is noticed. Nothing here reads or writes pickle.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from ...errors import InputError
from ...files import make_folder, open_file, parse_json, read_bytes
from ...tensor_files import NAMES, write_tensors

FORMAT = "handloom-checkpoint"
VERSION = 3  # 1 had no checksum; 2, which is read too, stored an array with several names several times
READABLE = ("2", "3")
MODEL_FILE = "model.safetensors"


class LoadedCheckpoint(NamedTuple):
    """The result of `load_checkpoint`: arrays by name, and their configuration."""

    tensors: dict[str, np.ndarray]
    config: dict[str, Any]


def save_checkpoint(
    folder: str | Path, tensors: Mapping[str, np.ndarray], config: Mapping[str, Any], *, file_name: str = MODEL_FILE
) -> Path:
    """Save arrays and configuration as `folder/file_name`, replacing an older save only once the new one is on disk.

    `tensors` are NumPy arrays with a real or boolean dtype, `config` are JSON values. The same arrays and configuration
    give the same bytes. An array with several names, such as a tied table, is stored once. Raises InputError if the
    file can't be written, TypeError or ValueError for other values.
    """
    own: dict[str, np.ndarray] = {}
    names: dict[int, str] = {}  # of an array, its first name
    shared: dict[str, str] = {}  # its further names -> the first one
    for name, tensor in tensors.items():
        if names.setdefault(id(tensor), name) != name:
            shared[name] = names[id(tensor)]
            continue
        if not isinstance(tensor, (np.ndarray, np.generic)) or tensor.dtype.name not in NAMES:
            kind = f"{getattr(tensor, 'dtype', '')} {type(tensor).__name__}".strip()
            raise TypeError(f"tensor {name!r} is a {kind}; a checkpoint holds NumPy arrays of real numbers or bools.")
        own[name] = np.asarray(tensor, tensor.dtype.newbyteorder("<"))
    text = json.dumps(dict(config), ensure_ascii=False, allow_nan=False)
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "config": text,
        "shared": json.dumps(shared),
        "checksum": _checksum(own, text, shared),
    }
    path = make_folder(folder) / file_name
    write_tensors(path, own, metadata)
    return path


def rounded(tensors: Mapping[str, np.ndarray], bits: int = 8) -> dict[str, np.ndarray]:
    """Return each matrix as int8 and, under its name and ".scale", a float32 factor for each row; copy other arrays.

    The largest number of a row becomes 2^(bits - 1) - 1 in magnitude, 127 for 8 bits. `load_checkpoint` multiplies the
    two. Fewer bits do not change the size of the file, but compression, such as that of a wheel, makes it smaller.
    """
    largest = 2 ** (bits - 1) - 1
    found: dict[str, np.ndarray] = {}
    integers: dict[int, np.ndarray] = {}  # of an array with several names
    for name, tensor in tensors.items():
        if tensor.ndim == 2 and id(tensor) not in integers:
            scale = np.maximum(np.abs(tensor).max(axis=1) / largest, 1e-12).astype(np.float32)
            found[f"{name}.scale"] = scale
            integers[id(tensor)] = np.rint(tensor / scale[:, None]).astype(np.int8)
        found[name] = integers.get(id(tensor), tensor)
    return found


def load_checkpoint(folder: str | Path) -> LoadedCheckpoint:
    """Load a file of `save_checkpoint`, by its folder or path, with bit-equal arrays; 8-bit arrays become float32."""
    path = _path(folder)
    with _open(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        metadata = file.metadata()
        shared = parse_json(metadata.get("shared", "{}"), f"The header of {path}")
        if metadata["checksum"] != _checksum(tensors, metadata["config"], shared):
            raise InputError(f"{path} is damaged: its checksum does not match its content. Restore a copy.")
        rounded = [name for name, tensor in tensors.items() if tensor.dtype == np.int8 and f"{name}.scale" in tensors]
        for name in rounded:
            tensors[name] = tensors[name] * tensors.pop(f"{name}.scale")[:, None]
        tensors |= {name: tensors[first] for name, first in shared.items()}
        return LoadedCheckpoint(tensors, parse_json(metadata["config"], f"The configuration in {path}"))


def read_config(folder: str | Path) -> dict[str, Any]:
    """Read only the configuration of a checkpoint, without its arrays. No checksum is verified."""
    path = _path(folder)
    with _open(path) as file:
        return parse_json(file.metadata()["config"], f"The configuration in {path}")


def digest(tensors: Mapping[str, Any]) -> str:
    """Return the SHA-256 of names, dtypes, shapes and bytes of arrays; it is equal only for bit-equal arrays."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        total.update(f"{name} {array.dtype} {np.shape(tensors[name])} ".encode())
        total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def file_digest(path: str | Path) -> str:
    """Compute the SHA-256 of a file's bytes, in hexadecimal. Raises InputError if the file can't be read."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def _checksum(tensors: Mapping[str, np.ndarray], config: str, shared: Mapping[str, str]) -> str:
    content = f"{digest(tensors)} {config}" + (f" {json.dumps(shared)}" if shared else "")
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _path(folder: str | Path) -> Path:
    folder = Path(folder)
    if not folder.exists():
        raise InputError(f"The checkpoint {folder} does not exist. Give the folder of a run, such as runs/NAME.")
    path = folder / MODEL_FILE if folder.is_dir() else folder
    if not path.is_file():
        raise InputError(
            f"The folder {folder} holds no {path.name}, which a run has after its first validation. Continue the run "
            "with resume=True, or give the folder of a run that saved its model."
        )
    return path


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a safetensors file that must be a checkpoint; errors become InputError."""
    try:
        open_file(path).close()  # safe_open says of a file that may not be read that it does not exist
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT or metadata.get("version") not in READABLE:
                raise InputError(
                    f"{path} is a safetensors file, but not a checkpoint of this version of handloom: its header lacks "
                    "handloom's configuration, so the model can't be built from it. Give the folder of a handloom run."
                )
            yield file
    except (SafetensorError, KeyError) as error:
        raise InputError(
            f"{path} is damaged or is not a safetensors file ({error}). It may have been cut short while it was "
            "copied: copy it again, or give another checkpoint."
        ) from None
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}.") from None
