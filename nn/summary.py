"""The text of `Module.summary`."""

from typing import Any

from ..autograd import Tensor


class Summary(str):
    """A text that is shown as it is, in a notebook, too."""

    def __repr__(self) -> str:
        return str(self)


def summary(module: Any) -> Summary:
    """Return a tree of the modules with the shapes and sizes of their parameters and buffers, and the totals."""
    rows: list[tuple[str, str, str]] = []
    seen: set[int] = set()
    sizes = {"trainable": 0, "fixed": 0}

    def add(name: str, module: Any, depth: int) -> None:
        rows.append(("  " * depth + (f"{name}: " if name else "") + type(module).__name__, "", ""))
        for own, value in vars(module).items():
            if isinstance(value, Tensor):
                shared = id(value) in seen
                seen.add(id(value))
                sizes["trainable" if value.requires_grad else "fixed"] += 0 if shared else value.size
                rows.append(("  " * (depth + 1) + own, str(value.shape), "shared" if shared else f"{value.size:,}"))
        for own, child in module.named_children():
            add(own, child, depth + 1)

    add("", module, 0)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{name:{widths[0]}}  {shape:{widths[1]}}  {size:>{widths[2]}}".rstrip() for name, shape, size in rows]
    total = f"{sizes['trainable']:,} trainable numbers, and {sizes['fixed']:,} fixed"
    return Summary("\n".join([*lines, total]))
