"""Translation data by name or by path: the embedded grammar, Multi30k, Tatoeba, a mixture, WMT17, or your own files."""

import difflib
import itertools
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path

import numpy as np

from ...errors import InputError
from ...kinds import checked
from . import files
from .downloads import EMBEDDED_WORKS, PUBLISHED, fetch, find_local, load_hub, unverified
from .pairs import TranslationData, clean_pairs, detokenized, sentence_key, split_by_sentence


@checked
def load_translation_data(name_or_path: str | Path, *, source: str = "de", target: str = "en") -> TranslationData:
    """Load a data set for translation from `source` to `target`.

    Your own files are split by target sentence (`split_by_sentence`), unless the same folder has validation and test
    files: PATH.valid.de and PATH.valid.en (or corpus.valid.tsv for corpus.tsv), and such files with `test`. Training
    pairs with a sentence of these files are left out. The named
    data sets have official splits, except tatoeba, which is split by English sentence. The same data give the same
    splits, so scores of runs with different seeds can be compared.

    Args:
        name_or_path: one of `data_names()`; or a tab-separated file (see `parse_tsv`); or a .jsonl file (see
            `read_jsonl`); or a prefix of two parallel files, PATH for PATH.de and PATH.en, or one of the two. Files may
            be packed (`files.PACKED`). Write ./NAME for a path that equals a name. Several of these, joined by +, are
            joined by `_joined`; the training pairs of one that is named twice are used twice.
        source, target: language codes. `SETS` lists those of the data sets. In your own files, the codes are name
            endings or columns.

    Raises InputError if the name is unknown, the data set lacks these languages or can't be found, or a file can't be
    used.
    """
    name_or_path = str(name_or_path)
    if source == target:
        raise InputError(f"Source and target language are both {source!r}. Give two different languages.")
    if name_or_path not in SETS:
        name_or_path = _prefix(name_or_path, source, target)
        text, names = _read(name_or_path, source, target), name_or_path.split("+")
        if text is None and len(names) > 1 and all(names):
            loaded = {name: load_translation_data(name, source=source, target=target) for name in names}
            again = [pair for name in loaded for pair in loaded[name].train * (names.count(name) - 1)]
            return _joined(name_or_path, list(loaded.values()), again)
        return _of_path(text, name_or_path, source, target)
    load, offered = SETS[name_or_path]
    if {source, target} not in offered:
        pairs = ", ".join("-".join(sorted(pair)) for pair in offered)
        raise InputError(
            f"{name_or_path} has no {source}-{target} pairs; it has {pairs} (in either direction). Choose one of "
            "these, or give the PATH of your own files."
        )
    return load(source, target)


def _of_path(text: files.ParallelText | None, path: str, source: str, target: str) -> TranslationData:
    if text is None:
        raise InputError(_not_found(path, source, target))
    read = {part: _read(files.part_path(path, part), source, target) for part in ("valid", "test")}
    own = {part: found for part, found in read.items() if found}
    pairs, left_out = _without(text.pairs, [pair for part in own.values() for pair in part.pairs], path)
    parts = split_by_sentence(pairs, itemgetter(1), {part: found.pairs for part, found in own.items()})
    test_name = own["test"].origin if "test" in own else "held-out sentences"
    left_out = left_out if len(pairs) < len(text.pairs) else ""
    notes = tuple(filter(None, (*(part.note for part in (text, *own.values())), left_out)))
    return TranslationData(*parts, path, test_name, source, target, notes=notes, whole=not own)


def _joined(
    name: str,
    parts: Sequence[TranslationData],
    more: Sequence[files.Pair] = (),
    change: Callable[[list[files.Pair]], list[files.Pair]] = list,
) -> TranslationData:
    """Join the training pairs, and the validation sets, of several data sets. The test set is that of the first.

    A training pair is left out if one of its sentences has the same letters as a validation or test sentence of a part.
    `more` are further training pairs; `change` returns the pairs to use instead of all training pairs.
    """
    pairs = change([*(pair for part in parts for pair in part.train), *more])
    train, note = _without(pairs, [pair for part in parts for pair in part.valid + part.test], name)
    valid = [pair for part in parts for pair in part.valid]
    notes = [note for part in parts for note in part.notes]
    return replace(parts[0], train=train, valid=valid, name=name, notes=(*notes, note), whole=False)


def _without(pairs: list[files.Pair], held_out: Sequence[files.Pair], name: str) -> tuple[list[files.Pair], str]:
    """Return the pairs without those that have a sentence of a held-out pair, and a sentence about their number."""
    keys = {sentence_key(side) for pair in held_out for side in pair}
    kept = [pair for pair in pairs if keys.isdisjoint(map(sentence_key, pair))] if keys else pairs
    if not kept:
        raise InputError(f"{name}: all training pairs have a validation or test sentence. Give other pairs.")
    left_out = len(pairs) - len(kept)
    return kept, f"{name}: {left_out:,} training pairs have a validation or test sentence and are left out."


def _prefix(path: str, source: str, target: str) -> str:
    """Return the prefix of two parallel files if `path` is one of them, otherwise `path`."""
    prefix, _, language = files.unpacked_name(path).rpartition(".")
    both = language in (source, target) and all(files.find_parallel(prefix, code) for code in (source, target))
    return prefix if both else path


def _read(path: str, source: str, target: str) -> files.ParallelText | None:
    """Read a table or a pair of parallel files. Return None if neither exists."""
    if Path(path).is_file():
        if files.unpacked_name(path).endswith((".jsonl", ".ndjson", ".json")):
            return files.read_jsonl(path, source, target)
        return files.parse_tsv(files.read_lines(path), path, source, target)
    if files.find_parallel(path, source) or files.find_parallel(path, target):
        return files.read_parallel(path, source, target)
    return None


def _not_found(path: str, source: str, target: str) -> str:
    known = ", ".join(data_names())
    close = difflib.get_close_matches(path, data_names(), n=1)
    guess = f" Did you mean {close[0]}?" if close else ""
    return (
        f"{path or 'An empty name'} is neither a known data set ({known}) nor a file, and there are no files "
        f"{path}.{source} and {path}.{target}.{guess} Give one of these names, a tab-separated file, or the "
        f"common part of the names of two parallel files."
    )


# --- named data sets --------------------------------------------------------------------------------------------------

MULTI30K_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
MULTI30K_SHA256: dict[str, str] = PUBLISHED["multi30k_sha256"]
TATOEBA_URL = "https://www.manythings.org/anki/"
OPENNMT_URL = "https://raw.githubusercontent.com/OpenNMT/OpenNMT-py/97111d97551c24857076a4102eabdb468b35cff4/data/"
TATOEBA_NAMES = {"de": "deu", "fr": "fra"}
WMT17_PAIRS = 1_000_000  # for training


def load_embedded(source: str, target: str) -> TranslationData:
    """Return random sentence pairs of a grammar in the package: English with German or French, in either direction.

    Validation and test contain combinations of words that do not occur in training.
    """
    from .grammar import build_corpus, french  # imported only for this set

    if "fr" in (source, target):
        pairs = files.distinct(french.french_pairs(), lambda pair: pair[0], 21_000)
        parts = pairs[1000:], pairs[:500], pairs[500:1000]
        data = TranslationData(*parts, "embedded", "held-out sentences", "en", "fr")
    else:
        corpus = build_corpus()
        parts = corpus.train, corpus.valid, corpus.test
        data = TranslationData(*parts, "embedded", "held-out combinations", "de", "en")
    return data if source == data.source else data.reversed()


def load_multi30k(source: str, target: str) -> TranslationData:
    """Load Multi30k, task 1: image descriptions, with 29,000 training, 1,014 validation and 1,000 test pairs.

    Source: Elliott et al. 2016, W16-3210; French: Elliott et al. 2017, W17-4718.
    """
    names = [f"{part}.{code}.gz" for part in ("train", "val", "test_2016_flickr") for code in (source, target)]
    paths = [fetch(MULTI30K_URL, "multi30k", name, MULTI30K_SHA256[name], all_names=names) for name in names]
    parts = [files.read_parallel_files(*sides) for sides in zip(paths[::2], paths[1::2], strict=True)]
    return _of_parts(parts, "multi30k", "test_2016_flickr", source, target)


def load_tatoeba(source: str, target: str) -> TranslationData:
    """Load the sentence pairs of tatoeba.org that manythings.org offers, split by English sentence."""
    other = target if source == "en" else source
    code, folder = TATOEBA_NAMES[other], f"tatoeba_en_{other}"
    path = find_local(f"{folder}/eng-{code}.tsv.gz")
    if path is None:
        path = fetch(TATOEBA_URL, folder, f"{code}-eng.zip", None)
        rows = _zip_lines(path, f"{code}.txt")
    else:
        rows = files.read_lines(path)
    columns = ("en", other, "attribution")[: rows[0].count("\t") + 1]  # older editions don't have the third
    text = files.parse_tsv(rows, str(path), source, target, columns=columns)
    parts = split_by_sentence(text.pairs, itemgetter(0 if source == "en" else 1))
    notes = tuple(filter(None, [text.note, unverified("tatoeba", path.read_bytes())]))
    name = "tatoeba, held-out English sentences"
    return TranslationData(*parts, "tatoeba", name, source, target, notes=notes)


def load_everyday(source: str, target: str, *, glossary: bool = False) -> TranslationData:
    """Load a mixture for everyday German and English: Tatoeba, Multi30k and 10,000 pairs of WMT's text, `augmented`.

    With `glossary`, the mixture also has `glossary_pairs`. For validation and test see `_joined`; the test set is
    Tatoeba's.
    """
    from .augmentation import augmented
    from .glossary import glossary_pairs

    name = "everyday-glossary" if glossary else "everyday"
    parts = [load_tatoeba("de", "en"), load_multi30k("de", "en")]
    sides = [
        find_local(f"wmt_en_de_10k/train.{code}.gz") or fetch(OPENNMT_URL, "wmt_en_de_10k", name, None)
        for code, name in (("de", "tgt-train.txt"), ("en", "src-train.txt"))
    ]
    news = files.read_parallel_files(*sides)
    clean, note = clean_pairs(
        [(detokenized(german), detokenized(english)) for german, english in news.pairs], max_words=50, max_ratio=2.0
    )
    more = clean + (glossary_pairs(each=6) if glossary else [])
    found = _joined(name, parts, more, augmented)
    found = replace(found, notes=(*found.notes, note, f"{name}: the training pairs are augmented."))
    return found if source == "de" else found.reversed()


def load_wmt17(source: str, target: str) -> TranslationData:
    """Load the news task of WMT17 (Bojar et al. 2017, W17-4717), German and English, through the `datasets` library.

    The training set contains 1,000,000 random pairs of the 5.9 million training pairs. The validation set is
    newstest2016, and the test set is newstest2017.
    """
    hub = load_hub("wmt/wmt17", "de-en")
    chosen = np.random.default_rng(0).permutation(len(hub["train"]))[:WMT17_PAIRS]
    rows = {"train": hub["train"].select(np.sort(chosen)), "valid": hub["validation"], "test": hub["test"]}
    parts = []
    for name, part in rows.items():
        batches = (some["translation"] for some in part.iter(batch_size=10_000))  # by row takes thirty times as long
        pairs = [(row[source], row[target]) for row in itertools.chain.from_iterable(batches)]
        parts.append(files.with_text_on_both_sides(pairs, f"wmt17 ({name})"))
    return _of_parts(parts, "wmt17", "newstest2017", source, target)


def _of_parts(parts: list[files.ParallelText], name: str, test_name: str, source: str, target: str) -> TranslationData:
    """Return a data set of three texts, with their notes."""
    train, valid, test = (part.pairs for part in parts)
    notes = tuple(filter(None, (part.note for part in parts)))
    return TranslationData(train, valid, test, name, test_name, source, target, notes=notes)


def _zip_lines(path: Path, member: str) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            if lines := list(files.decode_lines(stream, f"{path}/{member}")):
                return lines
            raise EOFError(f"{member} is empty")
    except (zipfile.BadZipFile, KeyError, EOFError, zlib.error) as error:
        raise InputError(
            f"{path} is damaged or not the expected archive, which holds {member} ({error}). Delete it to have it "
            f"downloaded again. {EMBEDDED_WORKS}"
        ) from None


#: For each data set: its loading function of source and target language, and its pairs of languages.
SETS: dict[str, tuple[Callable[[str, str], TranslationData], list[set[str]]]] = {
    "embedded": (load_embedded, [{"de", "en"}, {"en", "fr"}]),
    "multi30k": (load_multi30k, [{"de", "en"}, {"de", "fr"}, {"en", "fr"}]),
    "tatoeba": (load_tatoeba, [{"en", "de"}, {"en", "fr"}]),
    "everyday": (load_everyday, [{"de", "en"}]),
    "everyday-glossary": (partial(load_everyday, glossary=True), [{"de", "en"}]),
    "wmt17": (load_wmt17, [{"de", "en"}]),
}


def data_names(*languages: str) -> list[str]:
    """Return the names of the data sets in these two languages, or, without languages, of all data sets."""
    return [name for name, (_, offered) in SETS.items() if not languages or set(languages) in offered]
