"""Word vectors from counts: words that occur in the same texts get similar vectors."""

from collections.abc import Sequence

import numpy as np

from .text_baselines import Bags


def word_vectors(texts: Sequence[np.ndarray], vocab_size: int, size: int, seed: int = 0) -> np.ndarray:
    """Return a vector of Euclidean norm 1 for each word, (vocab_size, size) float32.

    Matrix M contains how much more often than by chance two words occur in the same text: the positive part of their
    pointwise mutual information, in which the shares of the words are raised to the power 0.75. The vectors are the
    rows of U sqrt(|L|), where U L U^T approximates M by its `size` eigenvalues L of the largest magnitude. Words
    without a neighbour get random vectors.

    Source of the vectors: Levy and Goldberg 2014, "Neural word embedding as implicit matrix factorization", section 5;
    of the power: Levy et al. 2015, "Improving distributional similarity with lessons learned from word embeddings",
    section 3.2; of the approximation: Halko et al. 2011, arXiv 0909.4061, algorithms 4.4 and 5.3.
    """
    generator = np.random.default_rng(seed)
    matrix = _mutual_information(texts, vocab_size)
    blocks = np.array_split(np.arange(vocab_size), -(-vocab_size // 50))  # all at once would need gigabytes

    def times(columns: np.ndarray) -> np.ndarray:
        return np.concatenate([matrix.rows(block).weighted_sums(columns) for block in blocks]).astype(np.float32)

    basis = generator.standard_normal((vocab_size, size + 16), np.float32)
    for _ in range(4):
        basis = np.linalg.qr(times(basis))[0]
    eigenvalues, within = np.linalg.eigh(basis.T @ times(basis))
    largest = np.argsort(-abs(eigenvalues))[:size]
    vectors = basis @ within[:, largest] * np.sqrt(abs(eigenvalues[largest]))
    unknown = np.diff(matrix.offsets) == 0
    vectors[unknown] = generator.standard_normal((unknown.sum(), vectors.shape[1]))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _mutual_information(texts: Sequence[np.ndarray], vocab_size: int) -> Bags:
    """Return the matrix M of `word_vectors`, as the bag of each word's neighbours."""
    ids, of = np.concatenate(texts), np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    pairs = [np.empty(0, np.int64)]
    for distance in range(1, max(map(len, texts))):
        same = of[distance:] == of[:-distance]
        first, second = ids[distance:][same], ids[:-distance][same]
        pairs.append(np.minimum(first, second) * vocab_size + np.maximum(first, second))
    pair, counts = np.unique(np.concatenate(pairs), return_counts=True)
    first, second = np.divmod(pair, vocab_size)
    first, second, counts = first[first != second], second[first != second], counts[first != second]
    first, second, counts = np.append(first, second), np.append(second, first), np.append(counts, counts)
    share = np.bincount(first, counts, vocab_size) ** 0.75
    share /= share.sum() or 1
    values = np.log(counts / counts.sum() / (share[first] * share[second])).astype(np.float32)
    order = np.lexsort((second, first))
    order = order[values[order] > 0]
    return Bags(np.searchsorted(first[order], np.arange(vocab_size + 1)), second[order], values[order])
