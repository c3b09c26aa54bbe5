"""Texts loaded by name and by path."""

import gzip
import hashlib
import os
from pathlib import Path

import pytest

from handloom.errors import InputError
from handloom.train.data import running_text
from handloom.train.data.running_text import GUTENBERG_BOOKS, load_text_data, without_front_matter, without_licence


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


def test_embedded_text_has_paragraphs(monkeypatch) -> None:
    monkeypatch.setattr(running_text, "EMBEDDED_SENTENCES", 1000)
    data = load_text_data("embedded")
    assert len(data.train) > 25_000
    assert "\n\n" in data.train


def test_a_file_is_cut_at_90_and_95_percent(tmp_path) -> None:
    text = "".join(chr(97 + i % 26) for i in range(999)) + "\n"
    write(tmp_path / "own.txt.gz", text)
    data = load_text_data(str(tmp_path / "own.txt.gz"))
    assert data.train + data.valid + data.test == text
    assert [len(data.train), len(data.valid), len(data.test)] == [900, 50, 50]


def test_texts_of_the_data_folder_alone_and_joined_part_by_part(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HANDLOOM_DATA", str(tmp_path))
    write(tmp_path / "tinyshakespeare/input.txt.gz", "To be, or not to be.\n" * 20)
    plays = load_text_data("shakespeare")
    assert plays.train.startswith("To be")
    for number, name in GUTENBERG_BOOKS.items():
        write(tmp_path / f"gutenberg/pg{number}_{name}.txt.gz", f"Once upon a time {number}.\n" * 10)
    data = load_text_data("gutenberg")
    read = "".join(f"Once upon a time {number}.\n" * 10 for number in GUTENBERG_BOOKS)
    assert f"the file that was read has SHA-256 {hashlib.sha256(read.encode()).hexdigest()}" in data.notes[0]
    joined = load_text_data("shakespeare+gutenberg")
    assert joined.name == "shakespeare+gutenberg"
    assert joined.notes == data.notes
    for part in ("train", "valid", "test"):
        assert getattr(joined, part) == f"{getattr(plays, part)}\n\n{getattr(data, part)}"


def test_wikitext_without_a_training_part_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HANDLOOM_DATA", str(tmp_path))
    for part in ("valid", "test"):
        write(tmp_path / f"wikitext2/wiki.{part}.raw.gz", f" = {part} = \n" * 50)
    data = load_text_data("wikitext2")
    assert "no training part" in data.notes[0]
    assert (data.train + data.valid).count("valid") == 50
    write(tmp_path / "wikitext2/wiki.train.raw.gz", " = train = \n")
    data = load_text_data("wikitext2")
    assert data.train == " = train = \n"
    assert not data.notes


def test_project_gutenberg_frames_are_cut_off() -> None:
    text = "Licence\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\nOnce upon a time.\n*** END OF THE X ***\nMore\n"
    assert without_licence(text) == "Once upon a time.\n"
    assert without_licence("Once.\n") == "Once.\n"
    line = "a line of at least fifty characters, as in a paragraph\n"
    assert (
        without_front_matter("A BOOK\n\nBy Somebody\n" + line + "\nCONTENTS\nOne\n" + 3 * line + "end\n")
        == 3 * line + "end\n"
    )
    assert without_front_matter("Once.\n") == "Once.\n"


@pytest.mark.skipif(not os.environ.get("HANDLOOM_DATA"), reason="HANDLOOM_DATA names no folder with real data")
@pytest.mark.parametrize("name", ["shakespeare", "wikitext2", "gutenberg"])
def test_real_texts(name: str) -> None:
    data = load_text_data(name)
    assert len(data.train) > 900_000
    assert min(len(data.valid), len(data.test)) > 50_000


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("blank.txt", "holds no text"),
        ("short.txt", "fewer than 100 characters"),
        ("nothing", "neither a known text"),
        (".", "folder"),
        ("embedded+embedded", "names a text twice"),
        ("embedded+nothing", "neither a known text"),
    ],
)
def test_what_is_refused(tmp_path, monkeypatch, name, said) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blank.txt").write_text(" \n \n")
    (tmp_path / "short.txt").write_text("short\n")
    with pytest.raises(InputError, match=said):
        load_text_data(name)
