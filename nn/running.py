"""The names of the running modules, for tools that record what a model does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .module import Module


@contextmanager
def running_modules(model: Module) -> Iterator[list[str]]:
    """Context manager: yield a list that always contains the names of the modules whose `forward` is running.

    The outermost module comes first; "" is the model. A module with several names is listed under its first name. A
    direct call of another method, such as `norm.after`, is not listed. Outside the block, calls of modules take no
    extra time.
    """
    running: list[str] = []
    wrapped: dict[int, Module] = {}
    for name, module in model.named_modules():
        if id(module) not in wrapped:
            wrapped[id(module)] = module
            module.__dict__["forward"] = _noting(running, name, module.forward)
    try:
        yield running
    finally:
        for module in wrapped.values():
            del module.__dict__["forward"]


def _noting(running: list[str], name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*args: Any, **kwargs: Any) -> Any:
        running.append(name)
        try:
            return forward(*args, **kwargs)
        finally:
            running.pop()

    return noted
