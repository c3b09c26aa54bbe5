"""Running text for language models, by name or by path: the embedded grammar, Shakespeare, WikiText-2, Gutenberg."""

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ...errors import InputError
from ...kinds import checked
from .downloads import EMBEDDED_WORKS, PUBLISHED, fetch, find_local, load_hub, unverified
from .files import iter_lines
from .pairs import sentence_key
from .sets import DataSet, own_parts

SHAKESPEARE_URL = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/"
)
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
GUTENBERG_URL = "https://www.gutenberg.org/cache/epub/"
#: Number and name of each book, all in the public domain of the United States.
GUTENBERG_BOOKS: dict[str, str] = PUBLISHED["gutenberg_books"]
EMBEDDED_SENTENCES = 20_000


class TextData(DataSet[str]):
    """Three texts for training, validation and test."""

    changed = DataSet.with_parts

    def summary(self) -> str:
        train, valid, test = self.parts(len)
        return f"{self.name}: {train:,} characters for training, {valid:,} for validation, {test:,} for test"


@checked
def load_text_data(name_or_path: str | Path, *, bare: bool = False) -> TextData:
    """Load one of `TEXT_NAMES`, several joined by +, or your own UTF-8 text file, gzipped or not.

    If a text has no official split, the first 90 % are for training, the next 5 % for validation and the last 5 % for
    test. Each book of Gutenberg is split in this way. Files such as c.valid.txt and c.test.txt with c.txt are the
    validation and test texts; lines of 20 or more letters that they share with c.txt are left out of training. With
    `bare`, Gutenberg's books begin with their first paragraph; see `without_front_matter`. Raises InputError if the set
    can't be obtained or the file can't be used.
    """
    name_or_path = str(name_or_path)
    names = name_or_path.split("+")
    if len(names) > 1 and set(names) <= set(TEXT_NAMES) and not Path(name_or_path).exists():
        if len(set(names)) < len(names):
            raise InputError(f"{name_or_path} names a text twice. Name each one once.")
        texts = [load_text_data(name, bare=bare) for name in names]
        train, valid, test = map("\n\n".join, zip(*(text.parts(str) for text in texts), strict=True))
        return TextData(train, valid, test, name_or_path, notes=tuple(note for text in texts for note in text.notes))
    if name_or_path == "gutenberg":
        return load_gutenberg(bare=bare)
    if name_or_path in SETS:
        return SETS[name_or_path]()
    if not Path(name_or_path).exists():
        known = ", ".join(TEXT_NAMES)
        raise InputError(
            f"{name_or_path or 'An empty name'} is neither a known text ({known}) nor a file. Give one of these, "
            f"several of them joined by +, or the path of a text file."
        )
    return _of_path(name_or_path)


def _of_path(path: str) -> TextData:
    text, own = read_text(path), own_parts(path, read_text)
    held_out = {sentence_key(line) for part in own.values() for line in part.split("\n")}
    lines = text.split("\n")
    kept = [line for line in lines if len(key := sentence_key(line)) < 20 or key not in held_out] if own else lines
    split = _from_parts(["\n".join(kept)], path)
    train = split.train + "".join(getattr(split, part) for part in ("valid", "test") if part in own)
    notes = f"{path}: {len(lines) - len(kept):,} training lines are in the validation or test text and are left out."
    valid, test = own.get("valid", split.valid), own.get("test", split.test)
    return TextData(train, valid, test, path, notes=(notes,) if len(kept) < len(lines) else ())


def load_embedded_text() -> TextData:
    """Load English sentences of the bilingual grammar, in paragraphs of three to eight. Nothing is downloaded."""
    from .grammar import generate  # imported only for this text

    sentences = (sentence.english for sentence in itertools.islice(generate(), EMBEDDED_SENTENCES))
    rng, paragraphs = random.Random(0), []
    while paragraph := list(itertools.islice(sentences, rng.randint(3, 8))):
        paragraphs.append(" ".join(paragraph))
    return _from_parts(["\n\n".join(paragraphs)], "embedded")


def load_shakespeare() -> TextData:
    """Load Shakespeare's plays, 1.1 million characters, from github.com/karpathy/char-rnn."""
    local = find_local("tinyshakespeare/input.txt.gz")
    path = local or fetch(SHAKESPEARE_URL, "tinyshakespeare", "input.txt", SHAKESPEARE_SHA256)
    return _from_parts([read_text(path)], "shakespeare")


def load_gutenberg(*, bare: bool = False) -> TextData:
    """Load 15 novels from Project Gutenberg."""
    books = []
    for number, name in GUTENBERG_BOOKS.items():
        if local := find_local(f"gutenberg/pg{number}_{name}.txt.gz"):
            books.append(read_text(local))
        else:
            path = fetch(f"{GUTENBERG_URL}{number}/", "gutenberg", f"pg{number}.txt", None)
            books.append(without_licence(read_text(path)))
    texts = [without_front_matter(book) for book in books] if bare else books
    data = _from_parts(texts, "gutenberg")
    return replace(data, notes=(unverified("gutenberg", "".join(books).encode()),))


def load_wikitext2() -> TextData:
    """Load WikiText-2, raw: the official parts, or the parts in HANDLOOM_DATA (Merity et al. 2016, arXiv 1609.07843).

    The files in HANDLOOM_DATA are `wikitext2/wiki.{train,valid,test}.raw.gz`. If the training file is missing, the
    beginning of the validation text is used for training, and a note says so.
    """
    paths = [find_local(f"wikitext2/wiki.{part}.raw.gz") for part in ("train", "valid", "test")]
    if paths[1] and paths[2]:
        valid, test = read_text(paths[1]), read_text(paths[2])
        if paths[0]:
            return TextData(read_text(paths[0]), valid, test, "wikitext2")
        cut = valid.rindex("\n", 0, len(valid) * 9 // 10) + 1
        note = (
            "wikitext2: there is no training part; the first 90 % of the validation part replace it. The figures "
            "can't be compared with published ones."
        )
        return TextData(valid[:cut], valid[cut:], test, "wikitext2", notes=(note,))
    hub = load_hub("Salesforce/wikitext", "wikitext-2-raw-v1")
    train, valid, test = ("".join(hub[part]["text"]) for part in ("train", "validation", "test"))
    return TextData(train, valid, test, "wikitext2")


def read_text(path: str | Path) -> str:
    """Read the whole text of a UTF-8 file, gzipped or not. Raises InputError as `iter_lines`, or for a blank text."""
    text = "\n".join(iter_lines(path)) + "\n"
    if not text.strip():
        raise InputError(f"{path} holds no text. Give a file with some thousands of characters.")
    return text


def without_licence(text: str) -> str:
    """Remove Project Gutenberg's header and footer from an e-text."""
    start, end = text.find("*** START OF"), text.find("*** END OF")
    text = text[text.find("\n", start) + 1 :] if start >= 0 else text
    return text[: text.find("*** END OF")].strip() + "\n" if end >= 0 else text


def without_front_matter(text: str) -> str:
    """Remove title, author and table of contents: everything before the first three consecutive full lines."""
    lines = text.splitlines(keepends=True)
    full = [len(line.strip()) >= 50 for line in lines]
    return "".join(lines[next((i for i in range(len(lines)) if all(full[i : i + 3])), 0) :])


def _from_parts(texts: list[str], name: str) -> TextData:
    """Return the first 90 % of the texts' characters for training, the next 5 % for validation, the rest for test."""
    if min(map(len, texts)) < 100:
        raise InputError(f"{name} holds fewer than 100 characters, too few to train on. {EMBEDDED_WORKS}")
    cuts = [(len(text) * 90 // 100, len(text) * 95 // 100) for text in texts]
    split = [(text[:a], text[a:b], text[b:]) for text, (a, b) in zip(texts, cuts, strict=True)]
    train, valid, test = map("\n\n".join, zip(*split, strict=True))
    return TextData(train, valid, test, name)


#: Loading functions by name of the text.
SETS: dict[str, Callable[[], TextData]] = {
    "embedded": load_embedded_text,
    "shakespeare": load_shakespeare,
    "wikitext2": load_wikitext2,
    "gutenberg": load_gutenberg,
}
TEXT_NAMES = tuple(SETS)
