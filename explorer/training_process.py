"""The explorer's training process, which uses the embedded data and receives commands on standard input.

    python -m handloom.explorer.training_process RUN PRESET PRECISION

Each line of standard input is a command: "pause", "go", "step" (one update, then pause) or "stop" (save and end). The
training also ends when standard input is closed, because the explorer has then ended.
"""

import dataclasses
import queue
import signal
import sys
import threading
from pathlib import Path

from ..autograd import manual_seed
from ..cli.command_line import run_main
from ..models.presets import translation_preset
from ..train.callbacks import Callback
from ..train.data.translation import load_translation_data
from ..train.runs.folder import RunFolder
from ..train.tasks.task import train_model
from ..train.tasks.translation import Translation
from ..train.trainer import Trainer

SAVES = 40  # enough to see attention develop
SEED = 0


class Orders(Callback):
    """Receives the commands; the trainer calls this object after each update."""

    def __init__(self) -> None:
        self.waiting: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.paused = False

    def _listen(self) -> None:
        for line in sys.stdin:
            self.waiting.put(line.strip())
        self.waiting.put("stop")

    def on_update(self, trainer: Trainer) -> None:
        """Execute the last command; while paused, wait for the next command."""
        while self.paused or not self.waiting.empty():
            order = self.waiting.get()
            self.paused = order in ("pause", "step")
            if order == "stop":
                signal.raise_signal(signal.SIGTERM)  # on which the trainer saves and ends
            if order in ("stop", "step"):
                return


def main() -> None:
    folder, name, precision = sys.argv[1:]
    preset = translation_preset(name, "embedded")
    preset = dataclasses.replace(
        preset,
        precision=precision,  # type: ignore[arg-type]
        name_overflows=precision == "fp16",
        gradient_norms=True,
        log_every=max(1, preset.steps // 300),
        validate_every=max(1, preset.steps // 12),  # each validation saves
        keep=SAVES,
    )
    options = {"preset": name, "precision": precision, "seed": SEED}
    config = {"program": "handloom.explorer", "options": options, "data": "embedded"}
    orders = Orders()
    with RunFolder.create(Path(folder), config) as run:
        data = load_translation_data("embedded", source="de", target="en")
        manual_seed(SEED)
        train_model(Translation(data.train, data.valid[:100], preset=preset), run, seed=SEED, callbacks=[orders])


if __name__ == "__main__":
    run_main(main)
