"""Statistics of a BPE tokenizer: compression, token lengths and merges."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count, takewhile

from ..errors import printable
from .bpe import BPETokenizer
from .byte_alphabet import text_to_bytes
from .pre_tokenizer import PreTokenizer
from .word_counts import count_words

LONGEST_TREE = 64  #: Bytes of the longest token whose tree is shown.


@dataclass(frozen=True)
class Compression:
    """The compression of a text with one vocabulary size.

    Attributes:
        vocab_size: number of tokens.
        bytes_per_token: average number of UTF-8 bytes per token.
        tokens_per_word: average number of tokens per word, as split by the pre-tokenizer.
    """

    vocab_size: int
    bytes_per_token: float
    tokens_per_word: float


@dataclass(frozen=True)
class MergeTree:
    """A token and the trees of the two `parts` from which it was merged; a byte has no parts.
    `rank` is the number of the merge, from 0.
    """

    token: str
    rank: int | None = None
    parts: "tuple[MergeTree, ...]" = ()


def with_fewer_tokens(tokenizer: BPETokenizer, vocab_size: int) -> BPETokenizer:
    """Return a copy of the tokenizer with only the first `vocab_size` tokens."""
    vocab = {token: id for token, id in tokenizer.vocab.items() if id < vocab_size}
    merges = [pair for pair in tokenizer.merges if tokenizer.vocab[pair[0] + pair[1]] < vocab_size]
    return BPETokenizer(vocab, merges, added_tokens=tokenizer.added_tokens, pattern=tokenizer.pattern)


def usual_sizes(vocab_size: int) -> list[int]:
    """Return vocabulary sizes to compare: the bytes alone, then repeatedly doubled sizes up to `vocab_size`."""
    doubled = takewhile(lambda size: size < vocab_size, (512 << n for n in count()))
    return [*[260] * (vocab_size > 260), *doubled, vocab_size]


def compression(tokenizer: BPETokenizer, texts: Iterable[str], sizes: Sequence[int]) -> list[Compression]:
    """Measure the compression of `texts` with the tokenizer's first n tokens, for each vocabulary size n."""
    words = count_words(iter(texts), PreTokenizer(tokenizer.pattern))
    total_bytes = sum(len(word) * count for word, count in words.items())
    total_words = sum(words.values())
    results = []
    for size in sizes:
        smaller = with_fewer_tokens(tokenizer, size)
        tokens = sum(len(smaller.encode_bytes(word)) * count for word, count in words.items())
        results.append(Compression(size, total_bytes / tokens, tokens / total_words))
    return results


def token_lengths(tokenizer: BPETokenizer) -> dict[int, int]:
    """Return {length in bytes: number of tokens} for the vocabulary without special tokens."""
    ids = set(range(tokenizer.vocab_size)) - set(tokenizer.special_ids.values())
    return dict(sorted(Counter(len(tokenizer.decode_bytes([id])) for id in ids).items()))


def merge_trees(tokenizer: BPETokenizer, first: int) -> list[MergeTree]:
    """Return the first merges as trees, in the order of the merges.
    A token that is part of another tree has no separate tree. Tokens of more than 64 bytes are omitted, because in a
    repetitive text each token can be twice as long as the token before it.
    """
    trees: dict[str, MergeTree] = {}
    used: set[str] = set()
    for rank, (left, right) in enumerate(tokenizer.merges[:first]):
        if len(left + right) > LONGEST_TREE:
            continue
        parts = tuple(trees.get(part) or MergeTree(_display(part)) for part in (left, right))
        trees[left + right] = MergeTree(_display(left + right), rank, parts)
        used |= {left, right}
    return [tree for token, tree in trees.items() if token not in used]


def _display(token: str) -> str:
    """Return a token as text, with `·` instead of blanks."""
    return printable(text_to_bytes(token).decode("utf-8", "backslashreplace")).replace(" ", "·")
