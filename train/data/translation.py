"""Translation data by name or by path: the embedded grammar, Multi30k, Tatoeba, WMT17, or the user's own files."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path

from ...errors import InputError
from .files import ParallelText, find_parallel, read_jsonl, read_parallel, read_tsv
from .named import SETS
from .pairs import TranslationData, choose, split_by_sentence

DATA_NAMES = tuple(SETS)

_TABLE_ENDINGS = (".tsv.gz", ".txt.gz", ".jsonl.gz", ".tsv", ".txt", ".jsonl", ".gz")


def load_translation_data(
    name_or_path: str,
    *,
    seed: int = 0,
    source: str = "de",
    target: str = "en",
    train_size: int | None = None,
    valid_size: int | None = None,
) -> TranslationData:
    """Load a data set for translation from `source` to `target`.

    Your own files are split by target sentence (`split_by_sentence`), unless the same folder has validation and test
    files: PATH.valid.de and PATH.valid.en (or corpus.valid.tsv for corpus.tsv), and such files with `test`. The named
    data sets have official splits, except tatoeba, which is split by English sentence. Splits do not depend on `seed`,
    so scores of runs with different seeds can be compared. Only the embedded grammar changes with the seed.

    Args:
        name_or_path: one of `DATA_NAMES`; or a tab-separated file (see `read_tsv`); or a .jsonl file (see
            `read_jsonl`); or a prefix of two parallel files,
            PATH for PATH.de and PATH.en. Files may be gzipped. Write ./NAME for a path that equals a name.
        seed: seed of the embedded grammar, and of the choice of pairs if a size is given.
        source, target: language codes. The data sets embedded and tatoeba have en with de or fr; everyday and wmt17
            have de and en; multi30k has de, en and fr. In your own files, the codes are name endings or columns.
        train_size, valid_size: maximum number of pairs, which are chosen at random. For wmt17 see `load_wmt17`.

    Raises:
        InputError: the name is unknown, the data set lacks these languages or can't be found, or a file can't be used.
    """
    if source == target:
        raise InputError(f"Source and target language are both {source!r}. Give two different languages.")
    if name_or_path in SETS:
        data = SETS[name_or_path](source, target, seed=seed, train_size=train_size, valid_size=valid_size)
    else:
        data = _load_path(name_or_path, source, target)
    return replace(data, train=choose(data.train, train_size, seed), valid=choose(data.valid, valid_size, seed))


def _load_path(path: str, source: str, target: str) -> TranslationData:
    text = _read(path, source, target)
    if text is None:
        raise InputError(_not_found(path, source, target))
    own_valid, own_test = (_read(_part_path(path, part), source, target) for part in ("valid", "test"))
    if own_valid and own_test:
        train, valid, test = text.pairs, own_valid.pairs, own_test.pairs
    else:
        train, valid, test = split_by_sentence(text.pairs, side=1)
        if own_valid:
            train, valid = train + valid, own_valid.pairs
        if own_test:
            train, test = train + test, own_test.pairs
    about, test_name = f"Sentence pairs of {text.origin}.", own_test.origin if own_test else "held-out sentences"
    notes = tuple(part.note() for part in (text, own_valid, own_test) if part and part.note())
    return TranslationData(train, valid, test, path, about, test_name, source, target, notes)


def _read(path: str, source: str, target: str) -> ParallelText | None:
    """Read a table or a pair of parallel files. Return None if neither exists."""
    if Path(path).is_file():
        if path.removesuffix(".gz").endswith((f".{source}", f".{target}")):
            prefix = path.removesuffix(".gz").rpartition(".")[0]
            raise InputError(
                f"{path} is one side of parallel text. Give the common part of both names: --data {prefix}"
            )
        if path.removesuffix(".gz").endswith(".jsonl"):
            return read_jsonl(path, source, target)
        return read_tsv(path, source, target)
    if find_parallel(path, source) or find_parallel(path, target):
        return read_parallel(path, source, target)
    return None


def _part_path(path: str, part: str) -> str:
    """Insert `part` into a path: with "valid", corpus.tsv.gz gives corpus.valid.tsv.gz, and corpus gives corpus.valid.
    """
    ending = next((ending for ending in _TABLE_ENDINGS if path.endswith(ending)), "")
    return f"{path.removesuffix(ending)}.{part}{ending}"


def _not_found(path: str, source: str, target: str) -> str:
    if not path:
        return f"--data is empty. Give {', '.join(DATA_NAMES)}, or the path of your own sentence pairs."
    if Path(path).is_dir():
        prefixes = {
            str(file).removesuffix(".gz").removesuffix(f".{source}")
            for file in [*Path(path).glob(f"*.{source}"), *Path(path).glob(f"*.{source}.gz")]
        }
        example = min(prefixes, default=str(Path(path) / "train"))
        return (
            f"{path} is a folder. Give a tab-separated file in it, or the common part of the names of two parallel "
            f"files: --data {example} for {example}.{source} and {example}.{target}."
        )
    known = ", ".join(DATA_NAMES)
    close = difflib.get_close_matches(path, DATA_NAMES, n=1)
    guess = f" Did you mean {close[0]}?" if close else ""
    return (
        f"{path} is neither a known data set ({known}) nor a file, and there are no files {path}.{source} and "
        f"{path}.{target}.{guess} Give one of these names, a tab-separated file, or the common part of the names of "
        f"two parallel files."
    )
