"""Attention weights: word alignments, and the tokens that heads attend to."""

import numpy as np
import pytest

from handloom.examples.tables.attention import EVEN, alignment_rows, head_rows, names_in
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from handloom.tokenizer import BPETokenizer
from handloom.train.tasks.alignment import alignment
from handloom.train.tasks.translation import Translator


def test_alignment_joins_tokens_to_words() -> None:
    source, target = ["Ein", " Hu", "nd", ".", "<eos>"], ["A", " do", "g", ".", "<eos>"]
    weights = np.array(
        [
            [0.6, 0.1, 0.1, 0.1, 0.1],
            [0.4, 0.3, 0.2, 0.1, 0.0],  # "Ein" has the largest single weight, but "Hund." has a total of 0.6
            [0.0, 0.5, 0.5, 0.0, 0.0],
            [0.0, 0.0, 0.0, 0.3, 0.7],  # the weight of <eos> counts for no word
            [0.0, 0.0, 0.0, 0.0, 1.0],
        ]
    )
    assert alignment(weights, source, target) == [("A", "Ein"), ("dog.", "Hund.")]
    assert alignment(weights[:1, -1:], ["<eos>"], ["A"]) == []


TOKENS = ["<bos>", "the", "senate", "passes", "the", "bill", "."]


def looking(at) -> np.ndarray:
    """Return the weights of a head whose query i attends only to key at(i), limited to the text."""
    size = len(TOKENS)
    weights = np.zeros((size, size), np.float32)
    for i in range(size):
        weights[i, min(max(at(i), 0), size - 1)] = 1
    return weights


def test_shares_of_heads_that_look_at_one_token() -> None:
    heads = np.array([looking(lambda i: 0), looking(lambda i: i), looking(lambda i: i - 1), looking(lambda i: i + 1)])
    rows = head_rows([({"encoder.layers.1.self_attn": heads}, TOKENS)] * 2)
    first, itself, previous, following, even = rows
    assert [row["cell"] for row in rows[:2]] == ["layer 2, head 1", "layer 2, head 2"]
    assert even["cell"] == EVEN
    assert first["first"] == itself["itself"] == 1
    assert previous["previous"] == pytest.approx(6 / 7), "the first token has no previous token"
    assert following["next"] == pytest.approx(6 / 7)
    assert itself["content"] == pytest.approx(3 / 7)
    assert itself["function"] == pytest.approx(2 / 7)
    assert itself["first"] == itself["marks"] == pytest.approx(1 / 7)
    assert first["entropy"] == 0
    assert even["entropy"] == pytest.approx(np.log(7))
    assert even["itself"] == pytest.approx(1 / 7)
    assert sum(even[name] for name in ("first", "content", "function", "marks")) == pytest.approx(1)


def test_of_the_first_token_the_words_that_it_looks_at() -> None:
    maps = {"encoder.layers.0.self_attn": np.array([looking(lambda i: 3), looking(lambda i: 5)])}
    one, two, even = head_rows([(maps, TOKENS)] * 5, first_only=True)
    assert (one["content"], one["words"].split(", ")[0]) == (1, "passes")
    assert two["words"].startswith("bill")
    assert "words" not in even
    assert "words" not in head_rows([(maps, TOKENS)])[0]
    rare = head_rows([(maps, TOKENS)] * 2, first_only=True)[0]["words"]
    assert not rare, "words that occur only four times are left out"


class KnowsWhere(Translator):
    """A translator: head 1 attends to the second source token, head 2 to the token that equals the target token."""

    def attention_maps(self, sentence, target=None):
        source, written = (self.tokenizer.token_strings(ids) for ids in (self.tokenizer.encode(sentence), target))
        weights = np.zeros((2, len(written), len(source)))
        weights[0, :, 1] = 1
        for row, token in enumerate(written):
            weights[1, row, source.index(token) if token in source else 0] = 1
        return {"encoder.layers.0.self_attn": weights, "decoder.layers.0.multihead_attn": weights}, source, written


def test_alignments_are_of_copied_content_words() -> None:
    texts = ["the senate passes the bill", " bill senate"]
    tokenizer = BPETokenizer.train(texts * 9, 300)
    assert len(tokenizer.encode(texts[0])) == 5, "each word is one token"
    size = tokenizer.vocab_size
    config = Seq2SeqConfig(size, size, 8, 2, 1, 1, 12, 0.0, max_length=24)
    translator = KnowsWhere(Seq2SeqTransformer(config).eval(), tokenizer)
    pair = (texts[0], " senate passes the bill")
    rows = alignment_rows(translator, {"written": [pair], "reference": [pair, ("the bill", " a bill")]})
    assert [row["cell"] for row in rows] == [
        "layer 1, head 1", "layer 1, head 2", "layer 1, mean of its heads", EVEN,
    ]  # fmt: skip
    assert rows[0]["written"] == pytest.approx(1 / 3), "head 1 finds only senate of senate, passes and bill"
    assert (rows[1]["written"], rows[1]["written_words"]) == (1, 3)
    assert rows[0]["reference"] == pytest.approx(2 / 4)
    assert rows[-1]["written"] == pytest.approx(1 / 5)
    assert rows[-1]["reference"] == pytest.approx((3 / 5 + 1 / 2) / 4)
    nothing = alignment_rows(translator, {"written": [("the bill", " of senate")]})
    assert nothing[0]["written"] is None
    translated = alignment_rows(translator, {"written": [pair]}, {"passes": "senate", "bill": "law"})
    assert (translated[0]["written"], translated[1]["written"], translated[0]["written_words"]) == (1, 0, 1)


def test_names_are_capitalised_inside_sentences_and_counted_a_second_time() -> None:
    names = names_in(["The senate heard Biden, Biden said.", "Today Senate and senate, the Bill of Biden", "Only Once"])
    assert names == {"biden"}
    maps = {"encoder.layers.0.self_attn": np.array([looking(lambda i: 2)])}
    row = head_rows([(maps, TOKENS)], names=frozenset({"senate"}))[0]
    assert row["names"] == row["content"] == 1
