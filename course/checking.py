"""Checks a chapter of a learner's folder: runs the learner's file in a separate process, and shows the verdicts."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import printable
from ..files import read_bytes
from .chapter import BUILT, Chapter, explorer_link, source_link
from .exercise import Verdict
from .folder import Folder

RESULTS_LIMIT = 1 << 20  # bytes
WAIT = 60.0  # seconds until a file that waits is stopped; a file that computes is stopped much earlier


@dataclass
class Report:
    """The verdicts on the exercises of a chapter up to the first that fails, the output of the file, and the names of
    the modules in its folder that it imported.

    A verdict with the name "" means that the whole file can't be read.
    """

    chapter: Chapter
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    output: str = ""
    helpers: list[str] = field(default_factory=list)

    @property
    def passed(self) -> list[str]:
        return [name for name, verdict in self.verdicts.items() if verdict.passed]

    @property
    def done(self) -> bool:
        return len(self.passed) == len(self.chapter.exercises)


def check(chapter: Chapter, path: Path, wait: float = WAIT) -> Report:
    """Run and judge the learner's file `path`."""
    if not path.is_file():
        text = f"{path.name} is not there. `python -m handloom.course start {path.parent}` creates missing files."
        return Report(chapter, {"": Verdict("missing", text)})
    report = Report(chapter)
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        results.touch()
        # -P: files in the current folder do not replace modules of the standard library.
        command = [sys.executable, "-P", "-m", f"{__package__}.trial", str(chapter.number), str(path.resolve())]
        one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        code: int | None
        try:
            code = subprocess.run(
                [*command, str(results)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **one_thread},
                timeout=wait,
                start_new_session=True,  # Ctrl-C reaches only this process, which then ends the other
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
        try:  # the learner's file can do anything with the results
            text = read_bytes(results, RESULTS_LIMIT).decode()
            lines = [json.loads(line) for line in text.split("\n")[:-1]]  # the last line may be cut
        except ValueError:
            return Report(chapter, {"": Verdict("stopped", "The file changed the results of its check.")})
    for line in lines:
        if line.get("verdict"):
            report.verdicts[line["exercise"]] = Verdict(*line["verdict"])
        report.output, report.helpers = line.get("output", report.output), line.get("helpers", report.helpers)
    now = lines[-1].get("exercise") if lines else ""
    if now is not None:  # the process did not write the last line
        place = f"`{now}` was checked" if now else "the file was read"
        report.verdicts[now] = Verdict("stopped", f"{_how_it_ended(code, wait)} while {place}.")
    return report


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
