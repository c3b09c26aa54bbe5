"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from handloom.errors import InputError
from handloom.train.runs import atomic_files
from handloom.train.runs.atomic_files import atomic_path, read_json, temporary_name, write_json


def full_disk(*_args, **_kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_replaces_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "f"
    path.write_text("old")
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["f"]


def test_syncs_the_file_before_and_the_folder_after_the_rename(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor):
        events.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", lambda *a: (events.append("rename"), replace(*a)))
    write_json(tmp_path / "f.json", {})
    assert events == ["file", "rename", "folder"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_full_disk_keeps_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "f.json"
    write_json(path, {"old": True})
    monkeypatch.setattr(atomic_files.os, call, full_disk)
    with pytest.raises(InputError, match=r"No space left on device.*The file that was there is untouched\."):
        write_json(path, {"new": True})
    assert read_json(path) == {"old": True}
    assert os.listdir(tmp_path) == ["f.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device /dev/full of Linux")
def test_full_disk_while_writing(tmp_path):
    path = tmp_path / "f.json"
    write_json(path, {"old": True})

    def write() -> None:
        with atomic_path(path) as temporary:
            temporary.symlink_to("/dev/full")
            temporary.write_text("x" * 100_000)

    with pytest.raises(InputError, match="No space left on device"):
        write()
    assert read_json(path) == {"old": True}
    assert os.listdir(tmp_path) == ["f.json"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_keeps_the_old_file(tmp_path, interruption):
    path = tmp_path / "f"
    path.write_text("old")

    def write():
        with atomic_path(path) as temporary:
            temporary.write_text("half of the n")
            raise interruption

    with pytest.raises(interruption):
        write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


def test_what_a_killed_process_left_is_overwritten(tmp_path):
    (tmp_path / temporary_name("f.json")).write_text("half")
    write_json(tmp_path / "f.json", {"a": 1})
    assert os.listdir(tmp_path) == ["f.json"]
    assert read_json(tmp_path / "f.json") == {"a": 1}


def test_nothing_is_written_through_a_link(tmp_path):
    (tmp_path / "precious").write_text("keep me")
    for name in ("f.json", temporary_name("f.json")):
        (tmp_path / name).symlink_to("precious")
    write_json(tmp_path / "f.json", {"a": 1})
    assert (tmp_path / "precious").read_text() == "keep me"
    assert read_json(tmp_path / "f.json") == {"a": 1}
    assert sorted(os.listdir(tmp_path)) == ["f.json", "precious"]


def test_no_such_folder(tmp_path):
    with pytest.raises(InputError, match=r"could not be written: .*No such file or directory"):
        write_json(tmp_path / "missing" / "f.json", {})


def test_json_is_readable_text(tmp_path):
    path = tmp_path / "f.json"
    write_json(path, {"b": "Grüße", "a": [1, 2.5, None]})
    assert path.read_text(encoding="utf-8").startswith('{\n  "b": "Grüße",')
    assert read_json(path) == {"b": "Grüße", "a": [1, 2.5, None]}


@pytest.mark.parametrize(("value", "error"), [(float("nan"), ValueError), (object(), TypeError)])
def test_what_json_cannot_hold(tmp_path, value, error):
    with pytest.raises(error):
        write_json(tmp_path / "f.json", {"x": value})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1,}', "not valid JSON: line 1, column"),
        (b'{"a": "x', "not valid JSON: line 1, column"),
        (b"", "not valid JSON: line 1, column 1"),
        (b'{"a": "\xff"}', "its byte 8 is not UTF-8"),
        (b"[1]", "holds a JSON list where an object"),
        (b"null", "holds a JSON null where an object .* Restore"),
    ],
)
def test_malformed_json(tmp_path, content, message):
    (tmp_path / "f.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_json(tmp_path / "f.json")


def test_json_missing_or_a_folder(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_json(tmp_path / "f.json")
    with pytest.raises(InputError, match="can't be read: Is a directory"):
        read_json(tmp_path)


def test_json_of_a_path_that_is_not_utf8(tmp_path):
    config = {"out": os.fsdecode(b"caf\xe9")}
    write_json(tmp_path / "config.json", config)
    assert read_json(tmp_path / "config.json") == config
