"""Pictures of every layer and head, and alignments of words."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from handloom.autograd import manual_seed
from handloom.errors import InputError
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from handloom.tokenizer import BPETokenizer
from handloom.train.runs import plots
from handloom.train.tables.attention_pictures import alignment, draw_attention
from handloom.train.tasks.translation import Translator


@pytest.fixture
def translator() -> Translator:
    manual_seed(0)
    tokenizer = BPETokenizer.train(["Der Hund läuft.", "The dog runs."], 280)
    size = tokenizer.vocab_size
    config = Seq2SeqConfig(size, size, 8, 2, 1, 2, 12, 0.0, max_length=24, share_embeddings=True, tie_output=True)
    return Translator(Seq2SeqTransformer(config).eval(), tokenizer)


def test_every_layer_and_head_is_drawn(translator: Translator, tmp_path, monkeypatch) -> None:
    drawn: list[Figure] = []
    save = plots._save
    monkeypatch.setattr(plots, "_save", lambda figure, path: (drawn.append(figure), save(figure, path)))
    target = translator.tokenizer.encode("The dog")
    maps, source, written = translator.attention_maps("Der Hund", target)
    pictures = draw_attention(translator, "Der Hund", tmp_path / "looked", target)
    assert [path.name for path in pictures] == [f"{name}.png" for name in maps]
    assert len(pictures) == 1 + 2 * 2
    read = ["<bos>", *written[:-1]]
    for path, figure, (name, weights) in zip(pictures, drawn, maps.items(), strict=True):
        assert path.read_bytes().startswith(b"\x89PNG\r\n")
        grids = figure.axes[:2]
        for grid, head in zip(grids, weights, strict=True):
            np.testing.assert_array_equal(grid.images[0].get_array(), head)
        down, across = {"encoder": (source, source), "self_attn": (read, read), "multihead_attn": (written, source)}[
            "encoder" if name.startswith("encoder") else name.split(".")[-1]
        ]
        for labels, tokens in ((grids[0].get_yticklabels(), down), (grids[0].get_xticklabels(), across)):
            assert [label.get_text() for label in labels] == [token.replace(" ", "␣") for token in tokens]
    assert draw_attention(translator, "Der", tmp_path / "looked")[0].parent == tmp_path / "looked/2"


def test_a_folder_that_cannot_be_made(translator: Translator, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="No folder for pictures could be made"):
        draw_attention(translator, "Der Hund", tmp_path / "file")


def test_alignment_joins_tokens_to_words() -> None:
    source, target = ["Ein", " Hu", "nd", ".", "<eos>"], ["A", " do", "g", ".", "<eos>"]
    weights = np.array(
        [
            [0.6, 0.1, 0.1, 0.1, 0.1],
            [0.4, 0.3, 0.2, 0.1, 0.0],  # the largest weight alone is that of "Ein", but "Hund." has 0.6 together
            [0.0, 0.5, 0.5, 0.0, 0.0],
            [0.0, 0.0, 0.0, 0.3, 0.7],  # what <eos> gets counts for no word
            [0.0, 0.0, 0.0, 0.0, 1.0],
        ]
    )
    assert alignment(weights, source, target) == [("A", "Ein"), ("dog.", "Hund.")]
    assert alignment(weights[:1, -1:], ["<eos>"], ["A"]) == []
