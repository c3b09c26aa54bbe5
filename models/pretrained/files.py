"""Read folders in Hugging Face's layout: config.json, one or more safetensors files, and other JSON files.

Shapes and dtypes are read from the files' headers, and checked before any weights are read. No file is unpickled.
"""

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from ...errors import InputError
from ...files import read_json

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_SHARD = re.compile(r"[\w.-]+\.safetensors")  # a file in the folder itself
DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}
#: The files to fetch from a repository: no pickles, no weights of other frameworks.
FETCHED = ("*.json", "model*.safetensors", "*.spm")


class Stored(NamedTuple):
    """A tensor in a file, with the position of its bytes, its dtype and its shape."""

    path: Path
    start: int
    shape: tuple[int, ...]
    dtype: str

    def read(self) -> np.ndarray:
        """Return the values. A bfloat16 number is returned as float32, of which it is the upper half."""
        if not all(self.shape):
            return np.empty(self.shape, np.float32)
        stored = np.memmap(self.path, DTYPES[self.dtype], "r", self.start, self.shape)
        return (stored.astype(np.uint32) << 16).view(np.float32) if self.dtype == "BF16" else stored


def find_folder(folder_or_name: str | Path, revision: str | None = None) -> Path:
    """Return a local folder, or a folder with the files of a Hub repository, which are downloaded if necessary."""
    folder, name = Path(folder_or_name), str(folder_or_name)
    if os.path.isdir(folder):
        if revision is not None:
            raise InputError(f"{folder} is a local folder, which has no revision {revision!r}: omit the revision.")
        return folder
    if os.path.exists(folder) or folder.is_absolute() or name.startswith((".", "~")) or name.count(os.sep) > 1:
        raise InputError(f"There is no folder {name}. Give a model's folder, or a name on the Hub such as OWNER/MODEL.")
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, revision=revision, allow_patterns=list(FETCHED)))
    except ImportError:
        reason = "needs the package huggingface_hub: pip install huggingface_hub"
    except Exception as error:  # network, name or access rights: each has its own class, from three libraries
        reason = f"can't be used ({str(error).strip().partition(chr(10))[0] or type(error).__name__})"
    raise InputError(
        f"There is no folder {name}, and the Hugging Face Hub {reason}. Without it: fetch {', '.join(FETCHED)} from "
        f"https://huggingface.co/{name} into a folder, and give that folder instead of the name."
    )


def read_object(path: Path, *, missing: str = "") -> dict[str, Any]:
    """Read the JSON object in a file, or {} if there is no file. A message `missing` then becomes an InputError."""
    if not path.exists():
        if missing:
            raise InputError(missing)
        return {}
    return read_json(path)


def find_tensors(folder: Path) -> dict[str, Stored]:
    """Return the tensors of a folder by name, from the headers of its safetensors files."""
    if (folder / WEIGHTS).is_file():  # as in transformers, the single file has priority
        return _header(folder / WEIGHTS)
    if (folder / INDEX).is_file():
        return _sharded(folder)
    pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(pattern))
    if pickled:
        raise InputError(
            f"The weights in {folder} are pickled ({pickled[0]}). handloom reads only safetensors, because unpickling "
            "a file can run any code in it. If you trust the file, convert it with transformers: "
            "AutoModel.from_pretrained(FOLDER).save_pretrained(FOLDER), with the class that config.json names; or "
            "fetch a revision of the model that has model.safetensors."
        )
    raise InputError(f"{folder} contains no {WEIGHTS}. Fetch the model's weights into it.")


def _sharded(folder: Path) -> dict[str, Stored]:
    weight_map: Any = read_object(folder / INDEX).get("weight_map")
    files = weight_map.values() if isinstance(weight_map, dict) else [None]
    if not all(isinstance(name, str) and _SHARD.fullmatch(name) for name in files):
        raise InputError(f"{folder / INDEX} has no weight_map of files in that folder. Fetch it again.")
    headers = {name: _header(folder / name) for name in sorted(set(files))}
    lost = [name for name, file in weight_map.items() if name not in headers[file]]
    if lost:
        raise InputError(
            f"{folder / weight_map[lost[0]]} does not contain the tensor {lost[0]}, which {INDEX} lists. Fetch both "
            "again."
        )
    return {name: headers[file][name] for name, file in weight_map.items()}


def _header(path: Path) -> dict[str, Stored]:
    try:
        with safe_open(path, framework="np"):  # checks the whole header: sizes, offsets, overlaps
            pass
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged or is not a safetensors file ({error}). Fetch or copy it again.") from None
    header.pop("__metadata__", None)
    return {
        name: Stored(path, 8 + length + one["data_offsets"][0], tuple(one["shape"]), one["dtype"])
        for name, one in header.items()
    }
