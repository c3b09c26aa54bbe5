"""Recurrent layers in handloom and PyTorch: processor time of the forward and backward pass of one layer.

python -m benchmarks.recurrent
python -m benchmarks.recurrent --size 256 --rounds 20
"""

import argparse
import statistics
import time

import numpy as np

from benchmarks.side_by_side import interleaved, started

KINDS = ("RNN", "LSTM", "GRU")


class Handloom:
    """The layers of handloom, with inputs (batch, length, size)."""

    def __init__(self, batch: int, length: int, size: int):
        from handloom import nn
        from handloom.autograd import Tensor

        rng = np.random.default_rng(0)
        x, self.gradient = rng.normal(size=(2, batch, length, size)).astype(np.float32)
        self.x, self.layers = Tensor(x, requires_grad=True), {kind: getattr(nn, kind)(size, size) for kind in KINDS}

    def seconds(self, kind: str) -> float:
        """Return the processor time of a pass forward and backward."""
        layer, begin = self.layers[kind], time.process_time()
        layer(self.x)[0].backward(self.gradient)
        used = time.process_time() - begin
        for leaf in (self.x, *layer.parameters()):
            leaf.grad = None
        return used


class Torch(Handloom):
    """The layers of PyTorch."""

    def __init__(self, batch: int, length: int, size: int):
        import torch

        torch.set_num_threads(1)
        rng = np.random.default_rng(0)
        x, gradient = rng.normal(size=(2, batch, length, size)).astype(np.float32)
        self.x, self.gradient = torch.from_numpy(x).requires_grad_(), torch.from_numpy(gradient)
        self.layers = {kind: getattr(torch.nn, kind)(size, size, batch_first=True) for kind in KINDS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in {"batch": 32, "length": 64, "size": 128, "rounds": 15}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    sizes = args.batch, args.length, args.size
    with started({"handloom": (Handloom, *sizes), "torch": (Torch, *sizes)}, threads=1) as workers:
        for kind in KINDS:
            interleaved(workers, 2, "seconds", kind)
            ms = {name: 1e3 * statistics.median(taken)
                  for name, taken in interleaved(workers, args.rounds, "seconds", kind).items()}  # fmt: skip
            ratio = ms["handloom"] / ms["torch"]
            print(f"{kind:4} handloom {ms['handloom']:6.1f} ms, PyTorch {ms['torch']:6.1f} ms, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
