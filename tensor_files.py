"""Named arrays in safetensors files: atomic writing in a fixed order, and a check for finite numbers."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .errors import InputError
from .files import atomic_file

#: The name of each dtype in the safetensors format.
NAMES = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16",
    "uint32": "U32", "uint64": "U64", "float16": "F16", "float32": "F32", "float64": "F64",
}  # fmt: skip


def write_tensors(path: str | Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write arrays of any layout and byte order to a safetensors file, atomically.

    The same arrays and metadata always give the same bytes. (The library safetensors writes the metadata in a varying
    order, and its `save_file` is not atomic.) C-contiguous arrays are not copied. Raises InputError like `atomic_file`,
    and KeyError for a dtype that the format does not support.
    """
    # The format is little-endian. The widest dtypes are written first, so that each array is aligned.
    plain = {name: np.asarray(array, array.dtype.newbyteorder("<"), order="C") for name, array in tensors.items()}
    ordered = sorted(plain.items(), key=lambda item: (-item[1].itemsize, item[0]))
    header: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name, array in ordered:
        start, end = end, end + array.nbytes
        header[name] = {"dtype": NAMES[array.dtype.name], "shape": array.shape, "data_offsets": [start, end]}
    head = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with atomic_file(path) as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for _, array in ordered:
            file.write(array.data if array.size else b"")


def check_finite(tensors: Mapping[str, np.ndarray], where: str | Path) -> None:
    """Raise InputError if an array has a number that is not finite, or is not of a floating-point dtype."""
    for name, array in tensors.items():
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise InputError(
                f"{where} can't be used: {name} contains values that are not finite numbers. "
                "Train or download the model again."
            )
