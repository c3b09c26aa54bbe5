"""Compute the views that `apart` requests: python -m handloom.explorer.apart_process

Each line of standard input is a request [run, view, body] in JSON, and each line of standard output is the answer.
"""

import json
import sys
import traceback
from pathlib import Path

from ..errors import InputError
from .packing import to_json
from .session import Session


def main() -> None:
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
