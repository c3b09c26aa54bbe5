"""Compare word vectors from counts with a slow computation."""

from itertools import permutations

import numpy as np

from handloom.models.word_vectors import word_vectors


def slow_matrix(texts: list[np.ndarray], vocab_size: int) -> np.ndarray:
    """Return the positive mutual information of each pair of words, counting one pair at a time."""
    counts = np.zeros((vocab_size, vocab_size))
    for text in texts:
        for one, other in permutations(text.tolist(), 2):
            counts[one, other] += one != other
    share = counts.sum(axis=1) ** 0.75
    share /= share.sum()
    information = np.zeros_like(counts)
    for one, other in np.argwhere(counts):
        information[one, other] = np.log(counts[one, other] / counts.sum() / (share[one] * share[other]))
    return np.maximum(information, 0)


def drawn_texts(seed: int) -> list[np.ndarray]:
    """Return texts of two topics: words 0 to 14 occur together, words 15 to 29 too, and word 30 occurs alone."""
    rng = np.random.default_rng(seed)
    texts = [rng.integers(0, 15, rng.integers(0, 9)) + 15 * rng.integers(2) for _ in range(300)]
    return [*texts, np.array([30])]


def test_the_vectors_give_the_best_approximation_of_the_mutual_information() -> None:
    texts = drawn_texts(0)
    eigenvalues, own = np.linalg.eigh(slow_matrix(texts, 31))
    largest = np.argsort(-abs(eigenvalues))[:15]
    expected = own[:, largest] * np.sqrt(abs(eigenvalues[largest]))
    expected = expected[:30] / np.linalg.norm(expected[:30], axis=1, keepdims=True)
    vectors = word_vectors(texts, 31, 15)  # 15 + 16 more = all 31 dimensions, so nothing is approximated
    assert (vectors.shape, vectors.dtype) == ((31, 15), np.float32)
    # The signs of eigenvectors are arbitrary, but the products of the vectors are not.
    np.testing.assert_allclose(vectors[:30] @ vectors[:30].T, expected @ expected.T, atol=1e-4)


def test_words_of_the_same_texts_are_similar_and_other_words_have_random_vectors() -> None:
    texts = drawn_texts(1)
    vectors = word_vectors(texts, 31, 4)
    products = vectors @ vectors.T
    same, different = products[:15, :15], products[:15, 15:30]
    assert same.mean() > different.mean() + 0.3
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(vectors, word_vectors(texts, 31, 4))
    assert (vectors[30] != word_vectors(texts, 31, 4, seed=1)[30]).all()


def test_texts_of_single_words_give_random_vectors() -> None:
    vectors = word_vectors([np.array([0]), np.array([1])], 40, 8)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert len({tuple(row) for row in vectors.tolist()}) == 40
