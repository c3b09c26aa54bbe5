"""Statistics of a BPE tokenizer: compression and token lengths, and smaller copies of the tokenizer."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count, takewhile

from ..kinds import checked
from .bpe import BPETokenizer
from .pre_tokenizer import splitter
from .word_counts import count_words


@dataclass(frozen=True)
class Compression:
    """The compression of a text: the mean numbers of UTF-8 bytes per token, and of tokens per word."""

    vocab_size: int
    bytes_per_token: float
    tokens_per_word: float


def with_fewer_tokens(tokenizer: BPETokenizer, vocab_size: int) -> BPETokenizer:
    """Return a copy of the tokenizer with only the first `vocab_size` tokens. It does not normalise texts."""
    vocab = {token: id for token, id in tokenizer.vocab.items() if id < vocab_size}
    merges = [pair for pair in tokenizer.merges if tokenizer.vocab[pair[0] + pair[1]] < vocab_size]
    return BPETokenizer(vocab, merges, added_tokens=tokenizer.added_tokens, pattern=tokenizer.pattern)


@checked
def usual_sizes(vocab_size: int) -> list[int]:
    """Return vocabulary sizes to compare: the bytes alone, then repeatedly doubled sizes up to `vocab_size`."""
    doubled = takewhile(lambda size: size < vocab_size, (512 << n for n in count()))
    return [*[260] * (vocab_size > 260), *doubled, vocab_size]


@checked
def compression(tokenizer: BPETokenizer, texts: Iterable[str], sizes: Sequence[int]) -> list[Compression]:
    """Measure the compression of `texts` with the tokenizer's first n tokens, for each vocabulary size n."""
    words = count_words(iter(texts), splitter(tokenizer.pattern))
    total_bytes = sum(len(word) * count for word, count in words.items())
    total_words = sum(words.values())
    results = []
    for size in sizes:
        smaller = with_fewer_tokens(tokenizer, size)
        tokens = sum(len(smaller.encode_bytes(word)) * count for word, count in words.items())
        results.append(Compression(size, total_bytes / tokens, tokens / total_words))
    return results


@checked
def token_lengths(tokenizer: BPETokenizer) -> dict[int, int]:
    """Return {length in bytes: number of tokens} for the vocabulary without special tokens."""
    ids = set(range(tokenizer.vocab_size)) - set(tokenizer.special_ids.values())
    return dict(sorted(Counter(len(tokenizer.decode_bytes([id])) for id in ids).items()))
