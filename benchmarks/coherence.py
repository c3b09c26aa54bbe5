"""Measure how coherent the texts of trained language models are, from one prompt at temperature 0.7.

    HANDLOOM_DATA=folder python -m benchmarks.coherence runs/characters runs/subwords --data shakespeare

A real word occurs in the training text, and so does a known pair of neighbouring words. The first row is the test text,
and the second row is the same text with its words in random order. All texts have the same number of characters.
"""

import json
import random
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.decoding import repetition
from benchmarks.side_by_side import program, write_report
from handloom.cli.command_line import run_main
from handloom.tokenizer.character import clean_text
from handloom.train.cells import markdown_table
from handloom.train.data.running_text import load_text_data
from handloom.train.tasks.language_modelling import Writer

PROMPT, CHARACTERS = "This is a", 500
COLUMNS = {
    "cell": "texts", "vocab_size": "vocabulary:,", "parameters": "parameters:,",
    "valid_bits_per_character": "bits/character:.3f", "real": "real words:.1%", "known": "known pairs:.1%",
    "distinct": "distinct words:.1%", "repetition": "repetition:.1%",
}  # fmt: skip


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]+(?:'[a-z]+)*", text.lower())


def coherence(texts: Sequence[str], training: Sequence[str]) -> dict[str, float]:
    """Return the share of real words, of known pairs of words, of distinct words, and of repeated pairs of words.

    Args:
        texts: generated texts, which may end within a word; the last word is left out.
        training: the words of the training text.
    """
    words = [words_of(text)[:-1] for text in texts]
    found, pairs = [word for text in words for word in text], [pair for text in words for pair in pairwise(text)]
    known, known_pairs = set(training), set(pairwise(training))
    return {
        "real": sum(word in known for word in found) / len(found),
        "known": sum(pair in known_pairs for pair in pairs) / len(pairs),
        "distinct": len(set(found)) / len(found),
        "repetition": repetition([" ".join(text) for text in words]),
    }


def main() -> None:
    parser = program(__doc__)
    parser.add_argument("runs", nargs="+", help="folders of runs of generate_text.py")
    parser.add_argument("--data", default="shakespeare")
    parser.add_argument("--texts", type=int, default=20, metavar="N", help="texts of each model (default: 20)")
    options = parser.parse_args()
    data = load_text_data(options.data)
    training, real = words_of(clean_text(data.train)), clean_text(data.test)
    texts = [real[i * CHARACTERS : (i + 1) * CHARACTERS] for i in range(options.texts)]
    shuffled = [" ".join(random.Random(0).sample(words, len(words))) for words in map(words_of, texts)]
    rows: list[dict[str, Any]] = [
        {"cell": "the test text", **coherence(texts, training)},
        {"cell": "its words in random order", **coherence(shuffled, training)},
    ]
    for name in options.runs:
        writer = Writer.load(name)
        own = json.loads((Path(name) / "results.json").read_text("utf-8"))["tables"]["models"][0]
        texts = [writer.write(PROMPT, CHARACTERS, seed=seed)[:CHARACTERS] for seed in range(options.texts)]
        figures = {"vocab_size": writer.tokenizer.vocab_size, **own, **coherence(texts, training)}
        rows.append({**figures, "cell": Path(name).name})
        print(rows[-1], flush=True)
    print(f"\n{markdown_table(rows, COLUMNS)}")
    write_report(options.json, coherence=rows)


if __name__ == "__main__":
    run_main(main)
