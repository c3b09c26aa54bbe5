"""Build a Transformer in sixteen chapters, with automatic checks of every exercise.

python -m handloom.course start DIR       create a folder with the texts and the files to complete
python -m handloom.course check           check the chapters in order, and show what comes next
python -m handloom.course check 1         check one chapter
python -m handloom.course check --json    check all exercises, and print a JSON object for each
python -m handloom.course hint 1          show a hint, more detailed each time; the fourth is the solution
python -m handloom.course watch           check a chapter again whenever its file is saved
python -m handloom.course ask 'Er singt.' translate with the model that chapter 15 trained
"""

import json
import shlex
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import __version__
from ..arguments import Parser, Whole
from ..cli.command_line import run_main
from ..errors import InputError
from .chapter import Chapter, chapters
from .checking import Report, bar, check, show
from .exercise import Verdict
from .folder import Folder, digest, start

PAUSE = 0.5  # seconds between two checks for changes


def main() -> None:
    parser = Parser(prog="python -m handloom.course", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    one = commands.add_parser("start", help="create the course's folder, or add its missing files")
    one.add_argument("dir", type=Path, metavar="DIR", help="folder of the course")
    inside = Parser(add_help=False)
    inside.add_argument("--dir", type=Path, default=Path(), help="folder of the course (default: the current folder)")
    one = commands.add_parser("check", parents=[inside], help="run a chapter's file and show which exercises pass")
    number: dict[str, Any] = {"type": Whole(1, len(chapters())), "metavar": "CHAPTER"}
    words = "number of the chapter: 1, 2, ..."
    one.add_argument("chapter", nargs="?", help=f"{words} (default: all chapters)", **number)
    about = "check all exercises again, and print one JSON object a line and exercise, for a teacher's program"
    one.add_argument("--json", action="store_true", help=about)
    about = "show a hint for the first exercise that does not pass yet"
    one = commands.add_parser("hint", parents=[inside], help=about)
    one.add_argument("chapter", help=words, **number)
    one.add_argument("--exercise", metavar="NAME", help="show a hint for the exercise NAME")
    commands.add_parser("watch", parents=[inside], help="check each chapter whenever its file is saved")
    about = "translate a German sentence with the model that c15_together.py trained and saved"
    one = commands.add_parser("ask", parents=[inside], help=about)
    one.add_argument("text", metavar="TEXT", help="a German sentence")
    arguments = parser.parse_args()
    if arguments.command is None:
        parser.print_help()
        return
    if arguments.command == "start":
        _start(arguments.dir)
        return
    folder = Folder(arguments.dir)
    if arguments.command == "hint":
        chapter = chapters()[arguments.chapter - 1]
        exercises = [exercise.name for exercise in chapter.exercises]
        if arguments.exercise not in (None, *exercises):
            parser.error(f"chapter {chapter.number} has the exercises {', '.join(exercises)}")
        _hint(folder, chapter, arguments.exercise)
    elif arguments.command == "watch":
        _watch(folder)
    elif arguments.command == "ask":
        _ask(folder, arguments.text)
    elif arguments.json:
        wanted = chapters() if arguments.chapter is None else [chapters()[arguments.chapter - 1]]
        done = [_print_json(folder, chapter) for chapter in wanted]
        sys.exit(0 if all(done) else 1)
    elif arguments.chapter is None:
        sys.exit(0 if _check_all(folder) else 1)
    else:
        sys.exit(0 if _check_one(folder, chapters()[arguments.chapter - 1]) else 1)


def _start(path: Path) -> None:
    written, kept = start(path)
    print(f"{path}: {len(written)} files written{f', {len(kept)} existing files kept' if kept else ''}.")
    print(f"Read {path / 'README.md'}, then {path / chapters()[0].stem}.md. Then:")
    print(f"    cd {shlex.quote(str(path))}\n    python -m handloom.course check")


def _check(folder: Folder, chapter: Chapter) -> tuple[Report, str]:
    """Check a chapter and record the result. Return the report, and the digest of the learner's file."""
    file = digest(folder.file(chapter))
    report = check(chapter, folder.file(chapter))
    folder.keep(chapter, report.passed, file, report.helpers)
    return report, file


def _check_and_show(folder: Folder, chapter: Chapter) -> bool:
    report, _ = _check(folder, chapter)
    show(report, folder)
    return report.done


def _print_json(folder: Folder, chapter: Chapter) -> bool:
    """Check a chapter, and print a line of JSON for each exercise: its verdict, the hints that were read, and so on."""
    report, file = _check(folder, chapter)
    for exercise in chapter.exercises:
        verdict = report.verdicts.get(exercise.name) or report.verdicts.get("") or Verdict("open")
        row = {"chapter": chapter.number, "exercise": exercise.name, "passed": verdict.passed, "state": verdict.state}
        row |= {"message": verdict.text, "hints": folder.hints_read(chapter, exercise.name), "digest": file}
        row |= {"time": datetime.now(UTC).isoformat(timespec="seconds"), "version": __version__}
        print(json.dumps(row), flush=True)
    return report.done


def _check_one(folder: Folder, chapter: Chapter) -> bool:
    done = _check_and_show(folder, chapter)
    if done:
        _overview(folder)
    return done


def _check_all(folder: Folder) -> bool:
    """Check the chapters in order up to the first unfinished one. Skip unchanged chapters that have passed."""
    for chapter in chapters():
        if not folder.is_done(chapter) and not _check_and_show(folder, chapter):
            break
    return _overview(folder)


def _overview(folder: Folder) -> bool:
    """Print the progress in each chapter and the chapter to continue with."""
    print()
    for chapter in chapters():
        count = len(folder.passed(chapter))
        print(f"  {chapter.number:2}. {chapter.title:40} {bar(count, len(chapter.exercises))}")
    left = [chapter for chapter in chapters() if not folder.is_done(chapter)]
    if left:
        print(f"\nContinue with chapter {left[0].number}: read {left[0].stem}.md, write in {left[0].stem}.py.")
    else:
        print("\nAll chapters are done: you have built every part of a Transformer.")
    return not left


def _hint(folder: Folder, chapter: Chapter, name: str | None) -> None:
    passed = folder.passed(chapter)
    left = [exercise for exercise in chapter.exercises if exercise.name not in passed]
    if name:
        left = [exercise for exercise in chapter.exercises if exercise.name == name]
    if not left:
        print(f"Chapter {chapter.number} is done. To see a hint again, add --exercise NAME.")
        return
    exercise = left[0]
    count = folder.next_hint(chapter, exercise.name)
    print(f"Chapter {chapter.number}, `{exercise.name}`:\n")
    for number, hint in enumerate(exercise.hints[:count], 1):
        print(textwrap.fill(hint, 100, initial_indent=f"  {number}. ", subsequent_indent="     ") + "\n")
    if count > len(exercise.hints):
        print("  The solution:\n")
        print(textwrap.indent(chapter.solution_of(exercise.name), "    ") + "\n")
    else:
        more = "the solution" if count == len(exercise.hints) else "more"
        print(f"  Run the same command again to see {more}.")


def _ask(folder: Folder, text: str) -> None:
    from ..train.tasks.translation import Translator  # here, since these modules load slowly
    from .translator import TRANSLATOR

    path = folder.path / TRANSLATOR
    if not (path / "model.safetensors").is_file():
        raise InputError(f"There is no trained translator in {folder.path}. Train it there: python c15_together.py")
    print(Translator.load(path).translate([text])[0])
    print(f"To look inside: python -m handloom.explorer {shlex.quote(str(path))}", file=sys.stderr)


def _watch(folder: Folder) -> None:
    _check_all(folder)
    print("\nWatching: save a file, and its chapter is checked. Ctrl-C ends.", flush=True)
    for chapter in saved(folder, chapters()):
        _check_one(folder, chapter)
        sys.stdout.flush()


def saved(folder: Folder, chapters: list[Chapter], pause: Callable[[float], None] = time.sleep) -> Iterator[Chapter]:
    """Yield a chapter each time its file is saved. Ignore a missing file: an editor may be replacing it."""
    before = {chapter: digest(folder.file(chapter)) for chapter in chapters}
    while True:
        pause(PAUSE)
        for chapter in chapters:
            now = digest(folder.file(chapter))
            if now not in ("", before[chapter]):
                before[chapter] = now
                yield chapter


if __name__ == "__main__":
    run_main(main)
