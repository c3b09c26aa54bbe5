"""The view "Training", which shows the log and the saved states of any run, and can control a run that it started.

The training runs in a separate process (`training_process`), so that the server can answer requests meanwhile. The
server reads the files in the run's folder, as for any other run.
"""

import subprocess
import sys
import threading
from collections import deque
from typing import Any

from ..cli.command_line import free_run_folder
from ..errors import InputError
from ..models.presets import translation_preset
from ..train.runs.saves import SavedStates
from .asking import Ask
from .attention import chosen_layer, place
from .packing import packed, spread
from .subject import Subject

COMMANDS = ("go", "pause", "step", "stop")
PRESETS = ("smoke", "laptop")
MAX_SAVES = 24  # maximum number shown, spread over all


class Training:
    """A run that this session trains in another process.

    Attributes:
        run: folder of the run.
        steps: number of updates.
        state: "running", "paused", "finished", "stopped" or "failed".
        said: the last lines that the process printed.
    """

    def __init__(self, preset: str = "smoke", precision: str = "fp32"):
        self.run = free_run_folder("explore")
        self.steps = translation_preset(preset, "embedded").steps
        self.said: deque[str] = deque(maxlen=8)
        self._paused = self._stopped = False
        command = [sys.executable, "-m", f"{__package__}.training_process", str(self.run), preset, precision]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            if line.strip():
                self.said.append(line.strip())

    @property
    def state(self) -> str:
        code = self._process.poll()
        if code is None:
            return "paused" if self._paused else "running"
        return "finished" if code == 0 and not self._stopped else "stopped" if self._stopped else "failed"

    def command(self, word: str) -> None:
        """Send one of COMMANDS to the process. Raises InputError if the run has ended."""
        if self._process.poll() is not None:
            raise InputError("This training has ended. Start another one.")
        self._paused = word in ("pause", "step")
        self._stopped = word == "stop"
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{word}\n")
            self._process.stdin.flush()
        except OSError:
            raise InputError("This training has ended. Start another one.") from None

    def close(self) -> None:
        """Save the state of the training and end it."""
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
        with self._process:  # closes the pipes and waits
            pass


def saves(subject: Subject, ask: Ask) -> dict[str, Any]:
    """Return one head's attention on the same tokens with the weights of each saved state of a run."""
    seen = subject.watched(ask.text())
    layer = chosen_layer(seen, ask)
    head = ask.whole("head", 0, len(layer.weights) - 1)
    kept = SavedStates(subject.run / "checkpoints")
    found = []
    for step in spread(kept.steps(), MAX_SAVES).tolist():
        try:
            weights = subject.with_weights(kept.weights(step), seen, layer.name)[head : head + 1]
        except InputError:
            continue  # a newer save has just replaced it, or it is damaged
        found.append({"step": step, "weights": packed(weights)})
    return place(seen, layer) | {"head": head, "saves": found}
