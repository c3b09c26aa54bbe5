"""Check a chapter of a learner's folder: the file runs in a process of its own, and what came of it is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import printable
from .chapter import Chapter, explorer_link, source_link
from .exercise import Verdict
from .folder import Folder

WAIT = 60.0  # seconds for a file that waits for something; what computes is stopped long before


@dataclass
class Report:
    """The verdicts on the exercises of a chapter up to the first that fails, and what the file printed.

    A verdict under the name "" is on the file as a whole: it can't be read.
    """

    chapter: Chapter
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    heard: str = ""

    @property
    def passed(self) -> list[str]:
        return [name for name, verdict in self.verdicts.items() if verdict.passed]

    @property
    def done(self) -> bool:
        return len(self.passed) == len(self.chapter.exercises)


def check(chapter: Chapter, path: Path, wait: float = WAIT) -> Report:
    """Run the learner's file `path` and judge it; on Ctrl-C the process is ended and KeyboardInterrupt says where."""
    report = Report(chapter)
    if not path.is_file():
        text = f"{path.name} is not there. `python -m handloom.course start {path.parent}` writes what is missing."
        return Report(chapter, {"": Verdict("missing", text)})
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        # -P: what lies in the folder in which the command was typed does not stand in for Python's own modules.
        command = [sys.executable, "-P", "-m", f"{__package__}.trial", str(chapter.number), str(path.resolve())]
        one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        child = subprocess.Popen(
            [*command, str(results)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **one_thread},
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends the other
        )
        try:
            _, complaint = child.communicate(timeout=wait)
        except subprocess.TimeoutExpired:
            child.kill()
            _, complaint = child.communicate()
            complaint = b"wait"
        except KeyboardInterrupt:
            child.kill()
            child.communicate()
            now = _read(results)[-1]["exercise"] if _read(results) else ""
            raise KeyboardInterrupt(f"While {_place(now)}: does a loop there have an end?") from None
        lines = _read(results)
    for line in lines:
        report.heard = line.get("heard", report.heard)
        if line["state"] not in ("begun", "end"):
            report.verdicts[line["exercise"]] = Verdict(line["state"], line["text"])
    if not lines:
        reason = complaint.decode(errors="replace").strip().splitlines() or [f"exit code {child.returncode}"]
        report.verdicts[""] = Verdict("error", f"The check itself could not start: {reason[-1]}")
    elif lines[-1]["state"] in ("begun", *_GOES_ON):
        text = f"{_how_it_ended(child.returncode, complaint == b'wait', wait)} while {_place(lines[-1]['exercise'])}."
        report.verdicts[lines[-1]["exercise"]] = Verdict("stopped", text)
    return report


_GOES_ON = ("passed",)  # after which more is to come: another exercise, or the end


def _read(results: Path) -> list[dict[str, Any]]:
    if not results.exists():
        return []
    text = results.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n")[:-1]]  # the last line may be cut


def _place(exercise: str) -> str:
    return f"`{exercise}` was checked" if exercise else "the file was read"


def _how_it_ended(code: int, waited: bool, wait: float) -> str:
    if waited:
        return f"Nothing came for {wait:g} s (does something wait, as time.sleep does?)"
    if code < 0:
        name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
        return f"Python itself was ended ({name}: a crash, too much memory, or os.kill)"
    return f"The process ended itself (exit code {code}: os._exit?)"


def show(report: Report, folder: Folder) -> None:
    """Print what came of a chapter, and where to go on."""
    chapter = report.chapter
    names = [exercise.name for exercise in chapter.exercises]
    print(f"\nChapter {chapter.number}: {chapter.title}   {bar(len(report.passed), len(names))}")
    if report.heard:
        print("  your file prints:")
        print(*(f"  | {printable(line)}" for line in report.heard.splitlines()[:20]), sep="\n")
    for name in ("", *names):
        verdict = report.verdicts.get(name)
        if verdict is None:
            continue
        if verdict.passed:
            print(f"  ok    {name}")
            continue
        print(f"  now   {name or folder.file(chapter).name}")
        text = f"Not written yet. {verdict.text}" if verdict.state == "unwritten" else verdict.text
        for line in text.splitlines():
            print(textwrap.fill(printable(line), 100, initial_indent=" " * 8, subsequent_indent=" " * 8))
    left = [name for name in names if name not in report.verdicts]
    if left:
        print(f"  then  {', '.join(left)}")
    if report.done:
        print("  The same in handloom:")
        for source in dict.fromkeys(exercise.source for exercise in chapter.exercises):
            print(f"        {source_link(source)}")
        for view in chapter.views:
            print(f"  See it at work: {explorer_link(view)}")
    else:
        print(f"  Stuck? python -m handloom.course hint {chapter.number}")


def bar(done: int, of: int) -> str:
    """As [##-] 2 of 3."""
    return f"[{'#' * done}{'-' * (of - done)}] {done} of {of}"
