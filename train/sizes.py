"""The parameters of the reports' models, theirs beside ours: python -m handloom.train.sizes"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..models import (
    BigramLanguageModel,
    LanguageModel,
    RecurrentLanguageModel,
    Seq2SeqTransformer,
    TransformerClassifier,
)
from ..models.hyperparameters import TranslationPreset
from ..models.presets import (
    CLASSIFIER_PRESETS,
    EN_FR_PRESETS,
    LANGUAGE_MODEL_PRESETS,
    PAPER,
    PARAPHRASE_PRESETS,
    SUMMARY_PRESETS,
    kth_cell,
)
from ..nn import Module
from .cli.command_line import run_main
from .cli.options import OptionParser
from .tables.cells import markdown_table

#: Of the KTH report, which has 112 characters and 2,000 subwords.
CHARACTERS, SUBWORDS = 112, 2000
#: Its Table 1: (heads, head size) -> parameters.
KTH_TABLE_1 = {
    (1, 16): 6_960, (4, 16): 64_368, (8, 16): 226_928, (16, 16): 846_960,
    (1, 32): 19_952, (4, 32): 226_928, (8, 32): 846_960, (16, 32): 3_266_672,
    (1, 64): 64_368, (4, 64): 846_960, (8, 64): 3_266_672, (16, 64): 12_824_688,
}  # fmt: skip
COLUMNS = {"model": "model", "stated": "report", "ours": "handloom:,"}


class Size(NamedTuple):
    """A model of a report, the number of its parameters as the report states it, and our model."""

    name: str
    stated: int | str
    model: Module


def sizes() -> Iterator[Size]:
    """The models of the presets `paper`, one after the other; each is built when its turn comes."""
    kth = LANGUAGE_MODEL_PRESETS["paper"]
    for (heads, size), stated in KTH_TABLE_1.items():
        config = kth.transformer(CHARACTERS, **kth_cell(heads, size))
        yield Size(f"KTH Table 1, heads {heads}, head size {size}", stated, LanguageModel(config))
    yield Size("KTH, bigrams of characters", 12_544, BigramLanguageModel(CHARACTERS))
    yield Size("KTH, RNN, characters", 32_612, RecurrentLanguageModel(kth.recurrent(CHARACTERS, "rnn")))
    yield Size("KTH, characters", 8_227_120, LanguageModel(kth.transformer(CHARACTERS)))
    yield Size("KTH, BPE 2,000", 9_618_576, LanguageModel(kth.transformer(SUBWORDS)))
    pairs: tuple[tuple[str, str, TranslationPreset], ...] = (
        ("De-En, one table of 50,000 tokens", "about 70 M", PAPER),
        ("En-Fr, 16,000 tokens", "", EN_FR_PRESETS["paper"]),
        ("paraphrases, 30,000 tokens", "", PARAPHRASE_PRESETS["paper"]),
        ("news headlines, 30,000 tokens", "", SUMMARY_PRESETS["paper"]),
    )
    for name, known, preset in pairs:
        yield Size(name, known, Seq2SeqTransformer(preset.model_config(preset.vocab_size, 0)))
    news = CLASSIFIER_PRESETS["paper"]
    classifier = TransformerClassifier(news.model_config(news.vocab_size, 42, 0))
    yield Size("news categories, 50,000 words, 42 classes", "", classifier)


def main() -> None:
    OptionParser(prog="python -m handloom.train.sizes", description=__doc__).parse_args()
    rows: list[dict[str, Any]] = []
    for name, stated, model in sizes():
        words = f"{stated:,}" if isinstance(stated, int) else stated or "not stated"
        rows.append({"model": name, "stated": words, "ours": model.parameter_count()})
    print(markdown_table(rows, COLUMNS))


if __name__ == "__main__":
    run_main(main)
