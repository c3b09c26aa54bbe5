"""The report of a gradient check."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class EntryCheck:
    """The result of checking one tensor's gradient.

    Attributes:
        positions: the flat indices of the compared entries.
        analytic: the gradient by the backward pass.
        numeric: the derivative by differences of the forward pass; NaN where the function has a kink at every point
            tried.
        allowed: the largest absolute differences that rounding explains.
        kinks: the number of entries that were skipped because the function has no derivative there.
        excess: each entry's difference divided by the allowed one: 0 at kinks, infinite where the gradient is not
            finite.
        worst: the index, in these arrays, of the entry with the largest excess.
    """

    name: str
    shape: tuple[int, ...]
    positions: np.ndarray
    analytic: np.ndarray
    numeric: np.ndarray
    allowed: np.ndarray

    def __post_init__(self) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            self.excess = np.abs(self.analytic - self.numeric) / self.allowed
        self.excess[~np.isfinite(self.analytic)] = np.inf
        self.excess[np.isnan(self.numeric)] = 0.0
        size, self.kinks = self.positions.size, int(np.isnan(self.numeric).sum())
        self.ok = not size or (self.kinks < size and bool((self.excess <= 1).all()))
        self.worst = int(self.excess.argmax()) if size else 0

    @property
    def worst_index(self) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(self.positions[self.worst], self.shape))

    @property
    def relative_error(self) -> float:
        """The worst relative error: the difference divided by the larger value, or by 1e-6 for smaller values."""
        if self.positions.size == self.kinks:
            return 0.0
        analytic, numeric = self.analytic[self.worst], self.numeric[self.worst]
        if np.isnan(numeric):
            return 0.0
        return float(abs(analytic - numeric) / max(abs(analytic), abs(numeric), 1e-6))

    def hint(self) -> str:
        """Return a guess at the cause of the difference, or an empty string."""
        usable = ~np.isnan(self.numeric)
        a, n = self.analytic[usable], self.numeric[usable]
        if a.size == 0:
            return "the function has a kink or a jump wherever it was tried"
        if not np.isfinite(a).all():
            return "the backward pass gives NaN or infinity where the function is smooth"
        if not a.any():
            return "no gradient arrives: is the graph cut (detach, .data, numpy) or does the rule return None or zeros?"
        if a.size > 1 and _same(np.sort(a), np.sort(n)) and not _same(a, n):
            return "the right numbers in the wrong places: an axis order, a transpose, a shift or an index"
        ratio = float(a @ n / (n @ n)) if n.any() else 0.0
        if ratio and _same(a, ratio * n):
            size = max(abs(ratio), 1 / abs(ratio))
            whole = round(size)
            if abs(ratio + 1) < 1e-6:
                return "the sign is flipped"
            if abs(size - whole) > 1e-5:
                return f"everything is off by the factor {ratio:.6g}: a missing scale?"
            return (
                f"everything is off by the factor {'-' if ratio < 0 else ''}{'' if abs(ratio) > 1 else '1/'}{whole}: a "
                f"constant is missing, or a sum over an axis of {whole} is used instead of a mean (or the reverse: "
                "look at broadcast inputs)"
            )
        right = int((self.excess[usable] <= 1).sum())
        return f"{right} of {a.size} entries are right: is a special case, a mask or an edge missed?" if right else ""

    def __str__(self) -> str:
        text = f"{'ok  ' if self.ok else 'FAIL'} {self.name} {self.shape}: "
        if self.positions.size == 0:
            return text + "no entries"
        checked, total = self.positions.size - self.kinks, max(int(np.prod(self.shape)), 1)
        text += f"{checked} of {total} entries, relative error {self.relative_error:.1e}"
        text += f", {self.kinks} left out at kinks" if self.kinks else ""
        if not self.ok:
            worst = self.worst
            text += (
                f"\n       worst at {self.worst_index}: analytic {self.analytic[worst]:.12g}, "
                f"numeric {self.numeric[worst]:.12g}, allowed difference {self.allowed[worst]:.1e}"
            )
            text += f"\n       hint: {hint}" if (hint := self.hint()) else ""
        return text


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max() <= 1e-6 * max(np.abs(a).max(), np.abs(b).max()))


@dataclass
class GradcheckReport:
    """The result of a gradient check, true if the gradients are right; its text shows the wrong input and entry."""

    name: str
    method: str
    seed: int
    checks: list[EntryCheck] = field(default_factory=list)
    error: str = ""  # why the gradient could not be computed at all

    @property
    def ok(self) -> bool:
        return not self.error and all(check.ok for check in self.checks)

    @property
    def relative_error(self) -> float:
        """The largest relative error of all inputs."""
        return max((check.relative_error for check in self.checks), default=0.0)

    @property
    def entries(self) -> int:
        return sum(check.positions.size - check.kinks for check in self.checks)

    def __bool__(self) -> bool:
        return self.ok

    def _repr_html_(self) -> str:
        from ...notebook import element, table

        columns = "input", "entry", "backward pass", "differences", "difference", "allowed", "right"
        return element("div", element("pre", self), table(columns, *self.worst_entries()))

    def worst_entries(self, most: int = 10) -> list[tuple[str, ...]]:
        """Return the entries with the largest excess, worst first: input, index, derivative by the backward pass and by
        differences, difference, allowed difference and verdict, as texts.
        """
        entries = [(check, i) for check in self.checks for i in np.argsort(-check.excess, kind="stable")[:most]]
        rows: list[tuple[str, ...]] = []
        for check, i in sorted(entries, key=lambda entry: -entry[0].excess[entry[1]])[:most]:
            a, n, index = check.analytic[i], check.numeric[i], np.unravel_index(check.positions[i], check.shape)
            verdict = "kink" if np.isnan(n) else "yes" if check.excess[i] <= 1 else "NO"
            numbers = f"{a:.8g}", f"{n:.8g}", f"{abs(a - n):.1e}", f"{check.allowed[i]:.1e}"
            rows.append((check.name, str([int(x) for x in index]), *numbers, verdict))
        return rows

    def __str__(self) -> str:
        lines = [f"gradcheck of {self.name}: {'ok' if self.ok else 'FAILED'} ({self.method}, seed {self.seed})"]
        lines += [f"  {check}" for check in self.checks]
        lines += [f"  FAIL {self.error}"] if self.error else []
        return "\n".join(lines)
