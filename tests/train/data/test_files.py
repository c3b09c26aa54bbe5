"""Readers of text files: what they accept, and their errors for files that can't be used."""

import gzip
import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.errors import InputError
from handloom.train.data.files import decode_lines, iter_lines, parse_tsv, read_jsonl, read_lines, read_parallel

ODD_SEPARATORS = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei\rj"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refusal(function, *args, **kwargs) -> str:
    with pytest.raises(InputError) as caught:
        function(*args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message, "the message is one paragraph"
    assert message.rstrip(")").endswith((".", "NEW_FILE")), "the message is made of sentences"
    return message


class TestLines:
    @pytest.mark.parametrize(
        ("content", "lines"),
        [
            (f"{ODD_SEPARATORS}\nsecond\n", [ODD_SEPARATORS, "second"]),
            (b"eins\r\nzwei\r\n\r\ndrei", ["eins", "zwei", "", "drei"]),
            (b"eins\r", ["eins"]),
            ("\ufeffeins\n\ufeffzwei\n", ["eins", "zwei"]),  # files with byte order marks that were joined
            (gzip.compress("Grüße\nzwei\n".encode(), mtime=0), ["Grüße", "zwei"]),  # gzip, as the content shows
        ],
    )
    def test_what_is_read(self, tmp_path, content, lines):
        assert read_lines(write(tmp_path / "t", content)) == lines

    def test_lines_come_one_by_one(self, tmp_path):
        lines = iter_lines(write(tmp_path / "t", b"good\n\xff\n"))
        assert next(lines) == "good"  # the second line is not decoded yet
        with pytest.raises(InputError):
            next(lines)

    @given(st.lists(st.text(st.characters(exclude_characters="\n\ufeff\0", codec="utf-8"))))
    def test_any_lines_round_trip(self, lines):
        lines = [line.rstrip("\r") for line in lines]
        content = "".join(line + "\n" for line in lines).encode()
        assert list(decode_lines(io.BytesIO(content), "t")) == lines

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            ("nothing", None, "{path} does not exist"),
            (".", None, "can't be read: it is a folder"),
            ("file/t", None, "can't be read: Not a directory"),
            ("t", "", "{path} is empty"),
            ("t.gz", "<html>404\n", "is named .gz but is not a gzip file"),
            (
                "t",
                "gut\nüber\n".encode() + "grün\n".encode("latin-1"),
                "{path}, line 3, byte 3 of the line (byte 13 of the text): 0xfc is not valid UTF-8",
            ),
            ("a t", "grün\n".encode("latin-1"), "iconv -f WINDOWS-1252 -t UTF-8 '{path}' > NEW_FILE"),
            ("t", b"\xef\xbb\xbfa\xe4b\n", "line 1, byte 5 of the line (byte 5 of"),
            ("t", "Hallo\n".encode("utf-16"), "If the file is UTF-16, convert it: iconv -f UTF-16 -t"),
            ("t", "Grün\n".encode("utf-16-le"), "NUL byte, which no text has. If the file is UTF-16, convert it"),
            ("t", b"good\nb\0d\n", "line 2 contains a NUL byte"),
            ("t", b"good\rbetter\r", "carriage returns only. Replace them by line feeds: tr '\\r' '\\n'."),
        ],
    )
    def test_what_is_refused(self, tmp_path, name, content, said):
        write(tmp_path / "file", "x\n")
        path = tmp_path / name if content is None else write(tmp_path / name, content)
        assert said.format(path=path) in refusal(read_lines, path)

    @pytest.mark.parametrize("missing", [1, 8, 100, 1000])
    def test_truncated_gzip(self, tmp_path, missing):
        whole = gzip.compress(os.urandom(3000).hex().encode() + b"\n")
        path = write(tmp_path / "t.gz", whole[:-missing])
        assert f"{path} is a damaged or truncated gzip file" in refusal(read_lines, path)


class TestParallel:
    def test_pairs_and_dropped_lines(self, tmp_path):
        write(tmp_path / "c.de", "eins\n\nzwei\n \u2003\nvier\n")
        write(tmp_path / "c.en", "one\nlost\ntwo\nthree\n\t\n")
        text = read_parallel(tmp_path / "c")
        assert text.pairs == [("eins", "one"), ("zwei", "two")]
        assert "left out 3 pairs with a blank side (line 2, 4, 5)" in text.note

    def test_one_side_gzipped_and_other_languages(self, tmp_path):
        write(tmp_path / "c.en", f"{ODD_SEPARATORS}\ntwo\n")
        write(tmp_path / "c.fr.gz", gzip.compress(b"un\ndeux\n"))
        text = read_parallel(tmp_path / "c", "en", "fr")
        assert (text.pairs, text.note) == ([(ODD_SEPARATORS, "un"), ("two", "deux")], "")

    @pytest.mark.parametrize(
        ("german", "english", "said"),
        [
            ("x\n" * 1200, "y\n" * 1199, "c.de has 1,200 lines and {folder}/c.en has 1,199"),
            ("x\n", None, "The file {folder}/c.en (or {folder}/c.en.gz) does not exist"),
            ("x\n\n", "\ny\n", "none of the 2 pairs has text on both sides"),
            ("", "y\n", "is empty"),
        ],
    )
    def test_what_is_refused(self, tmp_path, german, english, said):
        write(tmp_path / "c.de", german)
        if english is not None:
            write(tmp_path / "c.en", english)
        assert said.format(folder=tmp_path) in refusal(read_parallel, tmp_path / "c")


class TestTable:
    @pytest.mark.parametrize(
        ("content", "options", "pairs"),
        [
            ("Hallo\tHello\r\nJa\tYes\r\n", {}, [("Hallo", "Hello"), ("Ja", "Yes")]),
            ("en\tde\tid\nHello\tHallo\t1\n", {}, [("Hallo", "Hello")]),  # the header gives the order
            ("English\tGerman\tsource\nHello\tHallo\t1\n", {}, [("Hallo", "Hello")]),
            ("eng\tDeutsch\t\nHello\tHallo\t1\n", {}, [("Hallo", "Hello")]),
            ("en\tpt\nHello\tOlá\n", {"source": "pt", "target": "en"}, [("Olá", "Hello")]),
            ("Deutsch\tLanguage\nJa\tYes\n", {}, [("Deutsch", "Language"), ("Ja", "Yes")]),  # one language: no header
            ("Hello\tHallo\tCC BY\n", {"columns": ("en", "de", "licence")}, [("Hallo", "Hello")]),
            ('"Hallo\t"Hello"\nEr sagte: "Ja\tHe: "Yes\n', {}, [('"Hallo', '"Hello"'), ('Er sagte: "Ja', 'He: "Yes')]),
        ],
    )
    def test_what_is_read(self, tmp_path, content, options, pairs):
        assert parse_tsv(read_lines(write(tmp_path / "t.tsv", content)), "t.tsv", **options).pairs == pairs

    def test_dropped_lines_are_numbered_in_the_file(self, tmp_path):
        path = write(tmp_path / "t.tsv", "de\ten\nHallo\tHello\n\nJa\t\nNein\tNo\n")
        text = parse_tsv(read_lines(path), "t.tsv")
        assert text.pairs == [("Hallo", "Hello"), ("Nein", "No")]
        assert "left out 2 pairs with a blank side (line 3, 4)" in text.note

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("Hallo\tHello\nnur eins\n", "t.tsv, line 2: 1 column where 2 are expected (de<TAB>en)"),
            ("Hallo\tHello\na\tb\tc\n", "t.tsv, line 2: 3 columns where 2 are expected (de<TAB>en)"),
            ("", "is empty"),
            ("de\ten\n", "none of the 0 pairs"),
            ("English\tfr\nHello\tSalut\n", "t.tsv has columns of en and fr. Give a table with columns de and en, or"),
        ],
    )
    def test_what_is_refused(self, tmp_path, content, said):
        path = write(tmp_path / "t.tsv", content)
        assert said in refusal(lambda: parse_tsv(read_lines(path), "t.tsv"))


class TestJsonLines:
    def test_both_forms_and_blank_lines(self, tmp_path):
        hub = '{"translation": {"en": "cat", "de": "Katze"}}'
        lines = ['{"de": "Hund", "en": "dog"}', "", hub, '{"de": "", "en": "x"}']
        (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        text = read_jsonl(tmp_path / "a.jsonl")
        assert text.pairs == [("Hund", "dog"), ("Katze", "cat")]
        assert "(line 2, 4)" in text.note

    @pytest.mark.parametrize("line", ["[1]", "{", '{"de": "Hund"}', '{"de": 1, "en": "x"}', '{"translation": 3}'])
    def test_what_is_no_pair_is_named(self, tmp_path, line):
        (tmp_path / "a.jsonl").write_text(f'{{"de": "Hund", "en": "dog"}}\n{line}\n', encoding="utf-8")
        with pytest.raises(InputError, match=r"a\.jsonl, line 2: .* is not a JSON object with the texts 'de' and 'en'"):
            read_jsonl(tmp_path / "a.jsonl")
