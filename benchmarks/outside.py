"""Measure how well `models.shipped.MIN_LOG_PROBABILITY` separates sentences that the shipped model can translate from
other sentences.

    HANDLOOM_DATA=... python -m benchmarks.outside

It uses 125 everyday German sentences that the model should know, 25 of them in capitals, and 75 other texts: English,
emoji, other languages and scripts, random letters, code. All 200 texts were written for this benchmark. The bound was
chosen on Tatoeba's validation sentences. If HANDLOOM_DATA contains these sentences, the share of them that is below the
bound is printed.
"""

import argparse
import json
import os
from pathlib import Path

import handloom
from handloom.models import Strategy
from handloom.models.shipped import MIN_LOG_PROBABILITY
from handloom.train.data.translation import load_translation_data

MODEL, KNOWN = "everyday-de-en", ("everyday German", "everyday German in capitals")
FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results/outside.json"


def sentences() -> dict[str, list[str]]:
    """Return the sentences of outside.txt by kind. The model should know only the kinds in `KNOWN`."""
    groups: dict[str, list[str]] = {}
    for line in (FOLDER / "outside.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            lines = groups.setdefault(line.removeprefix("# "), [])
        else:
            lines.append(line)
    return groups


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    model = handloom.load(MODEL)

    def row(some: list[str]) -> dict[str, int]:
        found = model.hypotheses(some, strategy=Strategy(), too_long="truncate")
        outside = sum(model.mean_log_probability(best[0]) < MIN_LOG_PROBABILITY[MODEL] for best in found)
        return {"sentences": len(some), "reported as outside": outside}

    rows = {kind: row(some) for kind, some in sentences().items()}
    if os.environ.get("HANDLOOM_DATA"):
        valid = [source for source, _ in load_translation_data("tatoeba").valid[:1000]]
        rows["Tatoeba, validation"] = row(valid)
    for kind, each in rows.items():
        print(f"{kind:<24}" + "".join(f"  {name} {value:,}" for name, value in each.items()))
    result = {"command": "python -m benchmarks.outside", "model": MODEL, "bound": MIN_LOG_PROBABILITY[MODEL]}
    result["rows"] = rows
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
