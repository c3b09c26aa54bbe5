"""Whether operations are recorded for a backward pass: a switch for each thread."""

from __future__ import annotations

import inspect
import threading
from contextlib import ContextDecorator
from typing import Any, ClassVar


class _GradMode(threading.local):
    enabled = True


grad_mode = _GradMode()


def is_grad_enabled() -> bool:
    """Whether operations in this thread are being recorded."""
    return grad_mode.enabled


class _SetGradMode(ContextDecorator):
    value: ClassVar[bool]

    def __init__(self) -> None:
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(grad_mode.enabled)
        grad_mode.enabled = self.value

    def __exit__(self, *exception: object) -> None:
        grad_mode.enabled = self._previous.pop()

    def __call__(self, function: Any) -> Any:
        if inspect.isgeneratorfunction(function):
            raise TypeError(
                f"{type(self).__name__} can't decorate the generator {function.__name__}: its body runs later, piece "
                "by piece. Use a with statement inside, around each computation"
            )
        return super().__call__(function)

    def _recreate_cm(self) -> _SetGradMode:
        return type(self)()  # a decorated function may run in several threads at once


class no_grad(_SetGradMode):  # noqa: N801  (reads as a statement: `with no_grad():`)
    """Context manager and decorator: operations inside are not recorded, in this thread."""

    value = False


class enable_grad(_SetGradMode):  # noqa: N801
    """Context manager and decorator: operations inside are recorded, even within `no_grad`."""

    value = True
