"""What all data sets have in common: three parts, their sizes and notes, and a user's validation and test files."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Self, TypeVar

from .files import part_path

T = TypeVar("T")
Part = TypeVar("Part")


@dataclass(frozen=True)
class DataSet(Generic[Part]):
    """Data for training, validation and test, which do not overlap."""

    train: Part
    valid: Part
    test: Part
    name: str  # of the data set, or its path
    notes: tuple[str, ...] = field(default=(), kw_only=True)  # sentences about items left out and other limitations
    whole: bool = field(default=False, kw_only=True)  # the other parts were set aside from one file

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def summary(self) -> str:
        """Return one line with the name of the data set and the sizes of its training, validation and test parts."""
        return f"{self.name}: {len(self.train):,} training, {len(self.valid):,} validation and {len(self.test):,} test"  # type: ignore[arg-type]

    @property
    def scored(self) -> Part:
        """The items of a score: the test part, or else the training part."""
        return self.test or self.train

    def parts(self, change: Callable[[Part], T]) -> tuple[T, T, T]:
        """Return the changed training, validation and test parts."""
        return change(self.train), change(self.valid), change(self.test)

    def with_parts(self, change: Callable[[Part], Part]) -> Self:
        """Return the data set with changed parts."""
        train, valid, test = self.parts(change)
        return replace(self, train=train, valid=valid, test=test)


def own_parts(path: str, read: Callable[[str], T]) -> dict[str, T]:
    """Return what `read` makes of c.valid.tsv and c.test.tsv, validation and test files of a user's file c.tsv."""
    files = {part: part_path(path, part) for part in ("valid", "test")}
    return {part: read(file) for part, file in files.items() if Path(file).is_file() and file != path}
