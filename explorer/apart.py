"""A separate process that computes slow views, so that the server can answer requests for other views meanwhile.

The process runs this module: python -m handloom.explorer.apart. Each line of its standard input is a request
[run, view, body] in JSON, and each line of its standard output is the answer.
"""

import json
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from ..errors import InputError
from .packing import to_json


class Apart:
    """The explorer's connection to the separate process, which starts at the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def answer(self, run: Path, view: str, body: Any) -> dict[str, Any]:
        """Return the result of `Session.answer`. Raises InputError as it does, and if the process ends."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                command = [sys.executable, "-m", __name__]
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


def main() -> None:
    from .session import Session  # which imports this module

    session: Session | None = None
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # other output must not be mixed with the answers
    for line in sys.stdin:
        run, view, body = json.loads(line)
        try:
            if session is None or str(session.run) != run:
                session = Session(Path(run))
            answer = session.answer(view, body)
        except InputError as error:
            answer = {"problem": str(error)}
        except Exception as error:
            traceback.print_exc()
            answer = {"problem": f"An error inside handloom: {type(error).__name__}. The terminal shows more."}
        answers.write(to_json(answer) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
