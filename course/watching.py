"""Check a chapter again whenever its file is saved."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .chapter import Chapter
from .folder import Folder

PAUSE = 0.5  # seconds between two checks for changes


def saved(folder: Folder, chapters: list[Chapter], pause: Callable[[float], None] = time.sleep) -> Iterator[Chapter]:
    """Yield a chapter each time its file is saved. Ignore a missing file: an editor may be replacing it."""
    before = {chapter: stamp(folder.file(chapter)) for chapter in chapters}
    while True:
        pause(PAUSE)
        for chapter in chapters:
            now = stamp(folder.file(chapter))
            if now is not None and now != before[chapter]:
                before[chapter] = now
                yield chapter


def stamp(path: Path) -> tuple[int, int, int] | None:
    """Return a value that changes when a file is saved, or None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
