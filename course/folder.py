"""A learner's folder: the texts, the files to write in, and the progress."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import InputError
from ..files import atomic_file, make_folder, read_json, temporary_name, write_json
from .chapter import FOLDER, IMAGES, Chapter, chapters, with_links

PROGRESS = "progress.json"


class Folder:
    """The course's folder at `path`. Raises InputError if `path` contains no course."""

    def __init__(self, path: Path):
        self.path = path
        if not (path / PROGRESS).is_file():
            raise InputError(
                f"There is no course in {path.resolve()}. Create a course with python -m handloom.course start DIR. "
                "Then change to this folder (cd DIR), or add --dir DIR."
            )
        self.progress = read_json(path / PROGRESS)
        if not all(isinstance(self.progress.get(key), dict) for key in ("chapters", "hints")):
            raise InputError(f"{path / PROGRESS} is damaged. Delete it and run: python -m handloom.course start {path}")

    def file(self, chapter: Chapter) -> Path:
        """Return the path of the learner's file of a chapter."""
        return self.path / f"{chapter.stem}.py"

    def passed(self, chapter: Chapter) -> list[str]:
        """Return the exercises that passed when the chapter was last checked; none if its file is gone."""
        known = self.progress["chapters"].get(chapter.stem, {}) if self.file(chapter).exists() else {}
        return [exercise.name for exercise in chapter.exercises if exercise.name in known.get("passed", [])]

    def is_done(self, chapter: Chapter) -> bool:
        """Return whether all exercises passed with the current content of the file and of the modules in the folder
        that it imported, and with this version of handloom.
        """
        known = self.progress["chapters"].get(chapter.stem, {})
        all_passed = len(self.passed(chapter)) == len(chapter.exercises)
        files = {self.file(chapter).name: known.get("file"), **known.get("helpers", {})}
        unchanged = all(digest(self.path / name) == old for name, old in files.items())
        return all_passed and unchanged and known.get("version") == __version__

    def keep(self, chapter: Chapter, passed: list[str], file: str, helpers: Iterable[str] = ()) -> None:
        """Save the names of the passed exercises, the digest of the learner's file, and those of its `helpers`."""
        known: dict[str, Any] = {"passed": passed, "file": file, "version": __version__}
        known["helpers"] = {name: digest(self.path / name) for name in helpers}
        self.progress["chapters"][chapter.stem] = known
        self._save()

    def hints_read(self, chapter: Chapter, exercise: str) -> int:
        """Return the number of hints that were shown for an exercise; the fourth is the solution."""
        return self.progress["hints"].get(f"{chapter.stem}.{exercise}", 0)

    def next_hint(self, chapter: Chapter, exercise: str) -> int:
        """Return the number of hints to show now, which grows by 1 with each call."""
        count = min(self.hints_read(chapter, exercise) + 1, 4)
        self.progress["hints"][f"{chapter.stem}.{exercise}"] = count
        self._save()
        return count

    def _save(self) -> None:
        write_json(self.path / PROGRESS, self.progress)


def digest(path: Path) -> str:
    """Return the digest of a file's content, or "" if there is no file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:  # an editor may be replacing it
        return ""


def start(path: Path) -> tuple[list[str], list[str]]:
    """Create the folder of the course, or add missing files without changing existing files.

    Returns the names of the files that were written, and of the files that existed. Raises InputError if the folder
    contains other files or can't be written.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file. Name a folder.")
    ours = (PROGRESS, temporary_name(PROGRESS), *(f"{chapter.stem}.py" for chapter in chapters()))
    if path.is_dir() and any(path.iterdir()) and not any((path / name).exists() for name in ours):
        raise InputError(f"{path} already holds other files. Name a new or empty folder.")
    make_folder(path)
    if not (path / PROGRESS).exists():  # first: if this process is killed, the next call goes on
        write_json(path / PROGRESS, {"chapters": {}, "hints": {}})
    make_folder(path / "images")
    written, kept = [], []
    for name, content in files().items():
        if (path / name).exists():
            kept.append(name)
            continue
        with atomic_file(path / name) as file:
            file.write(content)
        written.append(name)
    return written, kept


def files() -> dict[str, bytes]:
    """Return the content of all files of a new folder, by their path in the folder."""
    found: dict[str, Any] = {"README.md": introduction()}
    for chapter in chapters():
        found[f"{chapter.stem}.md"] = with_links(chapter.text)
        found[f"{chapter.stem}.py"] = chapter.stub.text
        for name in chapter.drawings:
            found[f"images/{name}"] = (IMAGES / name).read_bytes()
    return {name: text if isinstance(text, bytes) else text.encode() for name, text in found.items()}


def introduction() -> str:
    """Return the first page of the folder, with the table of the chapters."""
    rows = [
        f"| [{chapter.number}. {chapter.title}]({chapter.stem}.md) | {len(chapter.exercises)} | {chapter.minutes} | "
        f"{chapter.stub.lines} |"
        for chapter in chapters()
    ]
    minutes = sum(chapter.minutes for chapter in chapters())
    lines = sum(chapter.stub.lines for chapter in chapters())
    text = (FOLDER.parent / "introduction.md").read_text(encoding="utf-8")
    text = text.replace("{time}", f"about {round(minutes / 60, 1):g} hours")
    return text.replace("{table}", "\n".join(rows)).replace("{lines}", str(lines))
