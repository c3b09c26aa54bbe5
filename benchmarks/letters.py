"""Measure what the shipped translators do with numbers, with paragraphs and with texts as people have them.

    python -m benchmarks.letters
    HANDLOOM_DATA=... python -m benchmarks.letters    the second and the third table, too

The first table counts translations whose numbers differ (`train.tasks.literals.disagreement`), of the 100 sentences
with two or three numbers in letters.txt, which were written for this benchmark. The second one joins held-out Tatoeba
pairs, four a line, and compares BLEU of the lines with BLEU of their sentences. The third one changes the spelling of
the sources: decomposed letters, no-break spaces, double blanks.
"""

import argparse
import json
import os
import unicodedata
from pathlib import Path

import handloom
from handloom.models.shipped import TRANSLATORS
from handloom.train.data.translation import load_translation_data
from handloom.train.tasks.literals import disagreement
from handloom.train.tasks.metrics import bleu

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results/letters.json"
SPELLINGS = {
    "as it is": str,
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "double blanks": lambda text: text.replace(" ", "  "),
}


def sentences() -> dict[str, list[str]]:
    """Return the sentences of letters.txt by language."""
    parts = (FOLDER / "letters.txt").read_text(encoding="utf-8").split("# ")[1:]
    return {part.split("\n", 1)[0]: part.splitlines()[1:] for part in parts}


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    result: dict = {"command": "python -m benchmarks.letters"}
    for target, name in TRANSLATORS.items():
        model, source = handloom.load(name), "de" if target == "en" else "en"
        given = sentences()[source]

        def differ(split: bool, model=model, given=given) -> int:
            outputs = model.translate(given, split=split)
            return sum(disagreement(*pair) > 0 for pair in zip(given, outputs, strict=True))

        row = {"sentences": len(given), "numbers differ": differ(True), "numbers differ, plain search": differ(False)}
        if os.environ.get("HANDLOOM_DATA"):
            pairs = load_translation_data("tatoeba", source=source, target=target).test[:400]
            sources, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            for spelling, change in SPELLINGS.items():
                row[f"BLEU, {spelling}"] = round(bleu(model.translate(list(map(change, sources))), references).value, 2)
            lines = [" ".join(sources[i : i + 4]) for i in range(0, len(sources), 4)]
            whole = [" ".join(references[i : i + 4]) for i in range(0, len(sources), 4)]
            alone = iter(model.translate(sources))
            row["BLEU, lines"] = round(bleu(model.translate(lines), whole).value, 2)
            row["BLEU, lines of sentences translated alone"] = round(
                bleu([" ".join(next(alone) for _ in range(4)) for _ in whole], whole).value, 2
            )
            row["BLEU, plain search"] = round(bleu(model.translate(sources, split=False), references).value, 2)
        result[name] = row
        print(name, *(f"{kind}: {value}" for kind, value in row.items()), sep="\n  ")
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
