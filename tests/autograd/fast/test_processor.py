"""The caches' sizes: read from the system, kept in a file that may hold anything, and of no influence on any number."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from handloom.autograd import Generator, Parameter, ops
from handloom.autograd.fast import processor
from handloom.train.optim.averaging import ExponentialAverage
from handloom.train.optim.optimizers import SGD, AdamW


def sysfs(folder: Path, *caches: tuple[str, str, str, str]) -> Path:
    for number, caches_files in enumerate(caches):
        (folder / f"index{number}").mkdir(parents=True)
        for name, text in zip(("level", "type", "size", "shared_cpu_list"), caches_files, strict=True):
            (folder / f"index{number}" / name).write_text(f"{text}\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("caches", "l2", "l3"),
    [
        ([("1", "Data", "48K", "0"), ("1", "Instruction", "32K", "0"), ("2", "Unified", "2048K", "0"),
          ("3", "Unified", "491520K", "0-1")], 2 << 20, 480 << 20),
        ([("2", "Unified", "4096K", "0-2,7")], 1 << 20, 0),  # shared by four cores
        ([("2", "Unified", "strange", "0")], 1 << 20, 0),
        ([("2", "Unified", "1K", "0")], 1 << 20, 0),  # implausible
        ([("2", "Unified", "2048K", "x-y")], 2 << 20, 0),
        ([], 1 << 20, 0),
    ],
)  # fmt: skip
def test_sizes_are_read_or_common(
    caches: list[tuple[str, str, str, str]], l2: int, l3: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "CPU", sysfs(tmp_path, *caches))
    found = processor.measured()
    assert (found.l2, found.l3) == (l2, l3)
    assert found.is_plausible()


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    file, found = tmp_path / "folder" / "processor.json", processor.measured()
    assert processor.kept(file) is None
    assert processor.keep(found, file)
    assert processor.kept(file) == found
    assert [path.name for path in file.parent.iterdir()] == ["processor.json"]


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]", b"null", b"[" * 4000, b"\xff\xfe", b"{}" + b" " * 10_000,
    *(json.dumps({"name": "?", "l2": 1 << 20, "l3": 0, "cores": 2, "source": "x", **change}).encode() for change in (
        {}, {"l2": -1}, {"l2": 1e6}, {"l2": True}, {"l2": 1 << 60}, {"cores": 0}, {"l3": "much"}, {"more": 1},
        {"name": None},
    )),
])  # fmt: skip
def test_a_damaged_file_is_not_believed(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "processor.json"
    file.write_bytes(content)
    assert processor.kept(file) is None
    monkeypatch.setattr(processor, "cache_file", lambda: file)
    processor.processor.cache_clear()
    try:
        assert processor.processor() == processor.measured() == processor.kept(file)  # and the file is right again
    finally:
        processor.processor.cache_clear()


def test_where_nothing_can_be_kept_nothing_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for file in (tmp_path / "file" / "below" / "processor.json", tmp_path):  # not a folder; a folder
        assert not processor.keep(processor.measured(), file)
        assert processor.kept(file) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
    if hasattr(os, "mkfifo"):  # reading one would wait for ever
        os.mkfifo(tmp_path / "processor.json")
        assert processor.kept(tmp_path / "processor.json") is None


def test_blocks_follow_the_second_level_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_cache(mib: float) -> None:
        found = processor.Processor("", int(mib * 2**20), 0, 1, "")
        monkeypatch.setattr(processor, "processor", lambda: found)

    lengths = []
    for mib in (0.25, 1, 2, 4, 64):
        with_cache(mib)
        lengths.append(processor.block_length(20))
    assert lengths == [1 << 16, 1 << 16, 1 << 17, 1 << 17, 1 << 17]
    assert [b.stop - b.start for b in processor.blocks(5, 5 + (1 << 18), 20)] == [1 << 17] * 2


def test_no_number_depends_on_the_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, rows = rng.normal(size=(2, 700, 1000)).astype(np.float32), rng.normal(size=(300, 1000)).astype(np.float32)

    def numbers() -> bytes:
        parameters = [Parameter(x[0].copy()), Parameter(rows.copy())]
        table = parameters[1]
        optimizers = [AdamW(parameters, 1e-2), SGD(parameters, 1e-2, momentum=0.9)]
        average = ExponentialAverage(parameters, 0.9)
        for step in range(2):
            generator = Generator(step)
            loss = ops.sum(ops.dropout(parameters[0], 0.3, generator=generator) * x[1])
            (loss + ops.sum(ops.embedding(np.array([3, 7, 250]), table))).backward()
            for optimizer in optimizers:
                optimizer.step()
            average.update()
            optimizers[0].zero_grad()
        return b"".join(array.tobytes() for array in (*(p.data for p in parameters), *average.averages))

    def with_blocks(length: int) -> bytes:
        monkeypatch.setattr(processor, "_LEAST", length)
        monkeypatch.setattr(processor, "_MOST", length)
        return numbers()

    first = with_blocks(1 << 10)
    assert first == with_blocks(1 << 14) == with_blocks(1 << 19)
