"""Test that the same texts give the same data in every form in which people have files, or a note or a refusal."""

import bz2
import csv
import gzip
import io
import lzma
import random
import unicodedata
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.errors import InputError
from handloom.train.data.captions import load_captions
from handloom.train.data.files import PACKED, read_lines
from handloom.train.data.news import load_news
from handloom.train.data.running_text import load_text_data
from handloom.train.data.translation import load_translation_data

WORDS = "Haus Tür Bär Öl Fluss Café Straße Hund Katze Wald Berg See Brot Milch Käse".split()  # noqa: SIM905
RNG = random.Random(0)
PAIRS = [(" ".join(RNG.choices(WORDS, k=5)) + f" {i}", f"sentence number {i} with words") for i in range(60)]
NEWS = [(f"Füße {i % 3}", f"Headline {i} über etwas") for i in range(90)]


def packed(content: bytes, ending: str) -> bytes:
    if ending == ".zip":
        with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
            archive.writestr("a/b.txt", content)
        return file.getvalue()
    return {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[ending](content)


def table(rows: list[tuple[str, str]], quoted: bool = False) -> str:
    if not quoted:
        return "".join(f"{a}\t{b}\n" for a, b in rows)
    csv.writer(file := io.StringIO(), delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return file.getvalue()


forms = {
    "ending": st.sampled_from(PACKED), "line_end": st.sampled_from(["\n", "\r\n", "\r\r\n"]), "bom": st.booleans(),
    "quoted": st.booleans(), "twice": st.booleans(),
}  # fmt: skip


def written(path: Path, texts: list[str], ending: str, line_end: str, bom: bool) -> str:
    """Write the texts, one after the other, each with a byte order mark if `bom`."""
    content = "".join("\ufeff" * bom + text for text in texts).replace("\n", line_end).encode()
    path = path.with_name(path.name + ending)
    path.write_bytes(packed(content, ending))
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("forms")


@pytest.mark.search
@given(header=st.sampled_from([("de", "en"), ("German", "English"), ("de-DE", "en_US"), ("source", "target"),
                               ("text_de", "text_en"), ("# de", "en"), ("DE_sentence", "EN_sentence"), None]),
       turned=st.booleans(), **forms)  # fmt: skip
def test_pairs_are_the_same_in_every_form(folder, header, turned, ending, line_end, bom, quoted, twice) -> None:
    """Joined tables repeat their header. A turned table without a header is in the test below."""
    rows = [*([header] if header else []), *PAIRS]
    if turned and header:
        rows = [row[::-1] for row in rows]
    texts = [table(rows[:30], quoted), table([*([rows[0]] if header and twice else []), *rows[30:]], quoted)]
    data = load_translation_data(written(folder / "c.tsv", texts, ending, line_end, bom))
    Path(data.name).unlink()
    assert sorted([*data.train, *data.valid, *data.test], key=PAIRS.index) == PAIRS


@pytest.mark.search
@given(header=st.sampled_from([("category", "headline"), ("Label", "Text"), ("class", "title"),
                               ("sentiment", "review"), None]),
       decomposed=st.booleans(), **forms)  # fmt: skip
def test_news_are_the_same_in_every_form(folder, header, decomposed, ending, line_end, bom, quoted, twice) -> None:
    rows = [*([header] if header else []), *NEWS]
    texts = [table(rows[:40], quoted), table([*([rows[0]] if header and twice else []), *rows[40:]], quoted)]
    if decomposed:
        texts[1] = unicodedata.normalize("NFD", texts[1])
    data = load_news(written(folder / "n.tsv", texts, ending, line_end, bom), descriptions=False)
    Path(data.name).unlink()
    found = [(article.category, article.headline) for article in (*data.train, *data.valid, *data.test)]
    assert data.categories == ["Füße 0", "Füße 1", "Füße 2"]
    assert sorted((a, unicodedata.normalize("NFC", b)) for a, b in found) == sorted(NEWS)


def test_a_table_whose_columns_are_the_other_way_round_is_noted(tmp_path) -> None:
    pairs = [(f"Das ist nicht der Hund und die Katze {i}", f"This is not the dog and the cat {i}") for i in range(40)]
    (tmp_path / "c.tsv").write_text(table([pair[::-1] for pair in pairs]), encoding="utf-8")
    data = load_translation_data(str(tmp_path / "c.tsv"))
    assert {*data.train} < {*pairs}
    assert "the first column looks like en and the second like de, and they are read so" in data.notes[0]
    (tmp_path / "c.tsv").write_text(table(pairs), encoding="utf-8")
    right = load_translation_data(str(tmp_path / "c.tsv"))
    assert (right.train, right.notes) == (data.train, ())


def test_languages_that_no_report_has(tmp_path) -> None:
    rows = [("Spanish", "English"), *(target_first[::-1] for target_first in PAIRS)]
    path = tmp_path / "c.tsv"
    path.write_text(table(rows), encoding="utf-8")
    with pytest.raises(InputError, match=r"has columns of en and es\. .* or other languages: source=en, target=es"):
        load_translation_data(str(path))
    data = load_translation_data(str(path), source="es", target="en")
    assert ("Spanish", "English") not in data.train
    assert (data.source, data.target) == ("es", "en")


@pytest.mark.parametrize("form", ["tsv", "jsonl", "parallel"])
def test_own_held_out_pairs_are_not_trained_on(tmp_path, form) -> None:
    """They are compared without regard to case, punctuation, blanks and the composition of letters."""

    def write(name: str, pairs: list[tuple[str, str]]) -> str:
        if form == "tsv":
            (tmp_path / f"{name}.tsv").write_text(table(pairs), encoding="utf-8")
        elif form == "jsonl":
            lines = (f'{{"de": "{de}", "en": "{en}"}}\n' for de, en in pairs)
            (tmp_path / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        else:
            for side, language in enumerate(("de", "en")):
                (tmp_path / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")
        return str(tmp_path / name) + ("" if form == "parallel" else f".{form}")

    test = [(unicodedata.normalize("NFD", de.upper()), f"Other {en}!") for de, en in PAIRS[:9]]
    path = write("c", PAIRS)
    write("c.test", test)
    write("c.valid", [("Other.", f" {en}  ?") for _, en in PAIRS[9:20]])
    data = load_translation_data(path)
    assert data.train == PAIRS[20:]
    assert "20 training pairs have a validation or test sentence and are left out" in data.notes[-1]
    write("c", PAIRS[:9])
    with pytest.raises(InputError, match="all training pairs have a validation or test sentence"):
        load_translation_data(path)


def test_own_held_out_articles_texts_and_captions(tmp_path) -> None:
    for name, rows in (("n", NEWS), ("n.valid", NEWS[:6]), ("n.test", [(a, b.upper()) for a, b in NEWS[6:12]])):
        (tmp_path / f"{name}.tsv").write_text(table(rows), encoding="utf-8")
    news = load_news(str(tmp_path / "n.tsv"), descriptions=False)
    assert [len(part) for part in (news.train, news.valid, news.test)] == [78, 6, 6]
    assert "12 training articles have a validation or test headline" in news.notes[0]
    lines = [f"This is line number {'abcdefghij'[i]} of the text.\n" for i in range(10)]
    (tmp_path / "t.txt").write_text("".join(lines))
    (tmp_path / "t.test.txt").write_text("".join(lines[3:7]).upper())
    data = load_text_data(str(tmp_path / "t.txt"))
    assert data.test == "".join(lines[3:7]).upper()
    assert not any(line in data.train + data.valid for line in lines[3:7])
    assert len(data.train + data.valid) > 150
    assert "4 training lines" in data.notes[0]
    for name in ("p", "p.test"):
        (tmp_path / f"{name}.tsv").write_text("1\ta\n1\tb\n")
    with pytest.raises(InputError, match="is not used: captions are split by picture"):
        load_captions(str(tmp_path / "p.tsv"))


@pytest.mark.parametrize("ending", PACKED)
def test_one_of_two_parallel_files_is_enough(tmp_path, ending) -> None:
    for side, language in enumerate(("de", "en")):
        content = "".join(f"{pair[side]}\n" for pair in PAIRS).encode()
        (tmp_path / f"c.{language}{ending}").write_bytes(packed(content, ending))
    whole = load_translation_data(str(tmp_path / "c"))
    assert load_translation_data(str(tmp_path / f"c.en{ending}")) == whole
    assert len(whole.train) > 50


@pytest.mark.parametrize(
    ("start", "kind"),
    [(b"\x28\xb5\x2f\xfd", "zstd"), (b"7z\xbc\xaf\x27\x1c", "7z"), (b"Rar!\x1a", "rar"), (b"%PDF-1.7", "PDF"),
     (b"x" * 257 + b"ustar", "tar")],
)  # fmt: skip
def test_kinds_of_files_that_are_not_read_are_named(tmp_path, start, kind) -> None:
    (tmp_path / "c").write_bytes(start + b"\0" * 100)
    with pytest.raises(InputError, match=f"is a {kind} file, which is not read"):
        read_lines(tmp_path / "c")


def test_packed_files_that_can_t_be_used_are_refused(tmp_path) -> None:
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("a", "x")
        archive.writestr("b", "x")
    (tmp_path / "d.xz").write_bytes(lzma.compress(b"text")[:-4])
    (tmp_path / "e.bz2").write_bytes(bz2.compress(b"text")[:-4])
    (tmp_path / "f.xz").write_bytes(b"text")
    for name, said in (("c.zip", "zip file .it holds 2 files"), ("d.xz", "damaged or truncated xz"),
                       ("e.bz2", "damaged or truncated bzip2"), ("f.xz", "named .xz but is not a xz")):  # fmt: skip
        with pytest.raises(InputError, match=said):
            read_lines(tmp_path / name)
