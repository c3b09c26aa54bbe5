"""Train a Transformer that writes the headline of an article, and compare it with two simple baselines.

python examples/summarize_news.py                                 embedded news, a few minutes
python examples/summarize_news.py --data news --out runs/heads    HuffPost articles
python examples/summarize_news.py --table layers                  ablation: 1, 2, 4 and 6 layers
python examples/summarize_news.py --denoise --out runs/restorer   pre-training; then --init runs/restorer
python examples/summarize_news.py --checkpoint runs/heads "The storm from Norwick reached the coast on Monday."
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from handloom.cli.command_line import run_main
from handloom.cli.examples import example_parser, is_named, parse_example, train_and_report
from handloom.cli.generation import strategy_of
from handloom.cli.texts import apply_model
from handloom.cli.training import preset_of
from handloom.errors import InputError
from handloom.examples.tables import news
from handloom.examples.tables.attention import ALIGNMENT_COLUMNS, alignment_rows, draw_last_layers
from handloom.examples.tables.stated import ABLATIONS, Table, ablation_cells, write_tables
from handloom.models.presets import summary_preset
from handloom.models.text_baselines import nearest
from handloom.tokenizer.word import preprocess
from handloom.train.data.news import NEWS_NAMES, Article, News, denoising, load_news
from handloom.train.distributed import find_process_group
from handloom.train.runs.folder import RunFolder
from handloom.train.tasks.metrics import best_and_worst, bleu, rouge, samples_text
from handloom.train.tasks.translation import Translation, Translator

TASK = "headlines of articles"
MAX_ARTICLES = 500  # number of articles in which alignments are counted
COLUMNS = {
    "cell": "headlines",
    "parameters": "parameters:,",
    "train_loss": "training loss:.3f",
    "valid_loss": "validation loss:.3f",
    "bleu": "BLEU:.2f",
    "report_bleu": "report's BLEU:.1f",
    "rouge1": "ROUGE-1:.2f",
    "rouge2": "ROUGE-2:.2f",
    "rougeL": "ROUGE-L:.2f",
    "seconds": "seconds:.0f",
}


def parse_arguments() -> Any:
    parser = example_parser(
        __doc__,
        summary_preset,
        data=f"one of {', '.join(NEWS_NAMES)}, or your own file: JSON Lines with category, headline and "
        "short_description, or category<TAB>headline<TAB>description (default: embedded, which needs no network)",
    )
    add = parser.group("this report")
    words = "additional table: heads and layers train models with other numbers of heads or layers, and attention "
    words += "measures the attention of the heads to the copied words (default: none)"
    add("--table", choices=(*ABLATIONS, "attention", "none"), default="none", help=words, resumes=True)
    words = "pre-train: restore headlines and parts of descriptions from some of their words, also of articles without "
    words += "a description; then train on the headlines with --init"
    add("--denoise", action="store_true", help=words)
    return parse_example(parser)


def main() -> None:
    if apply_model("summarize", shipped=False):
        return
    arguments = parse_arguments()
    preset, strategy = preset_of(arguments, summary_preset(arguments.preset, arguments.data)), strategy_of(arguments)
    own, cells = ablation_cells(arguments.table, preset)
    if preset.words and arguments.table == "attention":
        raise InputError("--table attention needs subwords: leave out --set words=true.")
    change_data = denoising if arguments.denoise else (lambda news: news)
    data = find_process_group().from_first(lambda: change_data(load_news(arguments.data, descriptions=True)))
    print(data.summary(), *data.notes, sep="\n")
    if preset.words or preset.lowercase:  # the references for scores are converted too
        change = preprocess if preset.words else str.lower
        parts = ("train", "valid", "test")
        data = dataclasses.replace(data, **{part: changed(getattr(data, part), change) for part in parts})
    data = dataclasses.replace(data, test=data.test[: preset.test_size])
    pairs = [[(article.description, article.headline) for article in part] for part in (data.train, data.valid)]
    descriptions = [article.description for article in data.test]

    def test(translator: Translator, task: Translation) -> tuple[dict[str, float], list[str]]:
        headlines = translator.translate(descriptions, strategy=strategy, too_long="truncate", progress=True)
        return headline_scores(headlines, data), headlines

    def report(
        translator: Translator, task: Translation, run: RunFolder, rows: list[dict], headlines: list[str]
    ) -> str:
        whole = {"cell": own or f"Transformer, {strategy.name}", **losses(run), **rows[0]}
        others = [{**losses(RunFolder.open(run.cell_path(row["cell"]))), **row} for row in rows[1:]]
        rows, tables = [*baselines(data), whole, *others], dict[str, Table]()
        if is_named(data, NEWS_NAMES):
            rows = news.with_report_figures([{"cell": "the report", **news.HEADLINE_WRITER}, *rows], "bleu")
            texts = translator.translate(list(news.HEADLINES), strategy=strategy, too_long="truncate")
            tables["samples"] = news.sample_headlines(texts), news.SAMPLE_COLUMNS
        tables["models"] = rows, COLUMNS
        if arguments.table == "attention":
            written = {"written": headlines, "reference": [article.headline for article in data.test]}
            copied = {
                name: list(zip(descriptions, texts, strict=True))[:MAX_ARTICLES] for name, texts in written.items()
            }
            tables["alignment"] = alignment_rows(translator, copied), ALIGNMENT_COLUMNS
        return show(translator, headlines, tables, data, run)

    task = Translation(*pairs, preset=preset, name=TASK)
    train_and_report(arguments, data, task, test=test, report=report, cells=cells, named=NEWS_NAMES)


def changed(articles: list[Article], change: Callable[[str], str]) -> list[Article]:
    """Return the articles with changed texts: in lower case, and for words also without punctuation."""
    return [Article(one.category, change(one.headline), change(one.description)) for one in articles]


def losses(run: RunFolder) -> dict[str, float]:
    """Return a run's training and validation loss at the validation with the best result."""
    rows = news.epoch_rows(run.metrics(), report=False)
    best = min(rows, key=lambda row: row["valid_loss"])
    return {name: best[name] for name in ("train_loss", "valid_loss") if name in best}


def headline_scores(headlines: list[str], data: News) -> dict[str, float]:
    """Return BLEU and ROUGE of the outputs, with the articles' headlines as references."""
    references = [article.headline for article in data.test]
    scores = {f"rouge{kind}": rouge(headlines, references, kind).value for kind in ("1", "2", "L")}
    return {"bleu": bleu(headlines, references).value, **scores}


def baselines(data: News) -> list[dict[str, float | str]]:
    """Return rows for two baselines: the description's first words (number chosen in validation), the nearest
    headline."""
    held_out = [article.headline for article in data.valid]
    most = max(range(4, 31), key=lambda words: rouge(first_words(data.valid, words), held_out).value)
    found = nearest([article.description for article in data.test], [article.description for article in data.train])
    headlines = {
        f"first {most} words": first_words(data.test, most),
        "nearest article's headline": [data.train[i].headline for i in found],
    }
    return [{"cell": name, **headline_scores(texts, data)} for name, texts in headlines.items()]


def first_words(articles: list[Article], words: int) -> list[str]:
    """Return the first words of each description."""
    return [" ".join(article.description.split()[:words]) for article in articles]


def show(translator: Translator, headlines: list[str], tables: dict[str, Table], data: News, run: RunFolder) -> str:
    """Show the report's Tables 8 and 9, the best and the worst headlines, and pictures of the attention."""
    sources, references = ([getattr(a, name) for a in data.test] for name in ("description", "headline"))
    best, worst = best_and_worst(sources, references, headlines)
    headers = ("description", "headline", "written")
    samples = "\n\n".join(
        f"{title}\n\n{samples_text(some, headers=headers)}" for title, some in (("Best", best), ("Worst", worst))
    )
    run.write_samples(samples)
    draw_last_layers(translator, min(sources, key=lambda text: abs(len(text.split()) - 14)), run)
    table = write_tables(run, tables)
    return f"{samples}\n\n{table}\n\n{bleu(headlines, references).signature}; {rouge(headlines, references).signature}"


if __name__ == "__main__":
    run_main(main, several_processes=True)
