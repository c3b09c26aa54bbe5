"""Describe the data sets of the reports, and count texts that occur in two parts of a set or in two sets.

    HANDLOOM_DATA=folder python -m benchmarks.data_overlap --json benchmarks/results/reports/data.json
    HANDLOOM_DATA=folder python -m benchmarks.data_overlap --run runs/classify_news     # recall per category

Two texts are equal if they have the same letters, ignoring case, digits, blanks and punctuation. If a set is
unavailable, it is skipped with a message. No model is trained; the program takes about ten seconds.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import program, write_report
from handloom.cli.command_line import run_main
from handloom.errors import InputError
from handloom.train.cells import markdown_table
from handloom.train.data.captions import load_captions
from handloom.train.data.downloads import find_local
from handloom.train.data.news import load_news, read_articles
from handloom.train.data.translation import load_translation_data
from handloom.train.tasks.classification import Classifier

Row = dict[str, Any]
#: The training, validation and test texts of a set.
Parts = tuple[list[str], list[str], list[str]]
COLUMNS = {
    "cell": "texts",
    "train": "training:,",
    "valid": "validation:,",
    "test": "test:,",
    "words": "words a text:.1f",
    "valid_overlap": "of validation, in training:.1%",
    "test_overlap": "of the test, in training:.1%",
}
SHARED = {"cell": "texts of", "other": "that are in", "texts": "texts:,", "shared": "shared:,", "share": "share:.1%"}
#: The articles have no dates, but each file has the articles of one period.
PERIODS = {
    "early": "news_category/news_v2_2017_2018_resplit.jsonl.gz",
    "late": "news_category/news_v3_head10k.jsonl.gz",
}
PERIOD_COLUMNS = {"cell": "category", "early": "August 2017 to May 2018:.1%", "late": "May 2018 to September 2022:.1%"}
CATEGORIES = {
    "cell": "category",
    "train": "training:,",
    "share": "share:.1%",
    "test": "test:,",
    "recall": "recall:.0%",
    "precision": "precision:.0%",
}


def letters(text: str) -> str:
    return "".join(filter(str.isalpha, text.lower()))


def overlap(texts: Iterable[str], others: Iterable[str]) -> int:
    """Count the texts that also occur in `others`, comparing only letters."""
    known = set(map(letters, others))
    return sum(letters(text) in known for text in texts)


def size_row(train: list[str], valid: list[str], test: list[str]) -> Row:
    return {
        "train": len(train),
        "valid": len(valid),
        "test": len(test),
        "words": statistics.fmean(len(text.split()) for text in train),
        "valid_overlap": overlap(valid, train) / len(valid),
        "test_overlap": overlap(test, train) / len(test),
    }


def _parts(data: Any, texts: Callable[[Any], list[str]]) -> Parts:
    return texts(data.train), texts(data.valid), texts(data.test)


def _pairs(name: str, source: str, target: str, side: int) -> Parts:
    data = load_translation_data(name, source=source, target=target)
    return _parts(data, lambda pairs: [pair[side] for pair in pairs])


def _news(descriptions: bool, field: str) -> Parts:
    data = load_news("news", descriptions=descriptions, categories=True)
    return _parts(data, lambda articles: [getattr(article, field) for article in articles])


SETS: dict[str, Callable[[], Parts]] = {
    "Multi30k, German": lambda: _pairs("multi30k", "de", "en", 0),
    "Multi30k, English": lambda: _pairs("multi30k", "de", "en", 1),
    "Multi30k, French": lambda: _pairs("multi30k", "en", "fr", 1),
    "Tatoeba de-en, German": lambda: _pairs("tatoeba", "de", "en", 0),
    "Tatoeba de-en, English": lambda: _pairs("tatoeba", "de", "en", 1),
    "Tatoeba en-fr, English": lambda: _pairs("tatoeba", "en", "fr", 0),
    "Tatoeba en-fr, French": lambda: _pairs("tatoeba", "en", "fr", 1),
    "COCO captions": lambda: _parts(load_captions("coco"), lambda groups: [text for group in groups for text in group]),
    "articles, headlines": lambda: _news(True, "headline"),
    "articles, descriptions": lambda: _news(True, "description"),
    "headlines of 41 categories": lambda: _news(False, "headline"),
}
#: (set, number of a part of this set, other set): the part is compared with the other set's training texts.
BETWEEN = (
    ("Multi30k, English", 2, "COCO captions"),
    ("Multi30k, English", 2, "Tatoeba de-en, English"),
    ("COCO captions", 2, "Multi30k, English"),
    ("Tatoeba de-en, English", 2, "Tatoeba en-fr, English"),
    ("Tatoeba de-en, English", 0, "Tatoeba en-fr, English"),
    ("headlines of 41 categories", 2, "articles, headlines"),
    ("articles, headlines", 2, "headlines of 41 categories"),
    ("articles, headlines", 0, "headlines of 41 categories"),
)


def category_rows(run: Path | None) -> list[Row]:
    """Return each category's share in training, and the test recall and precision of the classifier in `run`."""
    data = load_news("news", descriptions=True, categories=True)
    counts, actual = Counter(a.category for a in data.train), [a.category for a in data.test]
    tests = Counter(actual)
    rows: list[Row] = [
        {"cell": name, "train": count, "share": count / len(data.train), "test": tests[name]}
        for name, count in counts.most_common()
    ]
    if run is not None:
        predicted = Classifier.load(run).predict([a.text(description=True) for a in data.test])
        right, named = Counter(a for a, b in zip(actual, predicted, strict=True) if a == b), Counter(predicted)
        for row in rows:
            name = row["cell"]
            row["recall"] = right[name] / tests[name] if tests[name] else None
            row["precision"] = right[name] / named[name] if named[name] else None
    return rows


def period_rows() -> list[Row]:
    """Return the share of the 15 most frequent categories in each period; nothing if the files are unavailable."""
    paths = [find_local(name) for name in PERIODS.values()]
    if not all(paths):
        return []
    counts = [Counter(article.category for article in read_articles(path)) for path in paths if path]
    frequent = [name for name, _ in sum(counts, Counter[str]()).most_common(15)]
    shares = [{name: each[name] / each.total() for name in frequent} for each in counts]
    return [{"cell": name, **{key: own[name] for key, own in zip(PERIODS, shares, strict=True)}} for name in frequent]


def main() -> None:
    parser = program(__doc__)
    parser.add_argument("--run", type=Path, help="folder of a classifier of headlines and descriptions")
    arguments = parser.parse_args()
    parts: dict[str, Parts] = {}
    for name, load in SETS.items():
        try:
            parts[name] = load()
        except InputError as error:
            print(f"{name}: left out. {error}")
    tables: dict[str, list[Row]] = {
        "sizes": [{"cell": name, **size_row(*each)} for name, each in parts.items()],
        "between": [
            {"cell": f"{one}, {'test' if part else 'training'}", "other": f"{two}, training", "texts": len(texts),
             "shared": shared, "share": shared / len(texts)}
            for one, part, two in BETWEEN
            if one in parts and two in parts
            for texts in [parts[one][part]]
            for shared in [overlap(texts, parts[two][0])]
        ],
        "categories": category_rows(arguments.run) if "articles, headlines" in parts else [],
        "periods": period_rows(),
    }  # fmt: skip
    for rows, columns in zip(tables.values(), (COLUMNS, SHARED, CATEGORIES, PERIOD_COLUMNS), strict=True):
        print(markdown_table(rows, columns) + "\n")
    write_report(arguments.json, tables=tables)


if __name__ == "__main__":
    run_main(main)
