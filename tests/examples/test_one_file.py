"""The translator in one file: it learns as handloom does, translates, and needs nothing but NumPy."""

import ast
import itertools
import re
import sys

import numpy as np
import pytest

from handloom.autograd import ops
from handloom.examples import one_file
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from handloom.tokenizer.bpe_reference import train_reference
from handloom.train.optim import Adam

from ..support.examples import EXAMPLES, Example, small_data

#: A layer's weights in the file, and in handloom.
NAMES = {"self.norm": "norm1", "self.out": "self_attn.out_proj", "hidden": "linear1", "back": "linear2"}
SIDES = {
    "encoder": NAMES | {"norm": "norm2"},
    "decoder": NAMES | {"cross.norm": "norm2", "cross.out": "multihead_attn.out_proj", "norm": "norm3"},
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> list[list[str]]:
    return one_file.read_pairs(small_data("translate", tmp_path_factory.mktemp("pairs")))


@pytest.fixture(scope="module")
def bpe(rows) -> one_file.BPE:
    return one_file.BPE((text for row in rows for text in row), 400)


def model_of(weights: dict) -> Seq2SeqTransformer:
    """Return handloom's model with the weights of the file."""
    names = {f"{side}.norm": f"{side}.norm" for side in SIDES}
    names |= {"embedding": "output"}
    state = {f"{side}_embedding.weight": weights["embedding"][0].data for side in ("source", "target")}
    for side, i in itertools.product(SIDES, range(one_file.LAYERS)):
        names |= {f"{side}.{i}.{name}": f"{side}.layers.{i}.{other}" for name, other in SIDES[side].items()}
        for name, other in {"self": "self_attn", "cross": "multihead_attn"}.items():
            if (query := weights.get(f"{side}.{i}.{name}.query")) is not None:
                for kind, *parts in zip(("weight", "bias"), query, weights[f"{side}.{i}.{name}.kv"], strict=True):
                    state[f"{side}.layers.{i}.{other}.in_proj_{kind}"] = np.concatenate([part.data for part in parts])
    for name, other in names.items():
        state |= {
            f"{other}.{kind}": tensor.data for kind, tensor in zip(("weight", "bias"), weights[name], strict=True)
        }
    sizes = {"d_model": one_file.D, "nhead": one_file.HEADS, "dim_feedforward": one_file.HIDDEN, "dropout": 0.0}
    sizes |= {"encoder_layers": one_file.LAYERS, "decoder_layers": one_file.LAYERS}
    tied = {"norm_first": True, "share_embeddings": True, "tie_output": True}
    model = Seq2SeqTransformer(Seq2SeqConfig(*[len(weights["embedding"][0].data)] * 2, **sizes, **tied))
    model.load_state_dict(state)
    return model


def test_the_first_losses_are_those_of_handloom(rows, bpe) -> None:
    ids = sorted(([bpe.encode(text) for text in row] for row in rows), key=lambda pair: len(pair[0]))[:100]
    weights = one_file.make_weights(400)
    model = model_of(weights)
    optimizer, losses, steps, lr = Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9), [], 10, 0.03
    for step, (source, target, labels) in enumerate(one_file.batches(ids, steps), 1):
        loss = ops.cross_entropy(model(source, target), labels, ignore_index=one_file.PAD)
        model.zero_grad()
        loss.backward()
        optimizer.lr = lr * min(step / 100, 1 - (step - 1) / steps)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.3
    np.testing.assert_allclose(one_file.train(ids, weights, steps, lr), losses, rtol=0, atol=1e-4)


def test_its_merges_are_those_of_the_reference(rows, bpe) -> None:
    texts = [text for row in rows for text in row]
    words: dict[bytes, int] = {}
    for text in texts:
        for word in one_file.WORD.findall(text):
            words[word.encode()] = words.get(word.encode(), 0) + 1
    vocabulary = [f"<{number}>" for number in range(one_file.BYTES + 256)]
    reference = list(train_reference(words, vocabulary, list(range(one_file.BYTES, one_file.BYTES + 256)), 400))
    assert [tuple(map(ord, pair)) for pair in bpe.merges] == reference
    known = dict(bpe.words)
    for text in [*texts[:50], "", "  Zwei  Sätze, 😀!\n"]:
        bpe.words.clear()  # the merges alone give the tokens of the training
        tokens = bpe.encode(text)
        assert bpe.decode([one_file.BOS, *tokens]) == text
        assert all(known.get(word, tokens) == tokens for word, tokens in bpe.words.items())
    bpe.words = known


def test_a_run_learns_and_translates_sentences_that_it_has_not_seen(tmp_path) -> None:
    pairs = [(f"Ich sehe {number} Hunde.", f"I see {number} dogs.") for number in range(99)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    text = Example("one_file.py", tmp_path).succeeds("pairs.tsv", "Ich sehe 4 Hunde.", "--steps", 100)
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)$", text, re.MULTILINE)]
    assert len(losses) == 2
    assert losses[1] < losses[0] - 1
    translations = re.findall(r"^  translation: I see \d+ dogs.$", text, re.MULTILINE)
    assert len(translations) == 5, text
    assert re.findall(r"^  reference:   (.*)$", text, re.MULTILINE) == [reference for _, reference in pairs[-4:]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"a\tb\n" * 9, "it has 9 lines"),
        (b"a\tb\n" * 12 + b"\n", "line 13 is not a sentence, a tab and its translation"),
        (b"a\tb\tc\n" * 12, "line 1 is not"),
        (b"\xff" * 99, "can't decode"),
    ],
    ids=["missing", "too short", "an empty line", "three columns", "no text"],
)
def test_a_file_that_cannot_be_used_is_one_line(content: bytes | None, message: str, tmp_path) -> None:
    if content is not None:
        (tmp_path / "pairs.tsv").write_bytes(content)
    (line,) = Example("one_file.py", tmp_path).fails("pairs.tsv").splitlines()
    assert line.startswith("error: pairs.tsv: ")
    assert message in line


def test_the_grammar_writes_its_file_and_overwrites_none(tmp_path) -> None:
    program = Example("handloom.train.data.grammar", tmp_path)
    program.succeeds("pairs.tsv", "--pairs", 5000)
    rows = one_file.read_pairs(tmp_path / "pairs.tsv")
    assert len(rows) == 5004
    assert {german for german, _ in rows[:-4]}.isdisjoint(german for german, _ in rows[-4:])
    assert "pairs.tsv exists" in program.fails("pairs.tsv")


def test_it_stays_short_and_imports_only_numpy_and_the_standard_library() -> None:
    text = (EXAMPLES / "one_file.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    modules = {
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert modules - sys.stdlib_module_names == {"numpy"}
