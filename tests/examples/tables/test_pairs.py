"""Tables of the reports on pairs of texts."""

import numpy as np
import pytest

from handloom.autograd import no_grad, ops
from handloom.examples.tables.pairs import batch_rows, batch_samples, mean_loss, memory_rows, set_long_apart
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from handloom.tokenizer import BPETokenizer
from handloom.train.data.pairs import TranslationData
from handloom.train.tasks.translation import Translator


def test_best_and_worst_are_of_a_batch_that_the_seed_draws() -> None:
    references = [f"the old dog number {i} sleeps in the garden" for i in range(100)]
    written = [" ".join(text.split()[: 3 + i % 6]) for i, text in enumerate(references)]
    batches = [batch_samples(references, references, written, seed) for seed in (0, 0, 1)]
    assert batches[0] == batches[1] != batches[2]
    for best, worst in batches:
        assert best.hypothesis == written[best.index]
        assert len(best.hypothesis) > len(worst.hypothesis)
    assert [(row["which"], row["report"]) for row in batch_rows(batches[0])] == [("best", 75.98), ("worst", 8.25)]
    assert len(batch_rows(batch_samples(["a b"], ["a b"], ["a b"], 0))) == 1, "a single pair has no worst translation"


def test_saved_memory_counts_gradients_once() -> None:
    rows = memory_rows([
        {"precision": "fp32", "kept": 40.0, "peak": 70.0}, {"precision": "fp16", "kept": 40.0, "peak": 30.0}
    ])  # fmt: skip
    assert rows[0]["saved"] is rows[0]["report"] is None
    assert rows[1]["saved"] == pytest.approx(0.4)
    assert rows[1]["report"] == 0.4


def test_long_sentences_are_in_no_other_part() -> None:
    def pairs(start: int, step: int) -> list:
        return [(" ".join(["word"] * n), f"{start} {n}") for n in range(1, 101, step)]

    data, long = set_long_apart(TranslationData(pairs(0, 1), pairs(1, 7), pairs(2, 9), "", "", "en", "fr"))
    longest = max(len(source.split()) for part in (data.train, data.valid, data.test) for source, _ in part)
    assert longest == 95
    assert min(len(source.split()) for source, _ in long) == 96
    assert long[0][1].startswith("2 "), "sentences of the test part come first"
    assert len(long) == 1 + 5
    assert len(data.train) == 95


@pytest.mark.parametrize("backwards", [False, True])
def test_the_loss_is_that_of_one_sentence_at_a_time(backwards: bool, monkeypatch) -> None:
    """The loss uses the tokens of targets, which can differ from those of sources: `backwards` reverses them."""
    pairs = [("the cat", "le chat"), ("the old dog runs", "le vieux chien court"), ("a", "un")]
    tokenizer = BPETokenizer.train([text for pair in pairs for text in pair], 280)
    size, options = tokenizer.vocab_size, {"pad_id": tokenizer.pad_id, "max_length": 40, "title_case": True}
    config = Seq2SeqConfig(size, size, 16, 2, 1, 1, 32, 0.3, **options)
    translator = Translator(Seq2SeqTransformer(config), tokenizer)
    nats = tokens = 0.0
    translator.model.eval()
    for source, target in pairs:
        ids = tokenizer.encode(target)[:: -1 if backwards else 1]
        with no_grad():
            logits = translator.model(
                np.array([tokenizer.encode(source.title(), add_eos=True)]), np.array([[tokenizer.bos_id, *ids]])
            )
        wanted = np.array([[*ids, tokenizer.eos_id]])
        nats += ops.cross_entropy(logits, wanted, reduction="sum").item()
        tokens += wanted.size
    if backwards:
        monkeypatch.setattr(tokenizer, "encode_targets", lambda texts: [tokenizer.encode(text)[::-1] for text in texts])
    assert mean_loss(translator, pairs) == pytest.approx(nats / tokens, rel=1e-5)
