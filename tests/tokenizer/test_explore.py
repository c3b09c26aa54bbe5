"""Statistics of a tokenizer are correct, smaller copies equal a shorter training, and the example runs in a shell."""

from pathlib import Path

import pytest

from handloom.tokenizer import BPETokenizer
from handloom.tokenizer.explore import compression, usual_sizes, with_fewer_tokens
from tests.support.examples import Example

pytestmark = pytest.mark.slow

TEXTS = ["the cat sat on the mat", "the cat's café costs $5, und die Käse"] * 3


@pytest.fixture(scope="module")
def tokenizer() -> BPETokenizer:
    return BPETokenizer.train(TEXTS, 290)


def test_fewer_tokens_are_those_of_a_shorter_training(tokenizer: BPETokenizer) -> None:
    for size in (260, 275):
        fewer, trained = with_fewer_tokens(tokenizer, size), BPETokenizer.train(TEXTS, size)
        assert (fewer.vocab, fewer.merges) == (trained.vocab, trained.merges)
    assert [usual_sizes(n) for n in (256, 270, 1024, 1100)] == [
        [256], [260, 270], [260, 512, 1024], [260, 512, 1024, 1100],
    ]  # fmt: skip


def test_compression_is_that_of_the_encoded_text(tokenizer: BPETokenizer) -> None:
    for result in compression(tokenizer, TEXTS, [260, 275, 290]):
        tokens = sum(len(ids) for ids in with_fewer_tokens(tokenizer, result.vocab_size).encode_batch(TEXTS))
        assert result.bytes_per_token == pytest.approx(sum(len(text.encode()) for text in TEXTS) / tokens)
        assert result.tokens_per_word * 3 * (6 + 11) == pytest.approx(tokens)  # words of the GPT-2 pattern
    assert compression(tokenizer, TEXTS, [260])[0].bytes_per_token == 1


def test_the_example_takes_a_file_or_its_own_text_and_names_what_is_wrong(tmp_path: Path) -> None:
    example = Example("explore_tokenizer.py", tmp_path)
    out = example.succeeds("--vocab-size", "600")
    assert "learned 600 tokens from 20,000 lines" in out
    for heading in ("Bytes per token", "by length in bytes", "The first 30 merges", "token by token"):
        assert heading in out
    written = sorted(path.name for path in (tmp_path / "runs" / "tokenizer").iterdir())
    assert written == ["tokenizer.json"]
    assert BPETokenizer.load(tmp_path / "runs" / "tokenizer" / "tokenizer.json").vocab_size == 600
    (tmp_path / "text.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    out = example.succeeds("text.txt", "--vocab-size", "280", "--show", "the mat", "--out", "here")
    assert "the" in out.splitlines()[-3]
    for arguments, message in ((("none.txt",), "none.txt"), (("text.txt", "--vocab-size", "10"), "vocab_size=10")):
        said = example.fails(*arguments)
        assert said.count("\n") == 1
        assert message in said
