"""Runs an example as a user does: in a separate process and a separate folder."""

import atexit
import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from handloom.train.data.grammar.french import french_pairs
from handloom.train.data.news import articles

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: Modules that examples import, at the start or later.
IMPORTS = (
    "handloom.train.data.grammar.french", "handloom.cli.examples", "handloom.examples.tables.language_models",
    "matplotlib.backends.backend_agg", "nltk", "sacrebleu",
)  # fmt: skip


@dataclass
class Done:
    """The result of a process: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


@functools.cache
def _forks() -> subprocess.Popen[str]:
    """Return the process from which examples are forked. It ends when this process ends."""
    environment = {name: value for name, value in os.environ.items() if name not in ("HANDLOOM_DATA", "COLUMNS")}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    command = [sys.executable, "-W", "error", str(Path(__file__).with_name("forks.py")), *IMPORTS]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
    )
    atexit.register(process.communicate)
    return process


@dataclass
class Example:
    """A script of examples/ (or any script, by its path, or a module, by its name) that runs in `folder`, without
    network access, HANDLOOM_DATA and a terminal width.
    """

    script: str
    folder: Path
    pictures: bool = True  # False: picture files are empty, which saves time
    warnings: str = "error"  # "always": warnings are printed

    def run(self, *arguments: object, stdin: bytes = b"", **environment: str) -> Done:
        with tempfile.TemporaryDirectory() as folder:
            streams = [Path(folder, name) for name in ("in", "out", "err")]
            streams[0].write_bytes(stdin)
            request = {
                "script": self._path(), "arguments": list(map(str, arguments)),
                "folder": str(self.folder), "environment": environment, "streams": list(map(str, streams)),
                "pictures": self.pictures, "warnings": self.warnings,
            }  # fmt: skip
            forks = _forks()
            assert forks.stdin is not None
            assert forks.stdout is not None
            forks.stdin.write(json.dumps(request) + "\n")
            forks.stdin.flush()
            code = int(forks.stdout.readline())
            return Done(code, *(path.read_bytes().decode() for path in streams[1:]))

    def _path(self) -> str:
        return str(EXAMPLES / self.script) if self.script.endswith(".py") else self.script

    def succeeds(self, *arguments: object, stdin: bytes = b"") -> str:
        """Return the standard output of a run that must succeed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.code == 0, done.out + done.err
        return done.out

    def fails(self, *arguments: object, stdin: bytes = b"") -> str:
        """Return the single paragraph on standard error of a run that must be refused with exit code 2."""
        done = self.run(*arguments, stdin=stdin)
        assert done.code == 2, done.out + done.err
        assert "Traceback" not in done.err
        assert "\n\n" not in done.err.strip()
        return done.err


def small_data(name: str, folder: Path) -> Path:
    """Write a small data file for an example. Preparing the embedded data would take longer than the rest of a test."""
    if name == "generate_text":
        lines = [english for english, _ in itertools.islice(french_pairs(0), 500)]
    elif name == "classify_news":
        news = itertools.islice(articles(0), 400)
        lines = [f"{one.category}\t{one.headline}\t{one.description}" for one in news]
    else:
        lines = ["\t".join(pair) for pair in itertools.islice(french_pairs(0), 400)]
    (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / f"{name}.tsv"
