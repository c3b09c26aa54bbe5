"""Checks a chapter of a learner's folder: runs the learner's file in a separate process and judges its results."""

import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import printable
from .chapter import BUILT, Chapter, explorer_link, source_link
from .exercise import Verdict, failed
from .exercise import judged as verdict_on
from .folder import Folder

WAIT = 60.0  # seconds until a file that waits is stopped; a file that computes is stopped much earlier


@dataclass
class Report:
    """The verdicts on the exercises of a chapter up to the first that fails, and the output of the file.

    A verdict with the name "" means that the whole file can't be read.
    """

    chapter: Chapter
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    output: str = ""

    @property
    def passed(self) -> list[str]:
        return [name for name, verdict in self.verdicts.items() if verdict.passed]

    @property
    def done(self) -> bool:
        return len(self.passed) == len(self.chapter.exercises)


def check(chapter: Chapter, path: Path, wait: float = WAIT) -> Report:
    """Run and judge the learner's file `path`. Ctrl-C ends its process and raises KeyboardInterrupt with the place."""
    if not path.is_file():
        text = f"{path.name} is not there. `python -m handloom.course start {path.parent}` creates missing files."
        return Report(chapter, {"": Verdict("missing", text)})
    if _imports_the_course(path):
        text = "The file imports handloom.course, where the solutions are. Remove that import."
        return Report(chapter, {"": Verdict("error", text)})
    with tempfile.TemporaryDirectory() as folder:
        results, complaint = Path(folder) / "results", Path(folder) / "complaint"
        # -P: files in the current folder do not replace modules of the standard library.
        command = [sys.executable, "-P", "-m", f"{__package__}.trial", str(chapter.number), str(path.resolve())]
        one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        with complaint.open("wb") as stream:  # not a pipe, which a process that the file starts would keep open
            child = subprocess.Popen(
                [*command, str(results)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                env={**os.environ, **one_thread},
                start_new_session=True,  # Ctrl-C reaches only this process, which then ends the child
            )
        code: int | None = None
        try:
            code = child.wait(wait)
        except subprocess.TimeoutExpired:
            pass
        except KeyboardInterrupt:
            now = [line.get("exercise") for line in _read(results)][-1:]
            raise KeyboardInterrupt(f"While {_place(*now)}: does a loop there have an end?") from None
        finally:
            _end(child)
        lines = _read(results)
        errors = complaint.read_text(encoding="utf-8", errors="replace").strip()
    if not lines and code is not None:
        reason = errors.splitlines() or [f"exit code {code}"]
        return Report(chapter, {"": Verdict("error", f"The check itself could not start: {reason[-1]}")})
    report = judged(chapter, lines)
    last = lines[-1] if lines else {"exercise": ""}
    if "output" not in last and all(verdict.passed for verdict in report.verdicts.values()):
        now = [last.get("exercise")]
        report.verdicts[str(*now)] = Verdict("stopped", f"{_how_it_ended(code, wait)} while {_place(*now)}.")
    return report


def judged(chapter: Chapter, lines: Iterable[Mapping[str, Any]]) -> Report:
    """Return a report with the verdicts on the output of the file's process, up to the first that is not "passed"."""
    report = Report(chapter)
    exercises = {exercise.name: exercise for exercise in chapter.exercises}
    for line in lines:
        report.output = str(line.get("output", report.output))
        name, outcome = str(line.get("exercise")), line.get("outcome")
        if not all(verdict.passed for verdict in report.verdicts.values()):
            continue
        if "stopped" in line:
            report.verdicts[name] = Verdict("stopped", str(line["stopped"]))
        elif outcome is not None:
            try:
                report.verdicts[name] = verdict_on(exercises[name], outcome) if name else failed(outcome)
            except (ValueError, TypeError, KeyError, AttributeError, EOFError):
                text = "The results can't be read: does the file write to the files of the check?"
                report.verdicts[""] = Verdict("error", text)
    return report


def _imports_the_course(path: Path) -> bool:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # the process that runs the file reports the line
        return False
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{one.name}" for one in node.names]
    return any(f"{name}.".startswith("handloom.course.") and name != "handloom.course.parts.own" for name in names)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the process and all processes that it has started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.wait()


def _read(results: Path) -> list[dict[str, Any]]:
    """Return the lines that the process wrote."""
    if not results.exists():
        return []
    found = []
    for line in results.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]:  # the last line may be cut
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        found.append(value if isinstance(value, dict) else {"exercise": "", "outcome": "not a JSON object"})
    return found


def _place(exercise: Any = "") -> str:
    return f"`{exercise}` was checked" if exercise else "the file was read"


def _how_it_ended(code: int | None, wait: float) -> str:
    if code is None:
        return f"There was no result for {wait:g} s (does something wait, as time.sleep does?)"
    if code < 0:
        name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
        return f"Python itself was ended ({name}: a crash, too much memory, or os.kill)"
    return f"The process ended itself (exit code {code}: os._exit?)"


def show(report: Report, folder: Folder) -> None:
    """Print the result of checking a chapter, and where to continue."""
    chapter = report.chapter
    names = [exercise.name for exercise in chapter.exercises]
    print(f"\nChapter {chapter.number}: {chapter.title}   {bar(len(report.passed), len(names))}")
    if report.output:
        print("  your file prints:")
        print(*(f"  | {printable(line)}" for line in report.output.splitlines()[:20]), sep="\n")
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
            print(f"  See it run: {explorer_link(view, folder.path if BUILT.get(chapter.stem) == view else None)}")
    else:
        print(f"  Stuck? python -m handloom.course hint {chapter.number}")


def bar(done: int, of: int) -> str:
    """Return a progress bar such as "[##-] 2 of 3"."""
    return f"[{'#' * done}{'-' * (of - done)}] {done} of {of}"
