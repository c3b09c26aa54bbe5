"""The example with an explicit training loop: it learns, translates, and uses no Trainer."""

import re

from ..support.examples import EXAMPLES, Example


def test_the_loss_falls_and_sentences_are_translated(tmp_path) -> None:
    told = Example("train_by_hand.py", tmp_path).succeeds("--steps", 100)
    losses = [float(loss) for loss in re.findall(r"mean loss of the last 50: ([\d.]+)", told)]
    assert len(losses) == 2
    assert losses[1] < losses[0] - 1
    assert len(re.findall(r"^  translation: \w", told, re.MULTILINE)) == 4


def test_it_is_written_out() -> None:
    text = (EXAMPLES / "train_by_hand.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 72
    assert "loss.backward()" in text
    assert "Trainer" not in text
    assert "optim" not in text
