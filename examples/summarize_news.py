"""Train a Transformer that writes the headline of an article, and compare it with taking the first words.

python examples/summarize_news.py                                 embedded news, a few minutes
python examples/summarize_news.py --data news --out runs/heads    HuffPost articles
python examples/summarize_news.py --table layers                  ablation: 1, 2, 4 and 6 layers
python examples/summarize_news.py --checkpoint runs/heads "The storm from Norwick reached the coast on Monday."
"""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

from handloom.models import Strategy
from handloom.models.presets import summary_preset
from handloom.train.cli.command_line import run_main
from handloom.train.cli.examples import example_parser, parse_example
from handloom.train.cli.generation import strategy_of
from handloom.train.cli.pairs import compare_presets, draw_attention, train_pairs, use_checkpoint
from handloom.train.cli.training import changed
from handloom.train.data.news import NEWS_NAMES, News, load_news
from handloom.train.runs.folder import RunFolder
from handloom.train.tables.cells import ABLATIONS, ablation_cells, markdown_table
from handloom.train.tasks.metrics import best_and_worst, bleu, rouge, samples_table
from handloom.train.tasks.translation import Translator

COLUMNS = {
    "cell": "headlines",
    "parameters": "parameters:,",
    "bleu": "BLEU:.2f",
    "rouge1": "ROUGE-1:.2f",
    "rouge2": "ROUGE-2:.2f",
    "rougeL": "ROUGE-L:.2f",
    "seconds": "seconds:.0f",
}


def parse_arguments() -> Any:
    parser = example_parser(
        __doc__,
        data=f"one of {', '.join(NEWS_NAMES)}, or a file of your own: JSON Lines with category, headline and "
        "short_description, or category<TAB>headline<TAB>description (default: embedded, which needs no network)",
        texts="descriptions of articles",
    )
    parser.add_argument(
        "--table", choices=(*ABLATIONS, "none"), default="none", help="also train the model with other sizes"
    )
    return parse_example(parser)


def main() -> None:
    arguments = parse_arguments()
    if arguments.checkpoint:
        use_checkpoint(arguments)
        return
    data = load_news(arguments.data, descriptions=True)
    print(data.summary(), *data.notes, sep="\n")
    preset = changed(summary_preset(arguments.preset, data.name), arguments.set)
    strategy = strategy_of(arguments)
    data = dataclasses.replace(data, test=data.test[: preset.test_size])
    pairs = [[(article.description, article.headline) for article in part] for part in (data.train, data.valid)]

    def evaluate(translator: Translator, run: RunFolder) -> str:
        headlines = write_headlines(translator, data, strategy)
        own = {"cell": "Transformer", "parameters": translator.model.parameter_count(), **figures(headlines, data)}
        rows = [first_words(data), own]
        if arguments.table != "none":
            cells = ablation_cells(arguments.table, preset.d_model)
            rows += compare_presets(
                arguments, run, *pairs, preset, cells,
                lambda other: figures(write_headlines(other, data, strategy), data),
            )  # fmt: skip
        return report(translator, headlines, rows, data, run)

    train_pairs(arguments, "summarize_news", data.summary(), *pairs, preset, evaluate)


def write_headlines(translator: Translator, data: News, strategy: Strategy) -> list[str]:
    texts = [article.description for article in data.test]
    return translator.translate(texts, strategy=strategy, too_long="truncate", progress=True)


def figures(headlines: list[str], data: News) -> dict[str, float]:
    """BLEU and ROUGE against the articles' own headlines."""
    references = [article.headline for article in data.test]
    scores = {f"rouge{kind}": rouge(headlines, references, kind).value for kind in ("1", "2", "L")}
    return {"bleu": bleu(headlines, references).value, **scores}


def first_words(data: News) -> dict[str, float | str]:
    """The baseline: as many first words of the description as headlines have on average."""
    words = round(statistics.mean(len(article.headline.split()) for article in data.train))
    headlines = [" ".join(article.description.split()[:words]) for article in data.test]
    return {"cell": f"first {words} words", **figures(headlines, data)}


def report(translator: Translator, headlines: list[str], rows: list[dict], data: News, run: RunFolder) -> str:
    """The table, the best and the worst headlines, and pictures of the attention."""
    sources, references = ([getattr(a, name) for a in data.test] for name in ("description", "headline"))
    best, worst = best_and_worst(sources, references, headlines)
    headers = ("description", "headline", "written")
    samples = "\n\n".join(
        f"{title}\n\n{samples_table(some, headers=headers)}" for title, some in (("Best", best), ("Worst", worst))
    )
    run.write_samples(samples)
    draw_attention(translator, min(sources, key=lambda text: abs(len(text.split()) - 14)), run)
    table = markdown_table(rows, COLUMNS)
    run.table_path.write_text(table + "\n", encoding="utf-8")
    print(f"\n{samples}")
    return f"\n{table}\n\n{bleu(headlines, references).signature}; {rouge(headlines, references).signature}"


if __name__ == "__main__":
    run_main(main)
