"""How well the bound in `models.shipped.MIN_LOG_PROBABILITY` separates sentences the shipped model knows from others.

    HANDLOOM_DATA=... python -m benchmarks.outside

100 everyday German sentences that it should know, and 100 that it should not: upper case, English, emoji, other
languages and scripts, letters at random, code. All were written for this; the bound was chosen on others, Tatoeba's
validation sentences, of which the share below it is given where HANDLOOM_DATA has them.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from .outside_sentences import INSIDE, OUTSIDE

MODEL = "tatoeba-de-en"
KINDS = {"upper case": 25, "English": 25, "emoji": 15, "other languages": 25, "letters at random, code": 10}
RESULTS = Path(__file__).parent / "results/outside.json"


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    import handloom
    from handloom.models import Strategy
    from handloom.models.shipped import MIN_LOG_PROBABILITY
    from handloom.train.data.translation import load_translation_data

    model = handloom.load(MODEL)

    def below(sentences: list[str]) -> int:
        found = model.hypotheses(sentences, strategy=Strategy(), too_long="truncate")
        return sum(model.mean_log_probability(best[0]) < MIN_LOG_PROBABILITY[MODEL] for best in found)

    inside, outside = INSIDE.strip().splitlines(), iter(OUTSIDE.strip().splitlines())
    groups = {kind: [next(outside) for _ in range(count)] for kind, count in KINDS.items()}
    rows = {"everyday German": {"sentences": len(inside), "said to be outside": below(inside)}}
    rows |= {kind: {"sentences": len(some), "said to be outside": below(some)} for kind, some in groups.items()}
    if os.environ.get("HANDLOOM_DATA"):
        valid = [source for source, _ in load_translation_data("tatoeba").valid[:1000]]
        rows["Tatoeba, validation"] = {"sentences": len(valid), "said to be outside": below(valid)}
    for kind, row in rows.items():
        print(f"{kind:<24}" + "".join(f"  {name} {value:,}" for name, value in row.items()))
    result = {
        "command": "python -m benchmarks.outside",
        "model": MODEL,
        "bound": MIN_LOG_PROBABILITY[MODEL],
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
