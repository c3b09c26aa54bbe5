"""The models of the presets `paper` have the numbers of parameters that the reports state, exactly or rounded."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from handloom import models
from handloom.examples.tables.language_models import KTH_HEADS
from handloom.models import presets
from handloom.models.hyperparameters import TranslationPreset
from handloom.nn import Module, init
from handloom.train.cells import markdown_table

#: Vocabulary sizes of the KTH report.
CHARACTERS, SUBWORDS = 112, 2000
#: Table 1 of the KTH report: (heads, head size) -> number of parameters.
KTH_TABLE_1 = {
    (1, 16): 6_960, (4, 16): 64_368, (8, 16): 226_928, (16, 16): 846_960,
    (1, 32): 19_952, (4, 32): 226_928, (8, 32): 846_960, (16, 32): 3_266_672,
    (1, 64): 64_368, (4, 64): 846_960, (8, 64): 3_266_672, (16, 64): 12_824_688,
}  # fmt: skip


class Size(NamedTuple):
    """The name of a report's model, the number of parameters that the report states, and handloom's model."""

    name: str
    stated: int | str
    model: Module


def sizes() -> Iterator[Size]:
    """Yield the models of the presets `paper`. Each model is built only when it is requested."""
    kth = presets.LANGUAGE_MODEL_PRESETS["paper"]
    for (heads, size), stated in KTH_TABLE_1.items():
        config = kth.transformer(CHARACTERS, **presets.kth_cell(heads, size))
        yield Size(f"KTH Table 1, heads {heads}, head size {size}", stated, models.LanguageModel(config))
    yield Size("KTH, bigrams of characters", "12.5 K", models.BigramLanguageModel(CHARACTERS))
    yield Size("KTH, RNN, characters", "32.6 K", models.RecurrentLanguageModel(kth.recurrent(CHARACTERS, "rnn")))
    yield Size("KTH, characters", "8.2 M", models.LanguageModel(kth.transformer(CHARACTERS)))
    yield Size("KTH, BPE 2,000", "9.6 M", models.LanguageModel(kth.transformer(SUBWORDS)))
    pairs: tuple[tuple[str, str, TranslationPreset], ...] = (
        ("De-En, one table of 50,000 tokens", "about 70 M", presets.PAPER),
        ("En-Fr, 16,000 tokens", "", presets.EN_FR_PRESETS["paper"]),
        ("paraphrases, 30,000 tokens", "", presets.PARAPHRASE_PRESETS["paper"]),
        ("news headlines, 30,000 tokens", "", presets.SUMMARY_PRESETS["paper"]),
    )
    for name, known, preset in pairs:
        yield Size(name, known, models.Seq2SeqTransformer(preset.model_config(preset.vocab_size, 0)))
    news = presets.CLASSIFIER_PRESETS["paper"]
    classifier = models.TransformerClassifier(news.model_config(news.vocab_size, 42, 0))
    yield Size("news categories, 50,000 words, 42 classes", "", classifier)


@pytest.fixture(scope="module")
def counted():
    with pytest.MonkeyPatch.context() as patch:  # the values do not matter, only their number
        for name in ("normal_", "uniform_", "xavier_uniform_"):
            patch.setattr(init, name, lambda *arguments: None)
        return {size.name: (size.stated, size.model.parameter_count()) for size in sizes()}


def test_to_the_digit(counted) -> None:
    exact = {name: pair for name, pair in counted.items() if isinstance(pair[0], int)}
    assert len(exact) == 12
    assert {name: ours for name, (_, ours) in exact.items()} == {name: stated for name, (stated, _) in exact.items()}


def test_the_rounded_numbers(counted) -> None:
    def rounded(count: int) -> str:
        return f"{count / 1e3:.1f} K" if count < 1e6 else f"{count / 1e6:.1f} M"

    assert sum(stated == rounded(ours) for stated, ours in counted.values()) == 4
    (ours,) = (ours for stated, ours in counted.values() if stated == "about 70 M")
    assert ours == pytest.approx(70e6, rel=0.01)


def test_the_news_models(counted) -> None:
    """No report states these numbers. The feed-forward size is 2048, and only q, k and v have no biases."""
    d, ff = 512, 2048
    attention, feed_forward, norm = 4 * d**2 + d, 2 * d * ff + ff + d, 2 * d
    encoder = 2 * (attention + feed_forward + 2 * norm)
    decoder = 2 * (2 * attention + feed_forward + 3 * norm)
    assert counted["news categories, 50,000 words, 42 classes"][1] == 50_000 * d + encoder + 42 * (d + 1)
    assert counted["news headlines, 30,000 tokens"][1] == 30_000 * (d + 1) + encoder + decoder


def test_the_table_in_the_docs(counted) -> None:
    rows = [
        {"model": name, "stated": f"{stated:,}" if isinstance(stated, int) else stated or "not stated", "ours": ours}
        for name, (stated, ours) in counted.items()
    ]
    table = markdown_table(rows, {"model": "model", "stated": "report", "ours": "handloom:,"})
    assert table in (Path(__file__).parents[2] / "docs/reports.md").read_text(encoding="utf-8")


def test_the_cells_of_the_kth_table() -> None:
    assert KTH_HEADS.keys() == KTH_TABLE_1.keys()
