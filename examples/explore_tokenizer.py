"""Train a byte-pair tokenizer on a text and show its merges, tokens and compression.

python examples/explore_tokenizer.py                             embedded German and English sentences
python examples/explore_tokenizer.py book.txt --vocab-size 4000  your own text
python examples/explore_tokenizer.py --show "Which tokens does this sentence have?"
"""

import argparse
import os
import sys
import time
from pathlib import Path

from handloom.cli import OptionParser, check_text, path, positive, results_folder, run_main
from handloom.tokenizer import PATTERNS, BPETokenizer, compression, token_lengths, usual_sizes
from handloom.train import build_corpus, iter_lines

SHOWN_MERGES = 30
_RESET = "\x1b[0m"
# Background colours from the palette of 256 colours, pale enough for black letters; neighbours differ in hue.
_BACKGROUNDS = (217, 229, 157, 153, 183, 223)


def parse_arguments() -> argparse.Namespace:
    parser = OptionParser(description=__doc__)
    words = "file of UTF-8 text, plain or gzipped (default: the embedded sentences)"
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help=words)
    parser.add_argument("--vocab-size", type=positive, default=2000, help="vocabulary size in tokens (default: 2000)")
    parser.add_argument("--pattern", choices=PATTERNS, default="gpt2", help="pre-tokenization pattern (default: gpt2)")
    words = "text to show as coloured tokens (default: the last lines of the training text)"
    parser.add_argument("--show", metavar="TEXT", help=words)
    parser.add_argument("--out", type=path, help="new folder for tokenizer.json (default: a new folder in runs/)")
    arguments = parser.parse_args()
    check_text(arguments.show or "", "--show")
    return arguments


def read_lines(files: list[Path]) -> list[str]:
    if not files:
        return [sentence for pair in build_corpus(train_size=10_000).train for sentence in pair]
    return [line for file in files for line in iter_lines(file)]


def coloured(tokenizer: BPETokenizer, text: str, *, colours: bool = True) -> str:
    """Return the text with a background colour for each token, or with bars between tokens if `colours` is False.
    The bytes of a character that is split between tokens are shown as escapes.
    """
    tokens = tokenizer.tokens(text)
    if not colours:
        return "|".join(tokens)
    return "".join(f"\x1b[48;5;{_BACKGROUNDS[i % len(_BACKGROUNDS)]};30m{t}{_RESET}" for i, t in enumerate(tokens))


def bars(values: dict[str, float], width: int = 50) -> list[str]:
    """Draw a bar chart as text, in which each line has a label, a bar and a value."""
    longest = max(map(len, values), default=0)
    scale = width / (max(values.values(), default=0) or 1)
    return [
        f"{label:>{longest}}  {'█' * round(value * scale) or '▏'} {value:,.2f}".removesuffix(".00")
        for label, value in values.items()
    ]


def main() -> None:
    arguments = parse_arguments()
    lines = read_lines(arguments.files)
    out = results_folder(arguments.out, "tokenizer")
    begin = time.perf_counter()
    tokenizer = BPETokenizer.train(lines, arguments.vocab_size, pattern=arguments.pattern)
    print(f"learned {tokenizer.vocab_size:,} tokens from {len(lines):,} lines in {time.perf_counter() - begin:.2f} s")

    print("\nBytes per token, by vocabulary size")
    sizes = compression(tokenizer, lines, usual_sizes(tokenizer.vocab_size))
    print("\n".join(bars({f"{size.vocab_size:,}": size.bytes_per_token for size in sizes})))
    print(f"with all tokens, a word has {sizes[-1].tokens_per_word:.2f} tokens")

    print("\nTokens of the vocabulary, by length in bytes")
    print("\n".join(bars({str(length): float(count) for length, count in token_lengths(tokenizer).items()})))

    print(f"\nThe first {SHOWN_MERGES} merges (· is a blank)")
    merges = [tokenizer.token_strings(tokenizer.vocab[token] for token in pair) for pair in tokenizer.merges]
    print("  ".join("+".join(pair).replace(" ", "·") for pair in merges[:SHOWN_MERGES]))

    text = arguments.show
    if text is None:
        text = " ".join(line for line in lines[-40:] if line.strip())[:400]
    print("\nA text, token by token")
    colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print(coloured(tokenizer, text, colours=colours))

    tokenizer.save(out / "tokenizer.json")
    print(f"\nwrote {out / 'tokenizer.json'}")


if __name__ == "__main__":
    run_main(main)
