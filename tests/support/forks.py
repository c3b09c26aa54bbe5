"""Runs scripts in forked processes, whose parent process has already imported the modules that they import.

    python forks.py MODULE...     # imports the modules, then takes requests from standard input

This saves the start of Python and the imports. Each request is a line of JSON: the script or module, its arguments, the
folder, changes to the environment, the files of the standard streams, whether to draw pictures (which takes most of the
time of a small run), and the filter for warnings. The answer is the exit code.
"""

import gc
import importlib
import json
import os
import runpy
import sys
import warnings
from typing import Any, TextIO


def serve(requests: TextIO, answers: TextIO) -> dict[str, Any] | None:
    """Fork for each request. Return the request in the child process, and None in this process after the last one."""
    for line in requests:
        child = os.fork()
        if not child:
            return json.loads(line)
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        answers.flush()
    return None


def become(request: dict[str, Any]) -> None:
    """Set up this process as if it had been started for the request."""
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    for number, (path, mode) in enumerate(zip(request["streams"], ("r", "w", "w"), strict=True)):
        with open(path, f"{mode}b") as stream:
            os.dup2(stream.fileno(), number)
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    for number, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        options = {"errors": "backslashreplace", "buffering": 1} if name == "stderr" else {}
        setattr(sys, name, open(number, mode, encoding=encoding, closefd=False, **options))  # noqa: SIM115 - to the end
    if not request["pictures"]:
        pictures, plots = (importlib.import_module(name) for name in ("pictures", "handloom.train.runs.plots"))
        plots._saved = pictures.save_nothing
    warnings.simplefilter(request["warnings"])
    warnings.simplefilter("error", RuntimeWarning)  # NumPy's, for infinite values and NaN
    sys.argv = [request["script"], *request["arguments"]]
    sys.path[0] = os.path.dirname(request["script"])


if __name__ == "__main__":
    for module in sys.argv[1:]:
        importlib.import_module(module)
    gc.freeze()  # otherwise each child visits all objects of these modules at its end, which copies their memory
    with os.fdopen(os.dup(0)) as requests, os.fdopen(os.dup(1), "w") as answers:
        request = serve(requests, answers)
    if request is not None:
        become(request)
        if request["script"].endswith(".py"):
            runpy.run_path(request["script"], run_name="__main__")
        else:
            runpy.run_module(request["script"], run_name="__main__", alter_sys=True)
