"""Compare decoding options on a trained translator: penalties, forbidden repetition, lengths and sampling.

    HANDLOOM_DATA=folder python -m benchmarks.decoding --run runs/fr --data multi30k --source en --target fr
    HANDLOOM_DATA=folder python -m benchmarks.decoding --run everyday-de-en --test news.de.gz news.en.gz --only greedy

Each row of the results is for the same test set and the same model, but other decoding options. Repetition is the share
of pairs of neighbouring words that occur earlier in the same text. The references contain some repetition too. Columns
± and p are from 1,000 bootstrap samples of the test set: ± is half the width of BLEU's 95 % interval, and p is the
probability of as large a difference from the first row of --only by chance. Nothing is trained.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from benchmarks.side_by_side import program, write_report
from handloom.cli.command_line import run_main
from handloom.models import Strategy
from handloom.models.generation.rules import Rules
from handloom.models.shipped import model_path
from handloom.train.cells import markdown_table
from handloom.train.data.downloads import find_local
from handloom.train.data.files import read_parallel_files
from handloom.train.data.translation import load_translation_data
from handloom.train.tasks.metrics import bleu
from handloom.train.tasks.translation import Translator

STRATEGIES = {
    "greedy": Strategy(beam=1),
    "greedy, repetition penalty 1.2": Strategy(beam=1, rules=Rules(repetition_penalty=1.2)),
    "greedy, no trigram twice": Strategy(beam=1, rules=Rules(no_repeat_ngram=3)),
    "beam 5, no length penalty": Strategy(alpha=0.0),
    "beam 5, length penalty 0.6": Strategy(alpha=0.6),
    "beam 5, length penalty 1": Strategy(),
    "beam 5, length penalty 2": Strategy(alpha=2.0),
    "beam 5, coverage penalty 0.2": Strategy(coverage=0.2),
    "beam 5, repetition penalty 1.1": Strategy(rules=Rules(repetition_penalty=1.1)),
    "beam 5, repetition penalty 1.3": Strategy(rules=Rules(repetition_penalty=1.3)),
    "beam 5, no trigram twice": Strategy(rules=Rules(no_repeat_ngram=3)),
    "nucleus of 0.5": Strategy(sampling=True, top_p=0.5),
    "nucleus of 0.9": Strategy(sampling=True, top_p=0.9),
    "sampling": Strategy(sampling=True),
    "consensus of 16, nucleus of 0.9": Strategy(consensus=16, top_p=0.9),
}
COLUMNS = {
    "cell": "decoding",
    "bleu": "BLEU:.2f",
    "interval": "±:.2f",
    "p": "p:.3f",
    "repetition": "repetition:.2%",
    "length": "length:.3f",
}


def repetition(texts: Sequence[str]) -> float:
    """Return the share of pairs of neighbouring words that occur earlier in the same text."""
    pairs = [list(pairwise(text.split())) for text in texts]
    return 1 - sum(len(set(own)) for own in pairs) / max(sum(map(len, pairs)), 1)


def row(cell: str, texts: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Return BLEU, repetition, and the ratio of the outputs' number of words to the references'."""
    words, wanted = (sum(len(text.split()) for text in some) for some in (texts, references))
    return {
        "cell": cell,
        "bleu": bleu(texts, references).value,
        "repetition": repetition(texts),
        "length": words / wanted,
    }


def significance(texts: Mapping[str, Sequence[str]], references: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """Return, for each system's texts, half the width of the 95 % interval of BLEU, and the p-value of the difference
    from the first system: a paired bootstrap test (Koehn 2004) with 1,000 samples, computed by sacrebleu."""
    test = PairedTest(list(texts.items()), {"BLEU": BLEU(tokenize="13a")}, [list(references)], test_type="bs")
    results = test()[1]["BLEU"]
    return {name: {"interval": each.ci, "p": each.p_value} for name, each in zip(texts, results, strict=True)}


def main() -> None:
    parser = program(__doc__)
    parser.add_argument("--run", required=True, type=model_path, help="a trained translator: its folder or name")
    parser.add_argument("--data", default="multi30k")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="fr")
    files = "two parallel files, or their names in HANDLOOM_DATA, instead of the test set of --data"
    parser.add_argument("--test", nargs=2, metavar=("SOURCE", "TARGET"), help=files)
    names = "names of rows (default: all)"
    parser.add_argument("--only", nargs="+", choices=STRATEGIES, default=list(STRATEGIES), metavar="NAME", help=names)
    options = parser.parse_args()
    translator = Translator.load(options.run)
    if options.test:
        source, target = (find_local(name) or Path(name) for name in options.test)
        pairs = read_parallel_files(source, target).pairs
    else:
        pairs = load_translation_data(options.data, source=options.source, target=options.target).test
    sources, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    rows = [row("the references", references, references), row("the sources", sources, references)]
    texts: dict[str, list[str]] = {}
    for name in options.only:
        texts[name] = translator.translate(sources, strategy=STRATEGIES[name], too_long="truncate", split=False)
        rows.append(row(name, texts[name], references))
        print(rows[-1], flush=True)
    found = significance(texts, references)
    rows = [each | found.get(each["cell"], {}) for each in rows]
    print(f"\n{markdown_table(rows, COLUMNS)}\n\n{bleu(references, references).signature}")
    write_report(options.json, decoding=rows)


if __name__ == "__main__":
    run_main(main)
