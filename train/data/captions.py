"""Captions of the same picture, used as paraphrases: from the embedded grammar, COCO, or your own file."""

import hashlib
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

from ...errors import InputError
from ...kinds import checked
from .downloads import EMBEDDED_WORKS, find_local
from .files import Pair, iter_lines, read_tables
from .sets import DataSet, own_parts

CAPTION_NAMES = ("embedded", "coco")
EMBEDDED_SCENES = 4_000

_COCO = "coco_captions/captions_val2017.tsv.gz"


class Captions(DataSet[list[list[str]]]):
    """Groups of captions, one group for each picture."""

    def summary(self) -> str:
        return f"{super().summary()} pictures with {sum(map(len, self.train)):,} captions to train on"


@checked
def load_captions(name_or_path: str | Path) -> Captions:
    """Load one of the data sets `CAPTION_NAMES`, or a file of rows picture<TAB>caption (gzipped or not).

    "coco" is the set val2017 of MS COCO (Lin et al. 2014, arXiv 1405.0312).

    A hash of its first caption assigns each picture to training (90 %), validation (5 %) or test (5 %). Validation and
    test pictures are left out if one of their captions also occurs in training. Raises InputError if the data set can't
    be found or the file can't be used.
    """
    name_or_path = str(name_or_path)
    if name_or_path == "embedded":
        return _split(list(itertools.islice(scenes(), EMBEDDED_SCENES)), 0, "embedded")
    if name_or_path == "coco":
        path = find_local(_COCO)
        if path is None:
            raise InputError(
                "coco can't be downloaded automatically. Download annotations_trainval2017.zip from "
                f"https://cocodataset.org/#download, write its captions as rows image_id<TAB>caption to DATA/{_COCO}, "
                f"and set HANDLOOM_DATA to DATA; or give another file of such rows. {EMBEDDED_WORKS}"
            )
        return _split(*read_captions(path), "coco")
    if not Path(name_or_path).is_file():
        known = ", ".join(CAPTION_NAMES)
        raise InputError(f"{name_or_path or 'An empty name'} is neither a known set of captions ({known}) nor a file.")
    for own in own_parts(name_or_path, str).values():
        raise InputError(f"{own} is not used: captions are split by picture. Add its rows to {name_or_path}.")
    return _split(*read_captions(name_or_path), name_or_path)


def read_captions(path: str | Path) -> tuple[list[list[str]], int]:
    """Return the captions of each picture with two or more different captions, and the number of other pictures."""
    captions: dict[str, list[str]] = {}
    for number, line in enumerate(iter_lines(path), 1):
        if line.strip():
            picture, tab, caption = line.partition("\t")
            if not tab or "\t" in caption or not caption.strip():
                raise InputError(f"{path}, line {number:,}: expected picture<TAB>caption.")
            captions.setdefault(picture, []).append(caption.strip())
    groups = [distinct for group in captions.values() if len(distinct := list(dict.fromkeys(group))) > 1]
    return groups, len(captions) - len(groups)


@checked
def caption_pairs(groups: list[list[str]], every: bool = False) -> list[Pair]:
    """Return pairs of each caption and the next caption of the same picture; the first caption follows the last.

    With `every`, return all ordered pairs of a picture's captions: 20 pairs for five captions.
    """
    if every:
        return [pair for group in groups for pair in itertools.permutations(group, 2)]
    return [pair for group in groups for pair in zip(group, [*group[1:], group[0]], strict=True)]


def _split(groups: list[list[str]], lonely: int, name: str) -> Captions:
    parts: dict[str, list[list[str]]] = {"train": [], "valid": [], "test": []}
    for group in groups:
        part_number = int.from_bytes(hashlib.blake2b(group[0].encode(), digest_size=8).digest()) % 20
        parts["valid" if part_number == 0 else "test" if part_number == 1 else "train"].append(group)
    seen = {caption for group in parts["train"] for caption in group}
    held_out = {part: [group for group in parts[part] if seen.isdisjoint(group)] for part in ("valid", "test")}
    if name == "embedded":  # the grammar repeats captions, so only repeated captions are left out
        held_out = {part: [[c for c in group if c not in seen] for group in parts[part]] for part in held_out}
        held_out = {part: [group for group in held_out[part] if len(group) > 1] for part in held_out}
    if not parts["train"] or not all(held_out.values()):
        raise InputError(
            f"{name}: {len(groups)} pictures with two captions are too few for training and testing. Add captions "
            f"of several dozen pictures."
        )
    notes = []
    if lonely:
        notes.append(f"{name}: left out {lonely:,} pictures with only one caption.")
    if lost := sum(len(parts[part]) - len(held_out[part]) for part in held_out):
        notes.append(f"{name}: left out {lost:,} held-out pictures with captions that also occur in training.")
    return Captions(parts["train"], held_out["valid"], held_out["test"], name, notes=tuple(notes))


# Each row of a table lists expressions for the same thing; a caption uses one of them.
_TABLES = read_tables(__file__, "grammar/captions.txt")
_ANIMALS = {"a dog", "a cat", "a horse", "three dogs"}  # which begin their rows
_FRAMES = [row[0] for row in _TABLES["frames"]]


def scenes(seed: int = 0) -> Iterator[list[str]]:
    """Yield random scenes without end, each with five different captions. The same seed gives the same scenes."""
    rng = random.Random(seed)
    while True:
        several = rng.random() < 0.3
        who = rng.choice(_TABLES["several" if several else "one"])
        human = who[0] not in _ANIMALS
        doing, where = rng.choice(_TABLES["actions"] + _TABLES["human actions"] * human), rng.choice(_TABLES["places"])
        captions: dict[str, None] = {}
        while len(captions) < 5:
            parts = {"who": rng.choice(who), "doing": rng.choice(doing), "where": rng.choice(where)}
            text = rng.choice(_FRAMES).format(be="are" if several else "is", **parts)
            captions[text[0].upper() + text[1:] + "."] = None
        yield list(captions)
