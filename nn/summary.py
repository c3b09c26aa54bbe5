"""The text of `Module.summary`."""

from typing import Any

from ..autograd import Tensor


class Summary(str):
    """A text that is shown as it is."""

    __repr__ = str.__str__


def summary(module: Any) -> Summary:
    """Return a tree of the modules with the shapes and sizes of their parameters and buffers, and the totals."""
    rows: list[tuple[str, str, str]] = []
    seen: dict[int, Tensor] = {}
    for path, inner in module.named_modules():
        *outer, name = path.split(".")
        indent = "  " * (len(outer) + bool(path))
        rows.append((indent + (f"{name}: " if path else "") + type(inner).__name__, "", ""))
        for name, value in vars(inner).items():
            if isinstance(value, Tensor):
                size = "shared" if id(value) in seen else f"{value.size:,}"
                seen[id(value)] = value
                rows.append((f"{indent}  {name}", str(value.shape), size))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{name:{widths[0]}}  {shape:{widths[1]}}  {size:>{widths[2]}}".rstrip() for name, shape, size in rows]
    total, trained = (sum(x.size for x in seen.values() if x.requires_grad or every) for every in (True, False))
    return Summary("\n".join([*lines, f"{trained:,} trainable numbers, and {total - trained:,} fixed"]))
