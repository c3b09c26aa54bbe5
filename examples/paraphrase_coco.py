"""Train a Transformer that says the same in other words, from captions of the same picture.

python examples/paraphrase_coco.py                                embedded captions, a few minutes
python examples/paraphrase_coco.py --data coco --out runs/coco    COCO captions
python examples/paraphrase_coco.py --checkpoint runs/coco "A dig sitting on the grass"
"""

from __future__ import annotations

import argparse
import dataclasses

from handloom.models.presets import paraphrase_preset
from handloom.train.caption_data import CAPTION_NAMES, Captions, caption_pairs, load_captions
from handloom.train.cells import markdown_table
from handloom.train.command_line import run_main
from handloom.train.metrics import bleu, bleu_of_several
from handloom.train.pair_task import pair_parser, parse_pair_arguments, train_pairs, use_checkpoint
from handloom.train.plots import plot_attention
from handloom.train.run_folder import RunFolder
from handloom.train.translation import Translator

#: The first is the report's, spelling mistake included.
PROBES = (
    "A dig sitting on the grass",
    "A man riding a bike on a city street",
    "Two women are eating pizza in a kitchen",
    "A cat sleeping on a wooden bench",
)
COLUMNS = {
    "cell": "paraphrases",
    "bleu": "BLEU, other captions:.2f",
    "self_bleu": "self-BLEU, input:.2f",
    "copied": "copied:.1%",
}


def parse_arguments() -> argparse.Namespace:
    return parse_pair_arguments(
        pair_parser(
            __doc__,
            data=f"one of {', '.join(CAPTION_NAMES)}, or a file of rows picture<TAB>caption "
            "(default: embedded, which needs no network)",
        )
    )


def main() -> None:
    arguments = parse_arguments()
    if arguments.checkpoint:
        use_checkpoint(arguments)
        return
    data = load_captions(arguments.data)
    print(data.summary())
    preset = paraphrase_preset(arguments.preset, data.name)
    data = dataclasses.replace(data, test=data.test[: preset.test_size])

    def evaluate(translator: Translator, run: RunFolder) -> None:
        report(translator, data, arguments.beam, run)

    pairs = [caption_pairs(part) for part in (data.train, data.valid)]
    train_pairs(arguments, "paraphrase_coco", data.summary(), *pairs, preset, evaluate)


def report(translator: Translator, data: Captions, beam: int, run: RunFolder) -> None:
    """Greedy and beam search on the test pictures' first captions, beside copying, and on the probes."""
    inputs, others = [group[0] for group in data.test], [group[1:] for group in data.test]
    outputs = {"the input itself": inputs}
    for name, width in (("greedy", 1), (f"beam {beam}", beam)):
        outputs[name] = translator.translate(inputs, beam=width, too_long="truncate", progress=True)
    rows = [
        {
            "cell": name,
            "bleu": bleu_of_several(texts, others).value,
            "self_bleu": bleu(texts, inputs).value,
            "copied": sum(text == own for text, own in zip(texts, inputs, strict=True)) / len(inputs),
        }
        for name, texts in outputs.items()
    ]
    columns = {name: name for name in ("input", "greedy", "beam")}
    answers = zip(PROBES, *(translator.translate(PROBES, beam=width) for width in (1, beam)), strict=True)
    probes = [dict(zip(columns, texts, strict=True)) for texts in answers]
    samples = [dict(zip(columns, texts, strict=True)) for texts in zip(*outputs.values(), strict=True)]
    run.write_samples(markdown_table(samples[:20], columns))
    plot_attention(*translator.attention(PROBES[1]), run.attention_picture)
    table = f"{markdown_table(rows, COLUMNS)}\n\n{markdown_table(probes, columns)}"
    run.table_path.write_text(table + "\n", encoding="utf-8")
    print(f"\n{table}\n\n{bleu_of_several(inputs, others).signature}")


if __name__ == "__main__":
    run_main(main)
