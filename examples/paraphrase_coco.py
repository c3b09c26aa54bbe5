"""Train a Transformer that paraphrases sentences; the training pairs are captions of the same picture.

python examples/paraphrase_coco.py                                embedded captions, a few minutes
python examples/paraphrase_coco.py --data coco --out runs/coco    COCO captions
python examples/paraphrase_coco.py --table memory                 memory of a training step with and without fp16
python examples/paraphrase_coco.py --checkpoint runs/coco "A dig sitting on the grass"
"""

import dataclasses
from typing import Any

from handloom.cli.command_line import run_main
from handloom.cli.examples import example_parser, is_named, parse_example, train_and_report
from handloom.cli.generation import strategy_of
from handloom.cli.texts import apply_model
from handloom.cli.training import preset_of
from handloom.examples.tables.attention import draw_last_layers
from handloom.examples.tables.pairs import MEMORY_COLUMNS, PARAPHRASES, memory_rows, step_memory
from handloom.models import Strategy
from handloom.models.hyperparameters import TranslationPreset
from handloom.models.presets import paraphrase_preset
from handloom.nn import checkpoint_activations
from handloom.train.cells import markdown_table
from handloom.train.data.captions import CAPTION_NAMES, Captions, caption_pairs, load_captions
from handloom.train.data.files import Pair
from handloom.train.distributed import find_process_group
from handloom.train.runs.folder import RunFolder
from handloom.train.tasks.metrics import bleu, rows_text
from handloom.train.tasks.translation import Translation, Translator, translation_batches, translation_loss

#: The report's inputs, including their spelling mistakes, and some other inputs.
PROBES = (
    *PARAPHRASES,
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
    parser = example_parser(
        __doc__,
        paraphrase_preset,
        data=f"one of {', '.join(CAPTION_NAMES)}, or a file of rows picture<TAB>caption "
        "(default: embedded, which needs no network)",
    )
    add = parser.group("this report")
    words = "train on every ordered pair of a picture's captions (20 pairs for five captions), instead of only the "
    words += "pairs of a caption and the next caption"
    add("--every-pair", action="store_true", help=words)
    words = "memory: also measure the memory of a training step, with and without --precision fp16 and "
    words += "--checkpoint-activations; this takes minutes, because CPUs are slow in half precision (default: none)"
    add("--table", choices=("memory", "none"), default="none", help=words, resumes=True)
    return parse_example(parser)


def main() -> None:
    if apply_model("paraphrase", shipped=False):
        return
    arguments = parse_arguments()
    preset, strategy = preset_of(arguments, paraphrase_preset(arguments.preset, arguments.data)), strategy_of(arguments)
    data = find_process_group().from_first(lambda: load_captions(arguments.data))
    print(data.summary(), *data.notes, sep="\n")
    data = dataclasses.replace(data, test=data.test[: preset.test_size])
    train, valid = caption_pairs(data.train, arguments.every_pair), caption_pairs(data.valid)
    searches = {"greedy": Strategy(beam=1), strategy.name: strategy}

    def test(translator: Translator, task: Translation) -> tuple[dict, dict[str, list[str]]]:
        outputs = {"the input itself": [group[0] for group in data.test]}
        for name, one in searches.items():
            inputs = outputs["the input itself"]
            outputs[name] = translator.translate(inputs, strategy=one, too_long="truncate", progress=True)
        return {}, outputs

    def report(translator: Translator, task: Translation, run: RunFolder, rows: list[dict], outputs: dict) -> str:
        table, scores, probes = compare(translator, data, searches, outputs, run)
        rows = memory(translator, train, preset) if arguments.table == "memory" else []
        tables = [table, markdown_table(rows, MEMORY_COLUMNS)] if rows else [table]
        headers = {name: name for name in probes[0]}
        found = {"scores": scores, "probes": probes} | ({"memory": rows} if rows else {})
        run.write_table("\n\n".join([*tables, markdown_table(probes, headers)]), **found)
        shown = rows_text([{name: text or "-" for name, text in row.items()} for row in probes])
        return "\n\n".join([*tables, shown])

    task = Translation(train, valid, preset=preset, name=TASK)
    train_and_report(arguments, data, task, test=test, report=report, named=CAPTION_NAMES)


def compare(
    translator: Translator, data: Captions, searches: dict[str, Strategy], outputs: dict[str, list[str]], run: RunFolder
) -> tuple[str, list[dict], list[dict[str, Any]]]:
    """Score several search methods on the first caption of each test picture.

    Return the scores as a table and as rows, and the outputs for the probe sentences.
    """
    groups = [translator.as_written(group) for group in data.test]
    inputs, others = [group[0] for group in groups], [group[1:] for group in groups]
    rows = [
        {
            "cell": name,
            "bleu": bleu(texts, others).value,
            "self_bleu": bleu(texts, inputs).value,
            "copied": sum(text == own for text, own in zip(texts, inputs, strict=True)) / len(inputs),
        }
        for name, texts in outputs.items()
    ]
    columns = {name: name for name in ("input", *searches)}
    reported = is_named(data, CAPTION_NAMES)
    texts = PROBES if reported else inputs[: len(PROBES)]
    answers = zip(texts, *(translator.translate(texts, strategy=one) for one in searches.values()), strict=True)
    probes = [dict(zip(columns, found, strict=True)) for found in answers]
    if reported:
        probes = [{**row, "the report": PARAPHRASES.get(row["input"])} for row in probes]
    samples = [dict(zip(columns, texts, strict=True)) for texts in zip(*outputs.values(), strict=True)]
    run.write_samples(markdown_table(samples[:20], columns))
    draw_last_layers(translator, texts[-1] if len(texts) == 1 else texts[1], run)
    signature = bleu(inputs, others).signature
    return f"{markdown_table(rows, COLUMNS)}\n\n{signature}", rows, probes


def memory(translator: Translator, pairs: list[Pair], preset: TranslationPreset) -> list[dict[str, Any]]:
    """Measure the memory of a step on the first batch in fp32, in fp16, and in fp32 with recomputed activations."""
    size = {"tokens_per_batch": preset.tokens_per_batch, "max_length": preset.max_length}
    batch = next(translation_batches(pairs, translator.tokenizer, **size, seed=0).epoch(0))
    loss = translation_loss(preset.label_smoothing, translator.tokenizer.pad_id)
    rows = [step_memory(translator.model, loss, batch, precision) for precision in ("fp32", "fp16")]
    checkpoint_activations(translator.model)
    rows.append(step_memory(translator.model, loss, batch, "fp32") | {"precision": "fp32, --checkpoint-activations"})
    checkpoint_activations(translator.model, False)
    return [{**row, "tokens": batch.source.size + batch.target_input.size} for row in memory_rows(rows)]


if __name__ == "__main__":
    run_main(main, several_processes=True)
