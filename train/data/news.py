"""News with categories, headlines and descriptions: the embedded grammar, the HuffPost sets, or your own file."""

import csv
import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...errors import InputError
from ...files import parse_json
from ...kinds import checked
from .downloads import find_local, load_hub
from .files import Pair, distinct, is_quoted, is_text, iter_lines, read_tables, sections
from .pairs import sentence_key, split_by_sentence
from .sets import DataSet, own_parts

NEWS_NAMES = ("embedded", "news", "news42")
EMBEDDED_ARTICLES = 9_000

#: Titles of the first column of a table.
_HEADING = {
    "category", "class", "label", "section", "topic", "kategorie", "klasse", "rubrik", "thema", "sentiment", "target",
    "intent", "emotion", "genre", "tag", "y",
}  # fmt: skip
_HEADLINES = "news_category/huffpost41_headlines.jsonl.gz"
_ARTICLES = ("news_category/news_v3_head10k.jsonl.gz", "news_category/news_v2_2017_2018_resplit.jsonl.gz")


class Article(NamedTuple):
    """One piece of news."""

    category: str
    headline: str
    description: str

    def text(self, description: bool) -> str:
        """Return the headline, or the headline and the description."""
        return f"{self.headline} {self.description}" if description else self.headline


@dataclass(frozen=True)
class News(DataSet[list[Article]]):
    """Articles; no two parts have a headline in common."""

    @property
    def categories(self) -> list[str]:
        """The categories of the training articles, in alphabetical order."""
        return sorted({article.category for article in self.train})

    def labelled(self, descriptions: bool) -> tuple[list[Pair], list[Pair], list[Pair]]:
        """Return the text (see `Article.text`) and the category of the training, validation and test articles."""
        return self.parts(lambda part: [(a.text(descriptions), a.category) for a in part])

    def pairs(self) -> tuple[list[Pair], list[Pair], list[Pair]]:
        """Return the description and the headline of the training, validation and test articles."""
        return self.parts(lambda part: [(a.description, a.headline) for a in part])

    def changed(self, change: Callable[[str], str]) -> "News":
        """Return the news with changed texts."""
        return self.with_parts(lambda part: [Article(a[0], change(a[1]), change(a[2])) for a in part])

    def summary(self) -> str:
        return f"{super().summary()} articles in {len(self.categories)} categories"


@checked
def load_news(name_or_path: str | Path, *, descriptions: bool, categories: bool | None = None) -> News:
    """Load one of the data sets `NEWS_NAMES`, or your own file, split by headline (see `split_by_sentence`).

    "news" is the HuffPost data set (Misra 2022, arXiv 2209.11429), which is complete on the Hugging Face hub. The
    folder HANDLOOM_DATA can contain parts of the data set: headlines of 41 categories, and 26,000 articles with
    descriptions, of 2017 to 2022. "news42" joins these two parts: 51,829 headlines of 42 categories.

    Args:
        name_or_path: name of a data set, or path of a JSON Lines file whose objects have "category", "headline" and
            "short_description" (or "description"), or of a table category<TAB>headline<TAB>description. Files can be
            packed. Files such as c.valid.tsv and c.test.tsv with c.tsv are the validation and test articles, whose
            headlines are left out of training.
        descriptions: keep only articles that have a description.
        categories: keep only validation and test articles whose category also occurs in training, for classification.
            The default is the opposite of `descriptions`.

    Raises InputError if the data set can't be found or the file can't be used.
    """
    name_or_path = str(name_or_path)
    known = not descriptions if categories is None else categories
    if name_or_path == "embedded":
        made = distinct(articles(), lambda article: article.headline, EMBEDDED_ARTICLES)
        return _split(made, "embedded", descriptions, known)
    if name_or_path == "news":
        return _split(list(_huffpost(_ARTICLES if descriptions else (_HEADLINES,))), "news", descriptions, known)
    if name_or_path == "news42":
        different = {sentence_key(article.headline): article for article in _huffpost((_HEADLINES, *_ARTICLES))}
        return _split(list(different.values()), "news42", descriptions and not known, known)
    if not Path(name_or_path).is_file():
        names = ", ".join(NEWS_NAMES)
        raise InputError(f"{name_or_path or 'An empty name'} is neither a known set of news ({names}) nor a file.")
    own = own_parts(name_or_path, lambda path: list(read_articles(path)))
    return _split(list(read_articles(name_or_path)), name_or_path, descriptions, known, own)


@checked
def unlabelled_texts(data: News) -> list[str]:
    """Return texts for training without labels, headline and description, of the articles of `free_articles`."""
    others, own = free_articles(data)
    different: dict[str, str] = {}
    for article in (*others, *own):
        text = f"{article.headline} {article.description}".strip()
        different.setdefault(sentence_key(article.headline), text)
    return list(different.values())


@checked
def denoising(data: News, seed: int = 0) -> News:
    """Return examples to pre-train a writer of headlines: it restores a text from some of its words.

    The texts are the headlines, each twice, and a part of 6 to 15 words of each description, of the articles of
    `free_articles`, all in Title Case. A fifth to seven tenths of the words are kept, and a word moves by at most two
    places (denoising, as in Lample et al. 2018, arXiv 1711.00043, and BART: Lewis et al. 2020, arXiv 1910.13461).
    """
    rng = random.Random(seed)

    def example(category: str, words: list[str]) -> Article:
        share = rng.uniform(0.2, 0.7)
        kept = [word for word in words if rng.random() < share] or words[:1]
        places = [place + 3 * rng.random() for place in range(len(kept))]
        moved = " ".join(word for _, word in sorted(zip(places, kept, strict=True)))
        return Article(category, " ".join(word[:1].upper() + word[1:] for word in words), moved)

    others, own = free_articles(data)
    headlines: dict[str, Article] = {}
    described: dict[str, Article] = {}
    for one in (*own, *others):
        headlines.setdefault(sentence_key(one.headline), one)
        if one.description:
            described.setdefault(sentence_key(one.description), one)
    made = [example(one.category, one.headline.split()) for one in headlines.values() for _ in range(2)]
    for one in described.values():
        words = one.description.split()
        start = rng.randrange(max(1, len(words) - 12))
        made.append(example(one.category, words[start : start + rng.randrange(6, 16)]))
    rng.shuffle(made)
    return _split(made, f"{data.name}, denoising", True, False)


def free_articles(data: News) -> tuple[list[Article], list[Article]]:
    """Return the articles of all HuffPost files (none unless `data` is "news" or "news42"), and the training articles.

    An article is left out if its headline or its description is that of a validation or test article, apart from case,
    blanks and punctuation.
    """
    others = _huffpost((*_ARTICLES, _HEADLINES)) if data.name in ("news", "news42") else []
    held = {sentence_key(text) for one in (*data.valid, *data.test) for text in (one.headline, one.description) if text}

    def free(articles: Iterable[Article]) -> list[Article]:
        return [one for one in articles if held.isdisjoint((sentence_key(one.headline), sentence_key(one.description)))]

    return free(others), free(data.train)


def read_articles(path: str | Path) -> Iterator[Article]:
    """Yield the articles of a JSON Lines file or a table. Raises InputError with the number of a wrong line."""
    first: list[str] = []
    for number, line in enumerate(iter_lines(path), 1):
        if not line.strip():
            continue
        if line.lstrip().startswith("{"):
            try:
                row = parse_json(line, str(path))
                given = (row.get(name) or "" for name in ("short_description", "description"))
                fields = [row["category"], row["headline"], next((text for text in given if str(text).strip()), "")]
            except (ValueError, KeyError, AttributeError):
                fields = []
        else:
            fields = line.split("\t")
            if all(map(is_quoted, fields)):
                (fields,) = csv.reader([line], delimiter="\t")
            if fields[0].strip().casefold() in _HEADING and (first := first or fields) == fields:
                continue  # the heading of the table, which joined tables repeat
            fields += [""] if len(fields) == 2 else []
        if len(fields) != 3 or not all(map(is_text, fields)):
            raise InputError(
                f"{path}, line {number:,}: {line[:40]!r} is neither category<TAB>headline<TAB>description nor a JSON "
                "object with these as texts."
            )
        first = first or fields
        yield Article(unicodedata.normalize("NFC", fields[0].strip()), fields[1].strip(), fields[2].strip())


def _huffpost(files: Sequence[str]) -> Iterator[Article]:
    local = [find_local(name) for name in files]
    if all(local):
        for path in local:
            yield from read_articles(path)  # type: ignore[arg-type]
        return
    for row in load_hub("heegyu/news-category-dataset", "default")["train"]:
        yield Article(row["category"], row["headline"].strip(), row["short_description"].strip())


def _split(
    found: list[Article],
    name: str,
    descriptions: bool,
    categories: bool,
    own: Mapping[str, list[Article]] | None = None,
) -> News:
    whole, own = own == {}, own or {}
    held_out = {sentence_key(article.headline) for part in own.values() for article in part}
    free = [article for article in found if sentence_key(article.headline) not in held_out]
    usable = [a for a in free if a.category and a.headline and (a.description or not descriptions)]
    if not usable:
        need = "category, headline and description" if descriptions else "category and headline"
        raise InputError(f"{name}: no article has {need}. Give a file whose articles have them.")
    counts = Counter(article.category for article in usable)
    if len(counts) < 2 and categories:
        raise InputError(
            f"{name}: all articles are of the category {next(iter(counts))[:60]!r}; there is nothing to classify. "
            f"Give articles of two or more categories."
        )
    parts = split_by_sentence(usable, lambda article: article.headline, own)
    known = {article.category for article in parts[0]}
    kept = [[article for article in part if not categories or article.category in known] for part in parts]
    if not kept[1] or not kept[2]:
        raise InputError(
            f"{name}: there are too few articles for this number of categories: no article could be held out whose "
            f"category also occurs in training. Give more articles of each."
        )
    notes = []
    if taken := len(found) - len(free):
        notes.append(f"{name}: {taken:,} training articles have a validation or test headline and are left out.")
    if missing := len(free) - len(usable):
        notes.append(f"{name}: left out {missing:,} articles without a headline, a category or a description.")
    if lost := sum(map(len, parts)) - sum(map(len, kept)):
        notes.append(f"{name}: left out {lost} held-out articles whose category has no other article.")
    return News(kept[0], kept[1], kept[2], name, notes=tuple(notes), whole=whole)


class Desk(NamedTuple):
    """The vocabulary of a category: its share of the news, agents, (present, past) verbs, objects, follow-ups."""

    share: int
    agents: list[str]
    verbs: list[list[str]]
    objects: list[str]
    details: list[str]


def _desk(rows: list[list[str]]) -> Desk:
    share, *lists = ("  ".join(cells).split(", ") for cells in rows)
    agents, verbs, objects, details = lists
    return Desk(int(share[0]), agents, [pair.split("/") for pair in verbs], objects, details)


_TABLES = read_tables(__file__, "grammar/news.txt")
DESKS = {category: _desk(rows) for category, rows in sections(_TABLES, "desks").items()}
#: Subjects of every category (only agent and verb show it); places, days, sources.
COMMON, PLACES, DAYS, SOURCES = (_TABLES[name][0][0].split(", ") for name in ("common", "places", "days", "sources"))
ENDINGS = ("", "", "", " Again", " At Last", " After Long Wait")
TAILS = ("", "", "", " once more", " at last", " after a long wait")

#: One article in this many has an agent of another category or a common object: not every headline shows its category.
_STRAY, _COMMON = 8, 4


def articles(seed: int = 0) -> Iterator[Article]:
    """Yield random articles without end. The same seed gives the same articles."""
    rng = random.Random(seed)
    names = list(DESKS)
    shares = [desk.share for desk in DESKS.values()]
    while True:
        (category,) = rng.choices(names, shares)
        desk = DESKS[category]
        agent = rng.choice(DESKS[rng.choice(names)].agents if rng.randrange(_STRAY) == 0 else desk.agents)
        thing = rng.choice(COMMON if rng.randrange(_COMMON) == 0 else desk.objects)
        (present, past), place = rng.choice(desk.verbs), rng.choice(PLACES)
        ending = rng.randrange(len(ENDINGS))
        where = rng.random() < 0.5
        headline = f"{agent} {present} {thing}" + (f" in {place}" if where else "")
        told = (
            f"The {agent} {'in' if where else 'from'} {place} {past} the {thing}{TAILS[ending]} "
            f"on {rng.choice(DAYS)}, {rng.choice(SOURCES)}."
        )
        sentences = [told, rng.choice(desk.details) + "."]
        if rng.random() < 0.3:
            sentences.reverse()
        yield Article(category, _title(headline) + ENDINGS[ending], " ".join(sentences))


def _title(text: str) -> str:
    """Capitalise a text as in headlines."""
    small = {"in", "of", "for", "with"}
    return " ".join(word if word in small else word[0].upper() + word[1:] for word in text.split())
