"""Train a Transformer that paraphrases sentences; the training pairs are captions of the same picture.

python examples/paraphrase_coco.py                                embedded captions, a few minutes
python examples/paraphrase_coco.py --data coco --out runs/coco    COCO captions
python examples/paraphrase_coco.py --table memory                 memory of a training step with and without fp16
python examples/paraphrase_coco.py --checkpoint runs/coco "A dig sitting on the grass"
"""

import dataclasses
from typing import Any

from handloom import Translator, cli, models, train
from handloom.examples.tables import attention, pairs

#: The report's inputs, including their spelling mistakes, and some other inputs.
PROBES = (
    *pairs.PARAPHRASES,
    "A man riding a bike on a city street",
    "Two women are eating pizza in a kitchen",
    "A cat sleeping on a wooden bench",
)
TASK = "paraphrases"
COLUMNS = {
    "cell": "paraphrases",
    "bleu": "BLEU, other captions:.2f",
    "self_bleu": "self-BLEU, input:.2f",
    "copied": "copied:.1%",
}


def parse_arguments() -> Any:
    words = f"one of {', '.join(train.CAPTION_NAMES)}, or a file of rows picture<TAB>caption "
    words += "(default: embedded, which needs no network)"
    parser = cli.example_parser(__doc__, models.paraphrase_preset, data=words)
    add = parser.group("this report")
    words = "train on every ordered pair of a picture's captions (20 pairs for five captions), instead of only the "
    words += "pairs of a caption and the next caption"
    add("--every-pair", action="store_true", help=words)
    words = "memory: also measure the memory of a training step, with and without --precision fp16 and "
    words += "--checkpoint-activations; this takes minutes, because CPUs are slow in half precision (default: none)"
    add("--table", choices=("memory", "none"), default="none", help=words, resumes=True)
    return cli.parse_example(parser)


def main() -> None:
    if cli.apply_model("paraphrase", shipped=False):
        return
    arguments = parse_arguments()
    preset = cli.preset_of(arguments, models.paraphrase_preset(arguments.preset, arguments.data))
    strategy = cli.strategy_of(arguments)
    data = cli.load_data(train.load_captions, arguments.data)
    data = dataclasses.replace(data, test=data.test[: preset.test_size])
    training, valid = train.caption_pairs(data.train, arguments.every_pair), train.caption_pairs(data.valid)
    task = train.Translation(training, valid, preset=preset, name=TASK)
    with cli.example_run(arguments, data, Translator, [TASK], train.CAPTION_NAMES) as run:
        translator = run.fit(task)
        if run.first:
            searches = {"greedy": models.Strategy(beam=1), strategy.name: strategy}
            table, found = compare(translator, data.test, searches, run)
            if arguments.table == "memory":
                found["memory"] = pairs.memory_table(translator, training, preset)
                table += f"\n\n{train.markdown_table(found['memory'], pairs.MEMORY_COLUMNS)}"
            probes = found["probes"]
            headers = {name: name for name in probes[0]}
            run.folder.write_table(f"{table}\n\n{train.markdown_table(probes, headers)}", **found)
            shown = [{name: text or "-" for name, text in row.items()} for row in probes]
            run.report(f"{table}\n\n{train.rows_text(shown)}")


def compare(
    translator: Translator, test: list[list[str]], searches: dict[str, models.Strategy], run: cli.ExampleRun
) -> tuple[str, dict[str, list[dict[str, Any]]]]:
    """Score several search methods on the first caption of each test picture.

    Return the scores as a table and as rows, and the outputs for the probe sentences.
    """
    outputs = {"the input itself": [group[0] for group in test]}
    for name, search in searches.items():
        texts = outputs["the input itself"]
        outputs[name] = translator.translate(texts, strategy=search, too_long="truncate", progress=True, split=False)
    groups = [translator.as_written(group) for group in test]
    inputs, others = [group[0] for group in groups], [group[1:] for group in groups]
    rows = [
        {
            "cell": name,
            "bleu": train.bleu(texts, others).value,
            "self_bleu": train.bleu(texts, inputs).value,
            "copied": sum(text == own for text, own in zip(texts, inputs, strict=True)) / len(inputs),
        }
        for name, texts in outputs.items()
    ]
    columns = {name: name for name in ("input", *searches)}
    texts = PROBES if run.reported else inputs[: len(PROBES)]
    answers = zip(
        texts, *(translator.translate(texts, strategy=search, split=False) for search in searches.values()), strict=True
    )
    probes = [dict(zip(columns, found, strict=True)) for found in answers]
    if run.reported:
        probes = [{**row, "the report": pairs.PARAPHRASES.get(row["input"])} for row in probes]
    samples = [dict(zip(columns, texts, strict=True)) for texts in zip(*outputs.values(), strict=True)]
    run.folder.write_samples(train.markdown_table(samples[:20], columns))
    attention.draw_last_layers(translator, texts[-1] if len(texts) == 1 else texts[1], run.folder)
    signature = train.bleu(inputs, others).signature
    return f"{train.markdown_table(rows, COLUMNS)}\n\n{signature}", {"scores": rows, "probes": probes}


if __name__ == "__main__":
    cli.run_main(main, several_processes=True)
