"""Train a Transformer that writes the headline of an article, and compare it with two simple baselines.

python examples/summarize_news.py                                 embedded news, a few minutes
python examples/summarize_news.py --data news --out runs/heads    HuffPost articles
python examples/summarize_news.py --table layers                  ablation: 1, 2, 4 and 6 layers
python examples/summarize_news.py --denoise --out runs/restorer   pre-training; then --init runs/restorer
python examples/summarize_news.py --checkpoint runs/heads "The storm from Norwick reached the coast on Monday."
"""

import dataclasses
from typing import Any

from handloom import InputError, Translator, cli, models, train
from handloom.examples.tables import attention, news, pairs, stated
from handloom.tokenizer import preprocess

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
    parser = cli.example_parser(__doc__, models.summary_preset, data=news.NEWS_HELP)
    add = parser.group("this report")
    words = "additional table: heads and layers train models with other numbers of heads or layers, and attention "
    words += "measures the attention of the heads to the copied words (default: none)"
    add("--table", choices=(*stated.ABLATIONS, "attention", "none"), default="none", help=words, resumes=True)
    words = "pre-train: restore headlines and parts of descriptions from some of their words, also of articles without "
    words += "a description; then train on the headlines with --init"
    add("--denoise", action="store_true", help=words)
    return cli.parse_example(parser)


def load(name: str, denoise: bool) -> Any:
    data = train.load_news(name, descriptions=True)
    return train.denoising(data) if denoise else data


def main() -> None:
    if cli.apply_model("summarize", shipped=False):
        return
    arguments = parse_arguments()
    preset = cli.preset_of(arguments, models.summary_preset(arguments.preset, arguments.data))
    strategy = cli.strategy_of(arguments)
    if preset.words and arguments.table == "attention":
        raise InputError("--table attention needs subwords: leave out --set words=true.")
    data = cli.load_data(load, arguments.data, arguments.denoise)
    if preset.words or preset.lowercase:  # the references for scores are converted too
        data = data.changed(preprocess if preset.words else str.lower)
    data = dataclasses.replace(data, test=data.test[: preset.test_size])
    training, valid, held_out = data.pairs()
    task = train.Translation(training, valid, preset=preset, name=TASK)
    own, cells = stated.ablation_cells(arguments.table, task)
    descriptions, references = [list(side) for side in zip(*held_out, strict=True)]

    def test(translator: Translator) -> tuple[dict[str, float], list[str]]:
        headlines = translator.translate(
            descriptions, strategy=strategy, too_long="truncate", progress=True, split=False
        )
        return news.headline_scores(headlines, references), headlines

    with cli.example_run(arguments, data, Translator, [TASK], train.NEWS_NAMES) as run:
        translator = run.fit(task)
        (row, *rows), headlines = run.score(translator, test, cells)
        if not run.first:
            return
        rows = [{**news.best_losses(train.RunFolder.open(run.folder.cell_path(row["cell"]))), **row} for row in rows]
        whole = {"cell": own or f"Transformer, {strategy.name}", **news.best_losses(run.folder), **row}
        rows, shown = [*news.headline_baselines(data), whole, *rows], dict[str, stated.Table]()
        if run.reported:
            rows = news.with_report_figures([{"cell": "the report", **news.HEADLINE_WRITER}, *rows], "bleu")
            texts = translator.translate(list(news.HEADLINES), strategy=strategy, too_long="truncate", split=False)
            shown["samples"] = news.sample_headlines(texts), news.SAMPLE_COLUMNS
        shown["models"] = rows, COLUMNS
        if arguments.table == "attention":
            written = list(zip(descriptions, headlines, strict=True))[:MAX_ARTICLES]
            copied = {"written": written, "reference": held_out[:MAX_ARTICLES]}
            shown["alignment"] = attention.alignment_rows(translator, copied), attention.ALIGNMENT_COLUMNS
        how = {"headers": ("description", "headline", "written"), "titles": ("Best", "Worst"), "words": 14}
        samples, *_ = pairs.show_samples(translator, descriptions, references, headlines, run.folder, **how)
        scores = f"{train.bleu(headlines, references).signature}; {train.rouge(headlines, references).signature}"
        run.report(f"{samples}\n\n{stated.write_tables(run.folder, shown)}\n\n{scores}")


if __name__ == "__main__":
    cli.run_main(main, several_processes=True)
