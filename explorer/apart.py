"""A separate process that computes slow views, so that the server can answer requests for other views meanwhile."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from ..errors import InputError


class Apart:
    """The explorer's connection to the separate process, which starts at the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def answer(self, run: Path, view: str, body: Any) -> dict[str, Any]:
        """Return the result of `Session.answer`. Raises InputError as it does, and if the process ends."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                command = [sys.executable, "-m", f"{__package__}.apart_process"]
                self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert self._process.stdin is not None and self._process.stdout is not None  # noqa: PT018
            try:
                self._process.stdin.write(json.dumps([str(run.resolve()), view, body]).encode() + b"\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
            except OSError:
                line = b""
        if not line:
            raise InputError(
                "The process that computes this view has ended. Repeat the request to start a new process."
            )
        answer = json.loads(line)
        if "problem" in answer:
            raise InputError(answer["problem"])
        return answer

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            with self._process:  # closes the pipes and waits
                pass
