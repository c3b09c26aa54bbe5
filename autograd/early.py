"""A backward pass that reports each gradient as soon as it is complete, so that processes can begin to add it."""

from collections.abc import Callable
from typing import Any

from .engine import Pass
from .function import Function
from .origin import Leaf, graph_of, no_grad
from .tensor import Tensor


def backward(output: Tensor, gradient: Any, ready: Callable[[Tensor], Any]) -> None:
    """Compute `engine.backward(output, gradient)`. `ready(leaf)` is called as soon as a leaf's gradient is complete."""
    work = EarlyPass(output, ready)
    work.start([output], [gradient], "backward")
    with no_grad():
        work.run(retain_graph=False)
        for origin in list(work.leaves):
            work.deliver(origin)


class EarlyPass(Pass):
    """A pass that counts the uses of each leaf by calls that are still to be processed."""

    def __init__(self, output: Tensor, ready: Callable[[Tensor], Any]):
        super().__init__()
        self.ready = ready
        self.uses: dict[Leaf, int] = {}
        for call in graph_of([output]):
            for origin in call.node.inputs if call.node is not None else ():
                if isinstance(origin, Leaf):
                    self.uses[origin] = self.uses.get(origin, 0) + 1

    def step(self, node: Function, retain_graph: bool) -> None:
        inputs = node.inputs
        super().step(node, retain_graph)
        for origin in inputs:
            if isinstance(origin, Leaf):
                self.uses[origin] -= 1
                if not self.uses[origin] and origin in self.leaves:
                    self.deliver(origin)

    def deliver(self, origin: Leaf) -> None:
        super().deliver(origin)
        leaf = origin.tensor()
        if leaf is not None:
            self.ready(leaf)
