"""Scores and tables of samples."""

import numpy as np
import pytest
import sacrebleu

from handloom.train.tasks.metrics import (
    ScoredTranslation,
    accuracy,
    best_and_worst,
    bleu,
    chrf,
    confusion_matrix,
    macro_f1,
    rouge,
    samples_text,
    sentence_bleu,
)

REFERENCES = ["A dog runs through the snow.", "Two men sit on a bench.", "The woman, who is old, sings."]
HYPOTHESES = ["A dog runs through snow.", "Two men sit on a bench.", "The old woman sings."]


def test_bleu_is_sacrebleu_cased_13a():
    score = bleu(HYPOTHESES, REFERENCES)
    assert score.value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert score.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert str(score) == f"BLEU = {score.value:.2f} ({score.signature})"
    assert bleu(REFERENCES, REFERENCES).value == pytest.approx(100)
    assert bleu([h.lower() for h in REFERENCES], REFERENCES).value < 99


def test_bleu_does_not_mind_hypotheses_that_look_tokenised(caplog):
    bleu(["a b ."] * 200, ["a b."] * 200)
    assert not caplog.records


def test_chrf_is_sacrebleus():
    score = chrf(HYPOTHESES, REFERENCES)
    assert score.value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert score.signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_sentence_bleu_ranks():
    assert sentence_bleu(REFERENCES[0], REFERENCES[0]) == pytest.approx(100)
    assert 100 > sentence_bleu("A dog runs through a snow.", REFERENCES[0]) > sentence_bleu("Dog.", REFERENCES[0])
    assert sentence_bleu("", REFERENCES[0]) == 0
    assert sentence_bleu("yes", "yes") == pytest.approx(100), "a short correct sentence scores 100"


@pytest.mark.parametrize("metric", [bleu, chrf])
@pytest.mark.parametrize(("hypotheses", "references"), [([], []), (["a"], ["a", "b"])])
def test_lists_that_do_not_fit(metric, hypotheses, references):
    with pytest.raises(ValueError, match=f"got {len(hypotheses)} hypotheses, {len(references)} references"):
        metric(hypotheses, references)


class TestBestAndWorst:
    def test_order(self):
        sources = ["s0", "s1", "s2", "s3"]
        references = ["a b c d", "a b c d e f g h", "a b c d", "a b c d"]
        hypotheses = ["a b c d", "a b c d e f g h", "a b c x", "x y z"]
        best, worst = best_and_worst(sources, references, hypotheses, k=2)
        assert [s.index for s in best] == [1, 0]  # both are perfect; the longer reference comes first
        assert [s.index for s in worst] == [3, 2]
        assert best[0] == ScoredTranslation("s1", references[1], hypotheses[1], best[0].score, 1)
        assert best[0].score == pytest.approx(100)

    @pytest.mark.parametrize(("n", "sizes"), [(1, (1, 0)), (2, (1, 1)), (3, (2, 1)), (9, (3, 3))])
    def test_no_sample_is_in_both(self, n, sizes):
        texts = [f"word {i}" for i in range(n)]
        best, worst = best_and_worst(texts, texts, ["word 1"] * n, k=3)
        assert (len(best), len(worst)) == sizes
        assert not {s.index for s in best} & {s.index for s in worst}

    def test_lists_that_do_not_fit(self):
        with pytest.raises(ValueError, match="got 1 sources, 2 references, 1 hypotheses"):
            best_and_worst(["a"], ["a", "b"], ["a"])


def test_samples_as_text_lose_no_word_and_show_control_characters():
    samples = [
        ScoredTranslation("Ein Hund", "A dog", "", 61.234, 0),
        ScoredTranslation("a\tb", "\x1b[31mred", "x\u2028y\n\x00", 0, 1),
    ]
    assert samples_text(samples, headers=("German", "reference", "translation")).splitlines() == [
        "BLEU         61.2", "German       Ein Hund", "reference    A dog", "translation  (nothing)", "",
        "BLEU         0.0", "German       a b", r"reference    \x1b[31mred", r"translation  x y \x00",
    ]  # fmt: skip
    assert samples_text([]) == ""


def test_rouge_by_hand() -> None:
    score = rouge(["the cat sat"], ["the cat sat on the mat"])
    assert score.value == pytest.approx(100 * 2 * 3 / (3 + 6))
    assert score.name == "ROUGE-L"
    assert "f1" in score.signature
    assert rouge(["A b", "c"], ["a B", "d"], "1").value == pytest.approx(50.0)
    for wrong, said in [([], "same number of texts"), ("a", "references is 'a', but it must be a list of strings")]:
        with pytest.raises((TypeError, ValueError), match=said):
            rouge(["a"], wrong)


def test_confusion_and_macro_f1_by_hand() -> None:
    actual, predicted = list("aaabbc"), list("aabbaa")
    matrix = confusion_matrix(predicted, actual, ["a", "b", "c", "d"])
    assert matrix.tolist() == [[2, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert accuracy(predicted, actual) == 0.5
    assert macro_f1(matrix) == pytest.approx((4 / 7 + 2 / 4 + 0) / 3), "d neither occurs nor is predicted"
    assert macro_f1((matrix * 60).astype(np.uint8)) == pytest.approx(macro_f1(matrix)), "sums of uint8 wrap around"
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed: no oracle")
    assert macro_f1(matrix) == pytest.approx(metrics.f1_score(actual, predicted, average="macro", zero_division=0))
    with pytest.raises(KeyError):
        confusion_matrix(["x"], ["a"], ["a"])
    with pytest.raises(ValueError, match="empty"):
        macro_f1(np.zeros((2, 2)))


def test_bleu_against_several_references() -> None:
    texts = ["the cat sat on the mat", "a dog ran home quickly"]
    several = [["a cat was on a mat", "the cat sat on the mat"], ["a dog ran home quickly"]]
    assert bleu(texts, several).value == pytest.approx(100)
    assert "nrefs:var" in bleu(texts, several).signature
    assert bleu(texts, [[one] for one in texts[::-1]]).value == bleu(texts, texts[::-1]).value
    with pytest.raises(ValueError, match="needs a reference"):
        bleu(texts, [["a"], []])
