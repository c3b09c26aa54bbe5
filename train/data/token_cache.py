"""Token ids on disk, read through mmap: for corpora larger than RAM, which are tokenized only once.

A cache is a folder of three files: `tokens.bin` (all ids one after the other), `offsets.bin` (int64, where each
sequence begins, and the end) and `cache.json`, written last, which says what they hold. The operating system reads the
pages that a batch touches and drops them when it needs the room.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...tokenizer import Tokenizer
from ..runs.atomic_files import atomic_path, read_json, write_json
from ..runs.checkpoints import make_folder
from .batches import TokenSequences

FORMAT, VERSION = "handloom-tokens", 1


def cache_tokens(
    folder: str | Path,
    texts: Iterable[str],
    tokenizer: Tokenizer,
    *,
    key: str,
    add_eos: bool = False,
    at_once: int = 10_000,
) -> TokenSequences:
    """The token ids of `texts`, from the cache in `folder` if it was made of the same, else written there first.

    `texts` is read once, piece by piece, and never as a whole; it is not touched where the cache serves.

    Args:
        folder: of the cache, made if needed; one that is damaged or of something else is written anew.
        key: names the texts, such as the path, size and time of their file (`file_key`): another key, another
            tokenizer or other options make the cache anew.
        at_once: texts tokenized together.

    Raises:
        InputError: the disk is full or the folder can't be written to.
    """
    folder = Path(folder)
    vocabulary = repr(tokenizer.token_strings(range(tokenizer.vocab_size)))
    wanted = {
        "format": FORMAT,
        "version": VERSION,
        "key": key,
        "add_eos": add_eos,
        "tokenizer": hashlib.sha256(vocabulary.encode()).hexdigest(),
    }
    found = _open(folder, wanted)
    if found is not None:
        return found
    make_folder(folder)
    (folder / "cache.json").unlink(missing_ok=True)  # from here on the old files don't count
    kind = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32
    offsets = [np.zeros(1, np.int64)]
    with atomic_path(folder / "tokens.bin") as temporary, open(temporary, "wb") as file:
        for piece in _pieces(texts, at_once):
            sequences = TokenSequences.from_lists(tokenizer.encode_batch(piece, add_eos=add_eos))
            sequences.tokens.astype(kind).tofile(file)
            offsets.append(sequences.offsets[1:] + offsets[-1][-1])
    with atomic_path(folder / "offsets.bin") as temporary:
        np.concatenate(offsets).tofile(temporary)
    sequence_count = sum(map(len, offsets)) - 1
    write_json(folder / "cache.json", {**wanted, "dtype": np.dtype(kind).name, "sequences": sequence_count})
    made = _open(folder, wanted)
    if made is None:
        raise InputError(f"The token cache {folder} can't be read back. Is another process writing to it?")
    return made


def file_key(path: str | Path) -> str:
    """A key for `cache_tokens` that changes when the file does: its name, size and time of last change."""
    state = os.stat(path)
    return f"{Path(path).name} {state.st_size} {state.st_mtime_ns}"


def _open(folder: Path, wanted: dict[str, Any]) -> TokenSequences | None:
    try:
        about = read_json(folder / "cache.json")
        if {name: about.get(name) for name in wanted} != wanted:
            return None
        offsets = np.fromfile(folder / "offsets.bin", np.int64)
        tokens = np.memmap(folder / "tokens.bin", about["dtype"], "r") if offsets[-1] else np.empty(0, np.int32)
    except (InputError, OSError, KeyError, ValueError, IndexError, TypeError):
        return None
    whole = len(offsets) == about["sequences"] + 1 and offsets[-1] == len(tokens)
    return TokenSequences(tokens, offsets) if whole else None


def _pieces(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    piece: list[str] = []
    for text in texts:
        piece.append(text)
        if len(piece) == size:
            yield piece
            piece = []
    if piece:
        yield piece
