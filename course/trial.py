"""Runs a learner's file in a separate process: python -m handloom.course.trial NUMBER FILE RESULTS

The learner's file runs in a separate process because it can loop, exit or crash. The results of its functions are
written to a file as lines of JSON, so that results before a crash are kept. `checking` judges the results. The
beginning of the file's printed output is stored separately.
"""

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
from .exercise import describe, examined

SECONDS = 10  # limit of processor time; all checks of a chapter take less than one second
BYTES = 4 << 30  # of address space
OUTPUT_LIMIT = 2000  # number of characters of printed output that are kept


class Bounded(io.StringIO):
    """A text stream that keeps only the first OUTPUT_LIMIT characters."""

    def write(self, text: str) -> int:
        super().write(text[: max(0, OUTPUT_LIMIT - self.tell())])
        return len(text)


def run(chapter: Chapter, path: Path) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield each exercise's name with None before it runs, then with its results, up to the first exercise that raises.

    While the file is imported, the name is "".
    """
    yield "", None
    try:
        module = load(path)
    except (Exception, SystemExit) as error:
        text = _left(error) if isinstance(error, SystemExit) else describe(error, str(path))
        yield "", {"state": "error", "text": text}
        return
    for exercise in chapter.exercises:
        yield exercise.name, None
        if not hasattr(module, exercise.name):
            text = f"There is no `{exercise.name}` in the file. Was it renamed? `hint` shows its first lines."
            yield exercise.name, {"state": "missing", "text": text}
            return
        answer, solution = (getattr(one, exercise.name) for one in (module, chapter.solution))
        try:
            outcome = examined(exercise, answer, solution, str(path))
        except SystemExit as error:
            outcome = {"state": "error", "text": _left(error)}
        yield exercise.name, outcome
        if "results" not in outcome:
            return


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


def _left(error: SystemExit) -> str:
    return f"The file ends the program (exit code {error.code}): remove exit(), quit() or sys.exit()."


def _limit(when_over: Callable[[int | None], None], file: str) -> None:
    """Limit memory and processor time. When the time is over, call `when_over` with the current line of the file."""
    if not hasattr(signal, "setitimer"):  # Windows: the waiting process has a time limit too
        return

    def over(number: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_filename != file:
            frame = frame.f_back
        when_over(frame.f_lineno if frame else None)

    signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    import resource

    with suppress(ValueError, OSError):  # the limit may already be lower
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))


def main() -> None:
    number, path, results = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    chapter = chapters()[number - 1]
    output, now = Bounded(), ""
    assert chapter.solution and chapter.exercises  # noqa: PT018 - imported before the limits count
    with results.open("a", encoding="utf-8") as out:

        def write(**what: Any) -> None:
            out.write(json.dumps(what) + "\n")
            out.flush()

        def when_over(line: int | None) -> None:
            where = f"line {line} of your file" if line else "code that your file calls"
            text = f"After {SECONDS} s of computing {where} is still running: does a loop there end?"
            write(exercise=now, stopped=text, output=output.getvalue())
            os._exit(0)

        _limit(when_over, str(path))
        with redirect_stdout(output), redirect_stderr(output):
            for now, outcome in run(chapter, path):
                write(exercise=now, outcome=outcome)
        write(exercise="", output=output.getvalue())
    os._exit(0)  # ends the process even if the file started threads


if __name__ == "__main__":
    main()
