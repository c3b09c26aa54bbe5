"""Runs a function of a learner's file in a separate process: python -m handloom.explorer.trying FILE NAME SECONDS

Each line of standard input and output is JSON. The first line that arrives contains the arguments. The last line that
is written contains the result, or a problem. In between, `beam_search` asks for log-probabilities: {"after": ids}.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..course.exercise import describe
from ..course.trial import limit, load


def main() -> None:
    path, name, given, out = Path(sys.argv[1]), sys.argv[2], sys.stdin, sys.stdout
    sys.stdout, sys.stdin = sys.stderr, open(os.devnull, encoding="utf-8")  # noqa: SIM115 (for what the file prints and reads)

    def say(**what: Any) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    def stop(line: int | None) -> None:
        where = f"line {line}" if line else "code that it calls"
        say(problem=f"`{name}` of {path.name}: after {seconds:g} s of computing {where} is still running.")
        os._exit(0)

    seconds, arguments = float(sys.argv[3]), json.loads(given.readline())
    limit(stop, str(path), seconds)
    try:
        function = getattr(load(path), name)
        say(**(attention(function, arguments) if "q" in arguments else search(function, arguments, say, given)))
    except NotImplementedError as error:
        say(problem=f"`{name}` of {path.name} is not written yet. {error}")
    except (Exception, SystemExit) as error:  # whatever a learner's file may raise
        say(problem=f"`{name}` of {path.name}: {describe(error, str(path))}")
    os._exit(0)  # ends the process even if the file started threads


def attention(attend: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    result = np.asarray(attend(*(np.array(arguments[key]) for key in ("q", "k", "v", "mask"))), float)
    return {"weights": result.tolist(), "shape": result.shape}


def search(beam_search: Any, arguments: dict[str, Any], say: Any, given: Any) -> dict[str, Any]:
    bos, vocabulary = arguments["bos"], arguments["vocabulary"]

    def next_log_p(ids: Any) -> np.ndarray:
        words = [int(word) for word in ids]
        if words[:1] != [bos]:
            raise ValueError(f"next_log_p needs the words so far, beginning with bos, which is {bos}; it got {words}")
        if not all(0 <= word < vocabulary for word in words):
            raise ValueError(f"next_log_p got {words}, but ids are from 0 to {vocabulary - 1}")
        say(after=words)
        return np.array(json.loads(given.readline()))

    result = beam_search(next_log_p, bos, *(arguments[key] for key in ("eos", "width", "steps", "alpha")))
    try:
        ids, score = result
        return {"ids": [int(word) for word in ids], "score": float(score)}
    except (TypeError, ValueError):
        return {"problem": f"`beam_search` returns {type(result).__name__} instead of the pair (ids, score)."}


if __name__ == "__main__":
    main()
