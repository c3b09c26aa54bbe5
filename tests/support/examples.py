"""Running an example as a user does: in a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass
class Done:
    """What a process left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


@dataclass
class Example:
    """One script, run in `folder` without network, without HANDLOOM_DATA, and with warnings as errors."""

    script: str
    folder: Path

    def run(self, *arguments: object, stdin: bytes = b"") -> Done:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
        environment.pop("HANDLOOM_DATA", None)
        command = [sys.executable, "-W", "error", str(EXAMPLES / self.script), *map(str, arguments)]
        done = subprocess.run(
            command, cwd=self.folder, input=stdin, capture_output=True, env=environment, timeout=300, check=False
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def succeeds(self, *arguments: object, stdin: bytes = b"") -> str:
        """Standard output of a run that must end well."""
        done = self.run(*arguments, stdin=stdin)
        assert done.code == 0, done.out + done.err
        return done.out

    def fails(self, *arguments: object, stdin: bytes = b"") -> str:
        """The one paragraph on standard error of a run that must be refused with exit code 2."""
        done = self.run(*arguments, stdin=stdin)
        assert done.code == 2, done.out + done.err
        assert "Traceback" not in done.err
        assert "\n\n" not in done.err.strip()
        return done.err
