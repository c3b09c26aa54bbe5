"""The text of `Module.summary`."""

from typing import Any

from ..autograd import Tensor


class Summary(str):
    """A text that is shown as it is."""

    __repr__ = str.__str__


def summary(module: Any) -> Summary:
    """Return a tree of the modules with the shapes and sizes of their parameters and buffers, and the totals."""
    rows = [("  " * depth + name, shape, size) for depth, name, shape, size in rows_of(module)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{name:{widths[0]}}  {shape:{widths[1]}}  {size:>{widths[2]}}".rstrip() for name, shape, size in rows]
    seen = {id(x): x for inner in module.modules() for x in vars(inner).values() if isinstance(x, Tensor)}
    total, trained = (sum(x.size for x in seen.values() if x.requires_grad or every) for every in (True, False))
    return Summary("\n".join([*lines, f"{trained:,} trainable numbers, and {total - trained:,} fixed"]))


def rows_of(module: Any) -> list[tuple[int, str, str, str]]:
    """Return the depth, name, shape and size of each module, whose shape and size are empty, and each tensor."""
    rows: list[tuple[int, str, str, str]] = []
    seen: set[int] = set()
    for path, inner in module.named_modules():
        *outer, name = path.split(".")
        depth = len(outer) + bool(path)
        rows.append((depth, (f"{name}: " if path else "") + type(inner).__name__, "", ""))
        for name, value in vars(inner).items():
            if isinstance(value, Tensor):
                rows.append((depth + 1, name, str(value.shape), "shared" if id(value) in seen else f"{value.size:,}"))
                seen.add(id(value))
    return rows
