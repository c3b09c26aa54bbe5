"""An exercise, and the verdict on a learner's answer to it.

A probe calls the learner's answer with fixed inputs and returns named results, which are compared with those of
handloom's function. If the results equal those of a typical mistake, the verdict is the message of this mistake.
"""

import inspect
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from .comparing import brief, difference
from .mistakes import Mistake, described


class Wrong(Exception):  # noqa: N818 - as the verdict
    """An error that a probe raises if a result can't be compared. Its text explains the problem to the learner."""


@dataclass(frozen=True)
class Raised:
    """An exception: the name of its class, its text, and the message for the learner, which is not compared."""

    kind: str
    text: str
    message: str = field(default="", compare=False)


Results = Mapping[str, Any] | Raised


@dataclass(eq=False)
class Exercise:
    """An exercise: a function or a class of the chapter's file that the learner writes.

    Attributes:
        solution: the function or class in the chapter's solution.
        probe: calls an answer and returns a dictionary from names such as "the gradient of x" to results (arrays,
            numbers, texts, lists). It is called with the learner's answer, with `real` and with each mistake, and
            creates equal inputs each time. Simple results come first.
        real: handloom's implementation, with the same signature.
        rtol: the largest relative difference that is accepted as rounding.
        source: the name of handloom's implementation, for example "autograd.ops.softmax.Softmax.backward".
        hints: three hints: a question, a number or a picture, and code. After the hints, the solution is shown.
        mistakes: at least three typical mistakes.
    """

    solution: Any
    probe: Callable[[Any], Mapping[str, Any]]
    real: Any
    rtol: float
    source: str
    hints: tuple[str, ...]
    mistakes: list[Mistake]

    @property
    def name(self) -> str:
        return self.solution.__name__


def exercises(solution: ModuleType, checks: ModuleType) -> list[Exercise]:
    """Return the exercises of a chapter, in the order of its solution.

    A function or class `name` of the solution is an exercise if `checks` has the functions `probe_name` and
    `real_name`, in lower case. RTOL[name] is optional. The chapter's text file has the rest: see `mistakes`.
    """
    found = []
    for name, answer in vars(solution).items():
        if probe := getattr(checks, f"probe_{name.lower()}", None):
            real = getattr(checks, f"real_{name.lower()}")
            rtol = getattr(checks, "RTOL", {}).get(name, 1e-9)
            found.append(Exercise(answer, probe, real, rtol, *described(answer)))
    return found


@dataclass(frozen=True)
class Verdict:
    """The verdict on an answer. `state` is passed, unwritten, mistake (typical), wrong, error, missing or stopped."""

    state: str
    text: str = ""

    @property
    def passed(self) -> bool:
        return self.state == "passed"


def need(value: Any, kind: Any, what: str) -> Any:
    """Return `value` if it has the type `kind`. Otherwise raise Wrong, with `what` as its description."""
    if isinstance(value, kind):
        return value
    kinds = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
    if value is None:
        raise Wrong(f"{what} returned None instead of a {kinds}: is a `return` missing?")
    raise Wrong(f"{what} returned {brief(value)}, of the type {type(value).__name__}, instead of a {kinds}.")


def normal(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Return arrays of standard normal numbers, the same in each call."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in shapes]


def _outcome(probe: Any, answer: Any, file: str = "") -> Results:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return probe(answer)
    except (Exception, SystemExit) as error:
        return Raised(type(error).__name__, str(error), describe(error, file))


@cache
def known(probe: Any, answer: Any) -> Results:
    """Return the cached results of `real` or of a mistake, or the exception that it raised."""
    return _outcome(probe, answer)


def judged(exercise: Exercise, answer: Any, file: str = "") -> Verdict:
    """Return the verdict on an answer, the learner's function or class. `file` is the path of the learner's file, for
    line numbers in messages.
    """
    right = known(exercise.probe, exercise.real)
    assert not isinstance(right, Raised), right
    if problem := _unlike(exercise.name, answer, exercise.solution):
        return Verdict("wrong", problem)
    found = _outcome(exercise.probe, answer, file)
    differs = None
    if isinstance(found, Raised):
        if found.kind == "NotImplementedError":
            return Verdict("unwritten", found.text)
    elif (differs := differing(found, right, exercise.rtol)) is None:
        return Verdict("passed")
    for mistake in exercise.mistakes:
        if same(found, known(exercise.probe, mistake.answer), exercise.rtol):
            return Verdict("mistake", mistake.message)
    if isinstance(found, Raised):
        return Verdict("wrong", found.text) if found.kind == "Wrong" else Verdict("error", found.message)
    first = _first_wrong(found, right, exercise.rtol)
    alike = [mistake for mistake in exercise.mistakes if _begins_as(mistake, exercise, found, first, right)]
    if len(alike) == 1:  # the answer also has a second mistake
        return Verdict("mistake", alike[0].message)
    return Verdict("wrong", str(differs))


def _first_wrong(found: Mapping[str, Any], right: Mapping[str, Any], rtol: float) -> str:
    return next(name for name in right if difference(found[name], right[name], rtol))


def _begins_as(
    mistake: Mistake, exercise: Exercise, found: Mapping[str, Any], first: str, right: Mapping[str, Any]
) -> bool:
    """Return whether a mistake has the same first wrong result as the answer, an array of at least two numbers."""
    its = known(exercise.probe, mistake.answer)
    if isinstance(its, Raised) or not all(isinstance(one[first], np.ndarray) for one in (its, right)):
        return False
    return (
        right[first].size > 1
        and right[first].dtype.kind == "f"
        and not np.isnan(its[first]).any()
        and _first_wrong(its, right, exercise.rtol) == first
        and difference(found[first], its[first], exercise.rtol) is None
    )


def same(found: Results, other: Results, rtol: float) -> bool:
    """Return whether two answers have the same results or raised the same error."""
    if isinstance(found, Raised) or isinstance(other, Raised):
        return found == other
    return differing(found, other, rtol) is None


def differing(found: Mapping[str, Any], right: Mapping[str, Any], rtol: float) -> str | None:
    """Describe the first wrong result and list the right results; return None if all results are right."""
    problems = {name: difference(found[name], right[name], rtol) for name in right}
    wrong = [name for name, problem in problems.items() if problem]
    if not wrong:
        return None
    first, fine = wrong[0], [name for name in right if name not in wrong]
    word = first.split()[0].strip(",")
    is_name = "_" in word or (len(word) == 1 and word != "a")  # names keep their case
    text = f"{first if is_name else f'{first[0].upper()}{first[1:]}'}: {problems[first]}"
    if len(fine) > 4:
        fine[3:] = [f"and {len(fine) - 3} more"]
    return text + (f"\nAlready right: {'; '.join(fine)}." if fine else "")


def _unlike(name: str, answer: Any, solution: Any) -> str:
    """Return the reason why the checks can't call `answer`, or "" if they can."""
    kind = "class" if inspect.isclass(solution) else "function"
    if not callable(answer) or inspect.isclass(answer) != inspect.isclass(solution):
        what = "class" if inspect.isclass(answer) else type(answer).__name__
        return f"`{name}` should be a {kind}, as in the file that you were given; it is a {what}."
    try:
        inspect.signature(answer).bind(*[None] * _required(solution))
    except TypeError:
        ours, yours = inspect.signature(solution), inspect.signature(answer)
        names = ", ".join(ours.parameters)
        return f"`{name}` takes ({', '.join(yours.parameters)}); it is called with ({names}): keep these parameters."
    except ValueError:  # a built-in function without a signature
        return ""
    return ""


def _required(function: Any) -> int:
    parameters = inspect.signature(function).parameters.values()
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)


_ADVICE = {
    RecursionError: "It calls itself without an end.",
    NameError: "Is the name spelled correctly, and is its variable or function defined above?",
    AttributeError: "What is the object at this place? `print(type(...))` in your file shows it.",
    IndexError: "Print the index and the shape, or the length, right before that line.",
    ZeroDivisionError: "Which input makes it zero?",
    MemoryError: "Does something grow in a loop without an end?",
    EOFError: "There is no keyboard input during a check: do without input().",
}


def describe(error: BaseException, file: str) -> str:
    """Describe an error in one paragraph: its kind, its place in the learner's file, and a possible remedy."""
    if isinstance(error, SystemExit):
        return f"The file ends the program (exit code {error.code}): remove exit(), quit() or sys.exit()."
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename == file:
        shown = f", `{error.text.strip()}`" if error.text else ""
        return f"Python can't read line {error.lineno}{shown}: {error.msg}."
    if not lines:
        return f"Its result can't be used: {text}. Does it return what the docstring says?"
    text = f"Line {lines[-1].lineno}, `{lines[-1].line}`, raises {text}{'' if text[-1] in '.?!' else '.'}"
    advice = next((advice for kind, advice in _ADVICE.items() if isinstance(error, kind)), "")
    return f"{text} {advice}".strip()
