"""Runs a learner's file in a separate process: python -m handloom.course.trial NUMBER FILE RESULTS

The learner's file runs in a separate process because it can loop, exit or crash. The verdicts are written to a file as
lines of JSON, so that verdicts before a crash are kept. The last line contains the beginning of the printed output, and
the names of the modules in the learner's folder that the file imported.
"""

import ast
import importlib.util
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from .chapter import Chapter, chapters
from .exercise import Verdict, describe, judged, known

SECONDS = 10  # limit of processor time; all checks of a chapter take less than one second
BYTES = 4 << 30  # of address space
OPEN = ("parts", "translator")  # modules of the course that a learner's file may import
OUTPUT_LIMIT = 2000  # number of characters of printed output that are kept


def run(chapter: Chapter, path: Path) -> Iterator[tuple[str, Verdict | None]]:
    """Yield each exercise's name with None before it runs, then with its verdict, up to the first that does not pass.

    While the file is imported, the name is "".
    """
    yield "", None
    try:
        module = load(path)
    except (Exception, SystemExit) as error:
        yield "", Verdict("error", describe(error, str(path)))
        return
    if file := taken([path, *(path.parent / name for name in helpers(path))]):
        yield "", Verdict("wrong", f"{file} imports the solutions. Write the answers yourself; `hint` helps.")
        return
    for exercise in chapter.exercises:
        yield exercise.name, None
        if hasattr(module, exercise.name):
            answer = getattr(module, exercise.name)
            home = str(getattr(answer, "__module__", ""))
            if home.partition(".")[0] == str(__package__).partition(".")[0]:
                verdict = Verdict("wrong", f"`{exercise.name}` is the one of {home}. Write it yourself; `hint` helps.")
            else:
                verdict = judged(exercise, answer, str(path))
        else:
            text = f"There is no `{exercise.name}` in the file. Was it renamed? `hint` shows its first lines."
            verdict = Verdict("missing", text)
        yield exercise.name, verdict
        if not verdict.passed:
            return


def taken(files: list[Path]) -> str:
    """Return the name of the first file that imports modules of the course, which contain the solutions, or ""."""
    for file in files:
        for node in ast.walk(ast.parse(file.read_bytes())):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            course = [str(name) for name in names if str(name).startswith(str(__package__))]
            if any(name.rpartition(".")[2] not in OPEN for name in course):
                return file.name
    return ""


def load(path: Path) -> ModuleType:
    """Import and return the learner's file as a module. It can import modules from its folder."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec.loader.exec_module(module)
    return module


def helpers(path: Path) -> list[str]:
    """Return the files in the folder of `path`, relative to it, that were imported as modules, except `path`."""
    files = {Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    return sorted(str(file.relative_to(path.parent)) for file in files - {path} if file.is_relative_to(path.parent))


def limit(when_over: Callable[[int | None], None], file: str, seconds: float = SECONDS) -> None:
    """Limit memory and processor time. When the time is over, call `when_over` with the current line of the file."""
    if not hasattr(signal, "setitimer"):  # Windows: the waiting process has a time limit too
        return

    def over(number: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_filename != file:
            frame = frame.f_back
        when_over(frame.f_lineno if frame else None)

    signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    import resource

    with suppress(ValueError, OSError):  # the limit may already be lower
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))


def main() -> None:
    number, path, results = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    chapter = chapters()[number - 1]
    output, now = io.StringIO(), ""
    for exercise in chapter.exercises:  # before the limits count, and before the file can change anything
        known(exercise.probe, exercise.real)
    with results.open("a", encoding="utf-8") as out:

        def write(**what: Any) -> None:
            out.write(json.dumps(what) + "\n")
            out.flush()

        def when_over(line: int | None) -> None:
            where = f"line {line} of your file" if line else "code that your file calls"
            text = f"After {SECONDS} s of computing {where} is still running: does a loop there end?"
            write(exercise=now, verdict=["stopped", text])
            write(output=output.getvalue()[:OUTPUT_LIMIT])
            os._exit(0)

        limit(when_over, str(path))
        with redirect_stdout(output), redirect_stderr(output):
            for now, verdict in run(chapter, path):
                write(exercise=now, verdict=verdict and [verdict.state, verdict.text[:OUTPUT_LIMIT]])
        write(output=output.getvalue()[:OUTPUT_LIMIT], helpers=helpers(path))
    os._exit(0)  # ends the process even if the file started threads


if __name__ == "__main__":
    main()
