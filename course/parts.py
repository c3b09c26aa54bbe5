"""Loads the functions that a learner wrote in earlier chapters, for chapters that combine them."""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from ..errors import InputError
from .chapter import Chapter, chapters
from .folder import Folder


def own(stem: str, *names: str) -> list[Any]:
    """Return the functions and classes `names` of chapter `stem`, such as c10_learn, and print where they come from.

    They come from the learner's file if their exercises passed when the file was last checked, and otherwise from the
    solution. If the caller is a solution, they always come from the solution.
    """
    chapter = next(chapter for chapter in chapters() if chapter.stem == stem)
    if sys._getframe(1).f_globals.get("__package__"):  # the caller is a solution, not a learner's file
        return [getattr(chapter.solution, name) for name in names]
    wanted = [exercise.name for exercise in chapter.exercises if exercise.name in names]
    found = importlib.util.find_spec(stem)
    yours = found is not None and found.origin is not None and _passed(Path(found.origin), chapter, wanted)
    module = importlib.import_module(stem) if yours else chapter.solution
    print(f"chapter {chapter.number:2}: {', '.join(wanted)}: {'yours' if yours else 'from handloom, not passed yet'}")
    return [getattr(module, name) for name in names]


def _passed(file: Path, chapter: Chapter, names: list[str]) -> bool:
    try:
        folder = Folder(file.parent)
    except InputError:  # the folder contains no course
        return False
    return set(names) <= set(folder.passed(chapter))
