"""Bounded reads of regular files, atomic writes, and JSON."""

import errno
import os
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest

from handloom import files
from handloom.errors import InputError
from handloom.files import atomic_file, parse_json, read_bytes, read_json, temporary_name, write_json, write_text
from handloom.tokenizer import load_tokenizer
from handloom.train.data.files import iter_lines
from handloom.train.runs.folder import read_metrics

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes with names and other devices")


class TestAtomicWrites:
    @pytest.fixture
    def path(self, tmp_path) -> Path:
        (tmp_path / "f").write_text("old")
        return tmp_path / "f"

    def test_replaces_and_leaves_nothing_else(self, path) -> None:
        path.with_name(temporary_name("f")).write_text("what a killed process left")
        with atomic_file(path) as file:
            file.write(b"new")
            assert path.read_text() == "old"
        assert path.read_text() == "new"
        assert os.listdir(path.parent) == ["f"]

    def test_syncs_the_file_before_and_the_folder_after_the_rename(self, path, monkeypatch) -> None:
        events = []
        fsync, replace = os.fsync, os.replace

        def record_fsync(descriptor: int) -> None:
            events.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", record_fsync)
        monkeypatch.setattr(os, "replace", lambda *a: (events.append("rename"), replace(*a)))
        write_text(path, "new")
        assert events == ["file", "rename", "folder"]

    @pytest.mark.parametrize("call", ["fsync", "replace"])
    def test_a_full_disk_keeps_the_old_file(self, path, monkeypatch, call) -> None:
        monkeypatch.setattr(files.os, call, Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
        with pytest.raises(InputError, match=r"No space left on device.*The file that was there is unchanged\."):
            write_text(path, "new")
        assert path.read_text() == "old"
        assert os.listdir(path.parent) == ["f"]

    @pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
    def test_an_interruption_keeps_the_old_file(self, path, interruption) -> None:
        def write() -> None:
            with atomic_file(path) as file:
                file.write(b"half of the n")
                raise interruption

        with pytest.raises(interruption):
            write()
        assert path.read_text() == "old"
        assert os.listdir(path.parent) == ["f"]

    @posix
    def test_a_link_is_followed_but_no_link_under_the_temporary_name(self, path) -> None:
        path.with_name("precious").write_text("keep me")
        path.with_name(temporary_name("f")).symlink_to("precious")
        for link, target in (("link", "f"), ("dangling", "made")):
            path.with_name(link).symlink_to(target)
            write_text(path.with_name(link), "new")
            assert path.with_name(target).read_text() == "new"
            assert path.with_name(link).is_symlink()
        assert path.with_name("precious").read_text() == "keep me"

    @pytest.mark.parametrize(
        ("name", "message"),
        [("missing/f", "No such file or directory"), ("", r"Is a directory|Permission|denied"), ("/", "is a folder")],
    )
    def test_where_no_file_can_be(self, tmp_path, name, message) -> None:
        with pytest.raises(InputError, match=message):
            write_text(tmp_path / name, "x")


@posix
class TestNoRegularFile:
    @pytest.fixture
    def pipe(self, tmp_path) -> Path:
        os.mkfifo(tmp_path / "pipe")
        return tmp_path / "pipe"

    def test_a_pipe_is_not_written_to(self, pipe) -> None:
        with pytest.raises(InputError, match=r"is a device or a pipe\. Name"):
            write_text(pipe, "text")
        assert pipe.is_fifo()

    @pytest.mark.parametrize("read", [read_json, read_metrics, load_tokenizer, lambda path: list(iter_lines(path))])
    def test_a_pipe_is_not_read(self, pipe, read) -> None:
        with pytest.raises(InputError, match="is a device or a pipe, which may never end"):
            read(pipe)


class TestReading:
    def test_bounds(self, tmp_path) -> None:
        (tmp_path / "f").write_bytes(b"x" * 10)
        assert read_bytes(tmp_path / "f", most=10) == b"x" * 10
        with pytest.raises(InputError, match="has 10 bytes; the limit is 9 bytes"):
            read_bytes(tmp_path / "f", most=9)

    def test_missing_or_a_folder(self, tmp_path) -> None:
        with pytest.raises(InputError, match="does not exist"):
            read_json(tmp_path / "f.json")
        with pytest.raises(InputError, match="can't be read: it is a folder"):
            read_json(tmp_path)


class TestJSON:
    def test_readable_text(self, tmp_path) -> None:
        value = {"b": "Grüße", "a": [1, 2.5, None], "out": os.fsdecode(b"caf\xe9")}
        write_json(tmp_path / "f", value)
        assert (tmp_path / "f").read_text(encoding="utf-8").startswith('{\n  "b": "Grüße",')
        assert read_json(tmp_path / "f") == value

    @pytest.mark.parametrize(("value", "error"), [(float("nan"), ValueError), (object(), TypeError)])
    def test_what_json_cannot_hold(self, tmp_path, value, error) -> None:
        with pytest.raises(error):
            write_json(tmp_path / "f.json", {"x": value})
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b'{"a": 1,}', "line 1, column"),
            (b"", "line 1, column 1"),
            (b'{"a": "\xff"}', "its byte 8 is not UTF-8"),
            (b"[" * 100_000, "nested too deep"),
            (b'{"a": ' + b"9" * 5000 + b"}", r"Exceeds the limit \(4300 digits\)"),
            (b'{"a": NaN}', "NaN is not a finite number"),
            (b'{"a": [-Infinity]}', "-Infinity is not a finite number"),
            (b'{"a": 1e999}', "1e999 is not a finite number"),
        ],
    )
    def test_malformed(self, content, message) -> None:
        with pytest.raises(InputError, match=rf"^the text is not valid JSON: .*{message}.* Restore a copy"):
            parse_json(content, "the text")

    @pytest.mark.parametrize(("content", "kind"), [(b"[1]", "list"), (b"null", "null")])
    def test_no_object(self, tmp_path, content, kind) -> None:
        (tmp_path / "f").write_bytes(content)
        with pytest.raises(InputError, match=f"contains a JSON {kind} where an object .* Restore"):
            read_json(tmp_path / "f")
