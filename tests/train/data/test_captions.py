"""Captions loaded by name and by path, and split by picture."""

import os

import pytest

from handloom.errors import InputError
from handloom.train.data.captions import caption_pairs, load_captions, read_captions


def test_no_caption_is_in_two_parts() -> None:
    data = load_captions("embedded")
    parts = [{caption for group in part for caption in group} for part in (data.train, data.valid, data.test)]
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert len(data.test) > 50
    assert all(len(group) > 1 for group in data.test)


def test_each_caption_is_once_on_either_side() -> None:
    assert len(set(caption_pairs([["a", "b", "c", "d", "e"], ["f", "g"]], every=True))) == 20 + 2
    assert caption_pairs([["a", "b", "c"], ["d", "e"]]) == [
        ("a", "b"), ("b", "c"), ("c", "a"), ("d", "e"), ("e", "d"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "said"), [("1\tone\n2 two\n", "line 2"), ("1\tone\n1\t \n", "line 2"), ("1\tone\n1\ttwo\n", "too few")]
)
def test_what_is_refused(tmp_path, content, said) -> None:
    (tmp_path / "captions.tsv").write_text(content)
    with pytest.raises(InputError, match=said):
        load_captions(str(tmp_path / "captions.tsv"))
    with pytest.raises(InputError, match="neither a known set"):
        load_captions("cocoa")


def test_a_file_of_ones_own_and_what_is_left_out(tmp_path) -> None:
    path = tmp_path / "captions.tsv"
    # The rows of a picture are far apart, and one of its captions occurs twice.
    rows = [f"{i}\t{text} {i}" for text in ("so", "or so", "so") for i in range(200)]
    path.write_text("\n".join(rows))
    data = load_captions(str(path))
    assert (len(data.train) + len(data.valid) + len(data.test), data.notes) == (200, ())
    rows += ["a\tone alone", "b\tsaid twice", "b\tsaid twice"]
    rows += [f"{i}\t{text}" for i in range(200, 300) for text in (f"another {i}", "the same")]
    path.write_text("\n".join(rows))
    groups, lonely = read_captions(path)
    assert groups[7] == ["so 7", "or so 7"]
    assert lonely == 2
    data = load_captions(str(path))
    assert "left out 2 pictures with only one caption" in data.notes[0]
    lost = 300 - sum(map(len, (data.train, data.valid, data.test)))
    assert lost > 0
    assert f"left out {lost} held-out pictures with captions that also occur in training" in data.notes[1]


def test_coco_without_its_file_says_where_to_get_it(monkeypatch) -> None:
    monkeypatch.delenv("HANDLOOM_DATA", raising=False)
    with pytest.raises(InputError, match="cocodataset"):
        load_captions("coco")


@pytest.mark.skipif(not os.environ.get("HANDLOOM_DATA"), reason="HANDLOOM_DATA names no folder with real data")
def test_coco() -> None:
    data = load_captions("coco")
    assert len(data.train) > 4000
    assert min(len(data.valid), len(data.test)) > 150
