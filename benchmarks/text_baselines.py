"""Score word-counting baselines on the data of the five reports, for comparison with models.

    HANDLOOM_DATA=folder python -m benchmarks.text_baselines --json benchmarks/results/reports/baselines.json

Each data set is split as in the examples. The baselines' constants are chosen on the validation part, and the test part
is scored once. Unavailable data sets are skipped, with a message.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.side_by_side import program, write_report
from handloom.cli.command_line import run_main
from handloom.errors import InputError
from handloom.examples.tables.news import baselines, headline_baselines, headline_scores
from handloom.examples.tables.pairs import set_long_apart
from handloom.models.text_baselines import WordForWord, nearest
from handloom.train.cells import markdown_table
from handloom.train.data.captions import caption_pairs, load_captions
from handloom.train.data.files import Pair
from handloom.train.data.news import load_news
from handloom.train.data.translation import load_translation_data
from handloom.train.tasks.metrics import bleu

Row = dict[str, Any]
#: Built from frequent words: each insertion has the highest ROUGE-L on 3,000 training headlines.
CONSTANT = "Trump's To A For On In The Of"
COLUMNS = {
    "data": "data, test set",
    "cell": "baseline",
    "accuracy": "accuracy:.1%",
    "macro_f1": "macro F1:.3f",
    "bleu": "BLEU:.2f",
    "rougeL": "ROUGE-L:.2f",
}


def news_rows(name: str, descriptions: bool) -> list[Row]:
    """Return rows for the most frequent class, naive Bayes and a linear SVM."""
    return baselines(*load_news(name, descriptions=descriptions, categories=True).labelled(descriptions))


def parts_rows() -> list[Row]:
    """Return these rows for 42 categories: the whole test set, its articles with a description, and those without."""
    data = load_news("news42", descriptions=True, categories=True)
    train, valid, test = data.labelled(True)
    parts = {"42 categories": test}
    for part, described in (("articles with a description", True), ("headlines alone", False)):
        articles = [article for article in data.test if bool(article.description) is described]
        _, _, parts[f"42 categories, {part}"] = replace(data, test=articles).labelled(True)
    rows = baselines(train, valid, *parts.values())
    each = len(rows) // len(parts)
    return [{"data": name, **row} for i, name in enumerate(parts) for row in rows[i * each : (i + 1) * each]]


def headline_rows() -> list[Row]:
    """Return rows for the description's first words (number chosen in validation), the nearest headline and a constant
    one."""
    data = load_news("news", descriptions=True)
    words, near = headline_baselines(data)
    return [
        {**words, "cell": f"{words['cell']} of the description"},
        {**near, "cell": "headline of the nearest training article"},
        {
            "cell": "one headline for all articles",
            **headline_scores([CONSTANT] * len(data.test), [article.headline for article in data.test]),
        },
    ]


def translation_rows(name: str, source: str, target: str, tests: int | None = None) -> list[Row]:
    """Return rows for three baselines: word-by-word IBM model 1, the nearest training pair, and the unchanged
    source. With a number of tests, the longest 5 % of the sentences are left out, as in examples/translate_en_fr.py."""
    data = load_translation_data(name, source=source, target=target)
    if tests is not None:
        data, _ = set_long_apart(data)
    sources, references = (list(side) for side in zip(*data.test[:tests], strict=True))
    found = {"the source as it is": sources, **from_pairs(data.train, sources)}
    return [{"cell": cell, "bleu": bleu(texts, references).value} for cell, texts in found.items()]


def from_pairs(pairs: Sequence[Pair], sources: Sequence[str]) -> dict[str, list[str]]:
    """Return the outputs of the two baselines that learn from pairs."""
    table = WordForWord(pairs)
    return {
        "nearest training pair": [pairs[i][1] for i in nearest(sources, [pair[0] for pair in pairs])],
        "word for word (IBM model 1)": [table.translate(text) for text in sources],
    }


def caption_rows() -> list[Row]:
    """Return rows for the input, the partner of the nearest training caption, and word-by-word IBM model 1."""
    data = load_captions("coco")
    inputs, others = [group[0] for group in data.test], [group[1:] for group in data.test]
    found = {"the input itself": inputs, **from_pairs(caption_pairs(data.train), inputs)}
    return [{"cell": cell, "bleu": bleu(texts, others).value} for cell, texts in found.items()]


SETS: dict[str, Callable[[], list[Row]]] = {
    "news, headline and description": lambda: news_rows("news", True),
    "news, headlines": lambda: news_rows("news", False),
    "42 categories": parts_rows,
    "embedded news, headlines": lambda: news_rows("embedded", False),
    "news, writing headlines": headline_rows,
    "multi30k de-en, test_2016_flickr": lambda: translation_rows("multi30k", "de", "en"),
    "multi30k en-fr, test_2016_flickr": lambda: translation_rows("multi30k", "en", "fr"),
    "tatoeba de-en": lambda: translation_rows("tatoeba", "de", "en"),
    "tatoeba en-fr, 500 pairs": lambda: translation_rows("tatoeba", "en", "fr", 500),
    "tatoeba fr-en, 500 pairs": lambda: translation_rows("tatoeba", "fr", "en", 500),
    "embedded en-fr, 468 pairs": lambda: translation_rows("embedded", "en", "fr", 1000),
    "embedded de-en": lambda: translation_rows("embedded", "de", "en"),
    "coco, val2017": caption_rows,
}


def main() -> None:
    arguments = program(__doc__).parse_args()
    rows: list[Row] = []
    for name, make in SETS.items():
        begin = time.process_time()
        try:
            made = make()
        except InputError as error:
            print(f"{name}: left out. {error}")
            continue
        rows += [{"data": name, **row} for row in made]
        print(f"{name}: {time.process_time() - begin:.0f} s", flush=True)
    print(markdown_table(rows, COLUMNS))
    write_report(arguments.json, rows=rows)


if __name__ == "__main__":
    run_main(main)
