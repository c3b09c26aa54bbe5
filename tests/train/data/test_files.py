"""Readers of text files: what they accept, and their errors for files that can't be used."""

from __future__ import annotations

import gzip
import io
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.errors import InputError
from handloom.train.data.files import (
    decode_lines,
    find_parallel,
    iter_lines,
    parse_tsv,
    read_jsonl,
    read_lines,
    read_parallel,
    read_parallel_files,
    read_tsv,
)

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
    def test_splits_at_line_feeds_only(self, tmp_path):
        assert read_lines(write(tmp_path / "t", f"{ODD_SEPARATORS}\nsecond\n")) == [ODD_SEPARATORS, "second"]

    def test_carriage_return_before_the_line_feed_is_line_end(self, tmp_path):
        assert read_lines(write(tmp_path / "t", b"eins\r\nzwei\r\n\r\ndrei")) == ["eins", "zwei", "", "drei"]

    def test_byte_order_mark_is_skipped_at_the_start_only(self, tmp_path):
        assert read_lines(write(tmp_path / "t", "\ufeffeins\n\ufeffzwei\n")) == ["eins", "\ufeffzwei"]

    @pytest.mark.parametrize("name", ["t.gz", "no_suffix"])
    def test_gzip_is_known_by_its_content(self, tmp_path, name):
        assert read_lines(write(tmp_path / name, gzip.compress("Grüße\nzwei\n".encode()))) == ["Grüße", "zwei"]

    def test_lines_come_one_by_one(self, tmp_path):
        lines = iter_lines(write(tmp_path / "t", b"good\n\xff\n"))
        assert next(lines) == "good"  # the second line is not looked at yet
        with pytest.raises(InputError):
            next(lines)

    @given(st.lists(st.text(st.characters(exclude_characters="\n\ufeff\0", codec="utf-8"))))
    def test_any_lines_round_trip(self, lines):
        lines = [line.rstrip("\r") for line in lines]
        content = "".join(line + "\n" for line in lines).encode()
        assert list(decode_lines(io.BytesIO(content), "t")) == lines

    def test_missing_file(self, tmp_path):
        assert f"{tmp_path / 'nothing'} does not exist" in refusal(read_lines, tmp_path / "nothing")

    def test_folder(self, tmp_path):
        assert f"{tmp_path} can't be read: it is a folder" in refusal(read_lines, tmp_path)

    def test_path_through_a_file(self, tmp_path):
        write(tmp_path / "file", "x\n")
        assert "can't be read: Not a directory" in refusal(read_lines, tmp_path / "file" / "t")

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read any file")
    def test_no_permission(self, tmp_path):
        path = write(tmp_path / "t", "x\n")
        path.chmod(0)
        assert "can't be read: Permission denied" in refusal(read_lines, path)

    def test_empty_file(self, tmp_path):
        assert f"{tmp_path / 't'} is empty" in refusal(read_lines, write(tmp_path / "t", ""))

    def test_not_utf8_names_line_and_byte(self, tmp_path):
        path = write(tmp_path / "t", "gut\nüber\n".encode() + "grün\n".encode("latin-1"))
        message = refusal(read_lines, path)
        assert f"{path}, line 3, byte 3 of the line (byte 13 of the text): 0xfc is not valid UTF-8" in message
        assert "iconv -f WINDOWS-1252 -t UTF-8" in message

    def test_not_utf8_counts_the_byte_order_mark(self, tmp_path):
        assert "line 1, byte 5 of the line (byte 5 of" in refusal(
            read_lines, write(tmp_path / "t", b"\xef\xbb\xbfa\xe4b\n")
        )

    def test_not_utf8_where_a_character_is_cut_off(self, tmp_path):
        assert "line 1, byte 3 of the line" in refusal(read_lines, write(tmp_path / "t", "abü".encode()[:-1]))

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
    def test_utf16(self, tmp_path, encoding):
        mark = "" if encoding == "utf-16" else "\ufeff"
        message = refusal(read_lines, write(tmp_path / "t", (mark + "Hallo\n").encode(encoding)))
        assert "looks like UTF-16" in message
        assert "iconv -f UTF-16" in message

    @pytest.mark.parametrize("missing", [1, 8, 100, 1000])
    def test_truncated_gzip(self, tmp_path, missing):
        whole = gzip.compress(os.urandom(3000).hex().encode() + b"\n")
        path = write(tmp_path / "t.gz", whole[:-missing])
        assert f"{path} is a damaged or truncated gzip file" in refusal(read_lines, path)

    @pytest.mark.parametrize("text", ["Hallo\n", "a\nb\n"])
    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
    def test_utf16_without_a_mark_and_other_nul_bytes(self, tmp_path, text, encoding):
        message = refusal(read_lines, write(tmp_path / "t", text.encode(encoding)))
        assert "line 1 holds a NUL byte" in message
        assert "iconv -f UTF-16LE" in message
        assert "line 2 holds a NUL byte" in refusal(read_lines, write(tmp_path / "t", b"good\nb\0d\n"))

    def test_a_damaged_gzip_file_is_never_called_badly_encoded(self, tmp_path):
        """After a changed byte other text is unpacked, whose invalid UTF-8 is found before the wrong checksum."""
        packed = gzip.compress(random.Random(0).randbytes(3000).hex().encode() + "\nü\n".encode() * 50)
        seen = set()
        for offset in range(20, len(packed), 7):
            damaged = bytearray(packed)
            damaged[offset] ^= 0x81
            message = refusal(read_lines, write(tmp_path / "t.gz", bytes(damaged)))
            assert "damaged or truncated gzip file" in message, offset
            seen.add(message.split("(")[-1][:12])
        assert len(seen) > 1, "found in more than one way"

    def test_flipped_bit_in_gzip(self, tmp_path):
        packed = bytearray(gzip.compress(b"some text that is long enough to be squeezed\n" * 100))
        packed[len(packed) // 2] ^= 0x10
        assert "damaged or truncated gzip file" in refusal(read_lines, write(tmp_path / "t.gz", bytes(packed)))

    def test_named_gz_but_plain(self, tmp_path):
        assert "is named .gz but is not a gzip file" in refusal(read_lines, write(tmp_path / "t.gz", "<html>404\n"))


class TestParallel:
    def test_pairs_and_dropped_lines(self, tmp_path):
        write(tmp_path / "c.de", "eins\n\nzwei\n \u2003\nvier\n")
        write(tmp_path / "c.en", "one\nlost\ntwo\nthree\n\t\n")
        text = read_parallel(tmp_path / "c")
        assert text.pairs == [("eins", "one"), ("zwei", "two")]
        assert text.dropped == [2, 4, 5]
        assert "left out 3 pairs with a blank side (line 2, 4, 5)" in text.note()

    def test_nothing_dropped_no_note(self, tmp_path):
        write(tmp_path / "c.de", "eins\n")
        write(tmp_path / "c.en", "one\n")
        assert read_parallel(tmp_path / "c").note() == ""

    def test_one_side_gzipped_and_other_languages(self, tmp_path):
        write(tmp_path / "c.en", "one\ntwo\n")
        write(tmp_path / "c.fr.gz", gzip.compress(b"un\ndeux\n"))
        assert read_parallel(tmp_path / "c", "en", "fr").pairs == [("one", "un"), ("two", "deux")]

    def test_plain_file_comes_before_gzipped(self, tmp_path):
        write(tmp_path / "c.de.gz", gzip.compress(b"packed\n"))
        plain = write(tmp_path / "c.de", "plain\n")
        assert find_parallel(tmp_path / "c", "de") == plain

    def test_odd_separators_keep_the_pairing(self, tmp_path):
        write(tmp_path / "c.de", f"{ODD_SEPARATORS}\nzwei\n")
        write(tmp_path / "c.en", "one\ntwo\n")
        assert read_parallel(tmp_path / "c").pairs == [(ODD_SEPARATORS, "one"), ("zwei", "two")]

    def test_different_lengths_say_both_counts(self, tmp_path):
        write(tmp_path / "c.de", "x\n" * 1200)
        write(tmp_path / "c.en", "y\n" * 1199)
        message = refusal(read_parallel, tmp_path / "c")
        assert "c.de has 1,200 lines" in message
        assert "c.en has 1,199" in message

    def test_one_file_missing(self, tmp_path):
        write(tmp_path / "c.de", "x\n")
        assert f"The file {tmp_path / 'c'}.en (or {tmp_path / 'c'}.en.gz) does not exist" in refusal(
            read_parallel, tmp_path / "c"
        )

    def test_all_pairs_blank(self, tmp_path):
        write(tmp_path / "c.de", "x\n\n")
        write(tmp_path / "c.en", "\ny\n")
        assert "none of the 2 pairs has text on both sides" in refusal(read_parallel, tmp_path / "c")

    def test_empty_file(self, tmp_path):
        files = write(tmp_path / "a", ""), write(tmp_path / "b", "y\n")
        assert "is empty" in refusal(read_parallel_files, *files)


class TestTable:
    def test_two_columns_are_source_and_target(self, tmp_path):
        path = write(tmp_path / "t.tsv", "Hallo\tHello\r\nJa\tYes\r\n")
        assert read_tsv(path).pairs == [("Hallo", "Hello"), ("Ja", "Yes")]

    @pytest.mark.parametrize("header", ["en\tde\tid", "English\tGerman\tsource", "eng\tDeutsch\t"])
    def test_header_names_the_order(self, tmp_path, header):
        path = write(tmp_path / "t.tsv", f"{header}\nHello\tHallo\t1\nYes\tJa\t2\n")
        assert read_tsv(path).pairs == [("Hallo", "Hello"), ("Ja", "Yes")]

    def test_header_with_a_language_known_by_code_alone(self, tmp_path):
        path = write(tmp_path / "t.tsv", "en\tpt\nHello\tOlá\n")
        assert read_tsv(path, "pt", "en").pairs == [("Olá", "Hello")]

    def test_a_pair_that_names_one_language_is_no_header(self, tmp_path):
        path = write(tmp_path / "t.tsv", "Deutsch\tLanguage\nJa\tYes\n")
        assert len(read_tsv(path).pairs) == 2

    def test_columns_given(self, tmp_path):
        path = write(tmp_path / "t.tsv", "Hello\tHallo\tCC BY\n")
        assert read_tsv(path, columns=("en", "de", "licence")).pairs == [("Hallo", "Hello")]

    def test_no_quoting(self, tmp_path):
        path = write(tmp_path / "t.tsv", '"Hallo\t"Hello"\nEr sagte: "Ja\tHe said: "Yes\n')
        assert read_tsv(path).pairs[0] == ('"Hallo', '"Hello"')

    def test_dropped_lines_are_numbered_in_the_file(self, tmp_path):
        path = write(tmp_path / "t.tsv", "de\ten\nHallo\tHello\n\nJa\t\nNein\tNo\n")
        text = read_tsv(path)
        assert text.pairs == [("Hallo", "Hello"), ("Nein", "No")]
        assert text.dropped == [3, 4]

    @pytest.mark.parametrize(("row", "columns"), [("nur eins", "1 column "), ("a\tb\tc", "3 columns ")])
    def test_wrong_number_of_columns(self, tmp_path, row, columns):
        path = write(tmp_path / "t.tsv", f"Hallo\tHello\n{row}\n")
        message = refusal(read_tsv, path)
        assert f"{path}, line 2: {columns}where 2 are expected (de<TAB>en)" in message
        assert "name them in its first row" in message

    def test_empty_table(self, tmp_path):
        assert "is empty" in refusal(read_tsv, write(tmp_path / "t.tsv", ""))

    def test_header_alone(self, tmp_path):
        assert "none of the 0 pairs" in refusal(read_tsv, write(tmp_path / "t.tsv", "de\ten\n"))

    def test_rows_read_already(self):
        assert parse_tsv(["Hi\tHallo"], "rows", columns=("en", "de")).pairs == [("Hallo", "Hi")]


class TestJsonLines:
    def test_both_forms_and_blank_lines(self, tmp_path):
        hub = '{"translation": {"en": "cat", "de": "Katze"}}'
        lines = ['{"de": "Hund", "en": "dog"}', "", hub, '{"de": "", "en": "x"}']
        (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        text = read_jsonl(tmp_path / "a.jsonl")
        assert text.pairs == [("Hund", "dog"), ("Katze", "cat")]
        assert text.dropped == [2, 4]

    @pytest.mark.parametrize("line", ["[1]", "{", '{"de": "Hund"}', '{"de": 1, "en": "x"}', '{"translation": 3}'])
    def test_what_is_no_pair_is_named(self, tmp_path, line):
        (tmp_path / "a.jsonl").write_text(f'{{"de": "Hund", "en": "dog"}}\n{line}\n', encoding="utf-8")
        with pytest.raises(InputError, match=r"a\.jsonl, line 2: .* is not a JSON object with the texts 'de' and 'en'"):
            read_jsonl(tmp_path / "a.jsonl")
