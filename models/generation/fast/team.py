"""A team of threads that wait for work in compiled code.

A decoding step has dozens of products, each of which takes one thread 50 microseconds to 10 milliseconds. Dividing them
by `autograd.fast.parallel` costs up to half of the gain: its threads sleep between jobs, waking them takes 40 to 300
microseconds on a virtual machine, and they compete for Python's lock. The helpers here stay in a compiled loop for some
milliseconds after a job, without the lock. Each job is cut into eight parts, and each free thread takes the next part,
so a sleeping helper delays no other thread. A helper that loses its processor in the middle of a part does delay the
others: while other programs run, a team can be slower than one thread.

The threads share the board, an array of integers: the number of users, of helpers that are wanted and awake, of the
next part and of finished parts, and the job, a compiled function and its arguments. Compiled code reads and writes
everything except the job by atomic instructions of the processor, for which Numba has no functions. A helper reads the
job only after it has taken one of its parts. The leader, which wrote the job, returns only when all parts are finished.

Needs Numba (the extra `fast`).
"""

import atexit
import contextlib
import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ....autograd.fast.loops import exact
from ....autograd.fast.parallel import get_num_threads

try:
    import numba
    from llvmlite import ir
    from numba.extending import intrinsic as numba_intrinsic

    types: Any = numba.types
    cfunc: Any = numba.cfunc
    carray: Any = numba.carray
    intrinsic: Any = numba_intrinsic
except ModuleNotFoundError:  # this module can be imported and read; nothing calls it
    ir = types = None

    def intrinsic(function: Any) -> Any:
        return function


#: Parts of a job: several per thread, so that threads that begin at different times end together. Compiled jobs contain
#: this number, and Numba does not notice a change: see docs/autograd_reference.md.
PARTS = 8
_SPIN = 1000  # times that a thread looks for work or waits before it lets others run: some 50 microseconds
_PATIENCE = 10_000  # times that a helper looks for work before it sleeps: some 10 ms

# The board's indices. Numbers that several threads write are in separate cache lines (8 numbers).
_NEXT, _FINISHED, _AWAKE, _WANTED, _USERS, _FUNCTION, _ARGUMENTS = 0, 8, 16, 24, 32, 40, 41
_BOARD = 48  # numbers
#: Bytes of a number on the board, or among the arguments of a job.
INTEGER = 8
#: Bytes of a float32.
FLOAT = 4


# -- what Numba lacks --------------------------------------------------------------------------------------------------
# Each function returns the types of its arguments and result, and its machine instructions.


def call_address(builder: Any, address: Any, kinds: list[Any], arguments: list[Any]) -> None:
    """Generate the instruction that calls a function at an address, for functions that return nothing."""
    builder.call(builder.inttoptr(address, ir.PointerType(ir.FunctionType(ir.VoidType(), kinds))), arguments)


def _integer_at(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.PointerType(ir.IntType(64)))


if hasattr(os, "sched_yield") and types is not None:
    _let_others_run = types.ExternalFunction("sched_yield", types.int32())
else:

    @exact
    def _let_others_run():
        return 0


@intrinsic
def _load(context, address):
    """Return the integer at an address."""

    def write(context, builder, signature, arguments):
        return builder.load_atomic(_integer_at(builder, arguments[0]), "acquire", 8)

    return types.int64(types.int64), write


@intrinsic
def _store(context, address, value):
    """Write an integer."""

    def write(context, builder, signature, arguments):
        builder.store_atomic(arguments[1], _integer_at(builder, arguments[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), write


@intrinsic
def _add(context, address, value):
    """Add to the integer at an address atomically; return its previous value."""

    def write(context, builder, signature, arguments):
        place = _integer_at(builder, arguments[0])
        return builder.atomic_rmw("add", place, arguments[1], "acq_rel")

    return types.int64(types.int64, types.int64), write


@intrinsic
def _place(context, address):
    """Return an address as a pointer, from which `numba.carray` makes an array."""

    def write(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], ir.PointerType(ir.IntType(8)))

    return types.voidptr(types.int64), write


@exact
def integers(address, count):
    """Return the int64 numbers at an address."""
    return carray(_place(address), count, np.int64)


@exact
def floats(address, shape):
    """Return the float32 array at an address."""
    return carray(_place(address), shape, np.float32)


@exact
def bytes_at(address, shape, dtype):
    """Return the array of 8-bit integers at an address."""
    return carray(_place(address), shape, dtype)


@intrinsic
def _call(context, function, arguments, part):
    """Call a `job` at an address."""

    def write(context, builder, signature, arguments):
        call_address(builder, arguments[0], [ir.IntType(64)] * 2, arguments[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), write


def job(function: Callable[[int, int], None]) -> Callable[[], Any]:
    """Compile function(address of its arguments, number of the part) at the first call."""

    @functools.cache
    def compiled() -> Any:
        signature, options = types.void(types.int64, types.int64), {"error_model": "numpy"}
        try:
            return cfunc(signature, cache=True, **options)(function)
        except RuntimeError:  # no folder can be written
            return cfunc(signature, **options)(function)

    return compiled


# -- a job, and who computes it ----------------------------------------------------------------------------------------


@exact
def _work(board, at):
    """Compute parts of the job on the board until all are taken. Return the number of parts computed."""
    computed = 0
    while _load(at + _NEXT * INTEGER) < PARTS:
        part = _add(at + _NEXT * INTEGER, 1)
        if part < PARTS:
            _call(board[_FUNCTION], board[_ARGUMENTS], part)
            _add(at + _FINISHED * INTEGER, 1)
            computed += 1
    return computed


@exact
def _lead(board, at, functions, arguments):
    """Compute jobs one after the other, each with the helpers that are awake; alone if the board is in use.

    `functions` and the rows of `arguments` are the jobs. This is one piece of compiled code, which Ctrl-C can't
    interrupt.
    """
    alone = _add(at + _USERS * INTEGER, 1) > 0  # another thread of the program was first
    for number in range(functions.size):
        function, given = functions[number], arguments[number].ctypes.data
        if alone:
            for part in range(PARTS):
                _call(function, given, part)
        else:
            board[_FUNCTION], board[_ARGUMENTS] = function, given
            _store(at + _FINISHED * INTEGER, 0)
            _store(at + _NEXT * INTEGER, 0)
            _work(board, at)
            waited = 0
            while _load(at + _FINISHED * INTEGER) < PARTS:
                waited += 1
                if waited > _SPIN:
                    _let_others_run()
    _add(at + _USERS * INTEGER, -1)


@exact
def _help(board, at, number, patience):
    """Run a helper's loop until there has been no work for a while or fewer helpers are wanted."""
    _add(at + _AWAKE * INTEGER, 1)
    idle = 0
    while idle < patience and number < _load(at + _WANTED * INTEGER):
        idle = 0 if _work(board, at) else idle + 1
        if idle > _SPIN:
            _let_others_run()
    _add(at + _AWAKE * INTEGER, -1)


class _Helper:
    """A thread that sleeps when there is nothing to do."""

    def __init__(self, team: "_Team", number: int):
        self.team, self.number = team, number
        self.bell = threading.Lock()  # an Event's own lock would stay shut after an interrupt in its Python code
        self.bell.acquire()
        self.thread = threading.Thread(target=self._serve, name="handloom team", daemon=True)
        self.thread.start()

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # it has been rung already
            self.bell.release()

    def _serve(self) -> None:
        while not self.team.closed:
            self.bell.acquire()
            _help(self.team.board, self.team.at, self.number, _PATIENCE)


class _Team:
    """A board and its helpers."""

    def __init__(self) -> None:
        numbers = np.zeros(_BOARD + 8, np.int64)
        self.board = numbers[-numbers.ctypes.data % 64 // INTEGER :][:_BOARD]  # from the beginning of a cache line
        self.board[_NEXT] = PARTS
        self.at = self.board.ctypes.data
        self.helpers: list[_Helper] = []
        self.closed = False
        _help(self.board, self.at, 0, 0)  # compiled before a helper needs it

    def run(self, functions: np.ndarray, arguments: np.ndarray, helpers: int) -> None:
        wanted = 0 if self.closed else helpers
        self.board[_WANTED] = wanted
        if self.board[_AWAKE] < wanted:
            with contextlib.suppress(RuntimeError):  # no more threads can be started: use the existing ones
                while len(self.helpers) < wanted:
                    self.helpers.append(_Helper(self, len(self.helpers)))
            for helper in self.helpers[:wanted]:
                helper.wake()
        _lead(self.board, self.at, functions, arguments)

    def close(self) -> None:
        """End the helpers before their code is freed."""
        self.closed = True
        self.board[_WANTED] = 0
        for helper in self.helpers:
            helper.wake()
            helper.thread.join()


_team: _Team | None = None
_founding = threading.Lock()


def run(function: Callable[[], Any], *arguments: int) -> None:
    """Compute all parts of a `job` with these integers and addresses as arguments, on as many threads as ops use."""
    run_all(np.array([function().address]), np.array([arguments], np.int64))


def run_all(functions: np.ndarray, arguments: np.ndarray) -> None:
    """Compute jobs one after the other, without returning to Python: `functions` (number,) are addresses of compiled
    jobs, `arguments` (number, width) their integers and addresses, padded; all are int64.
    """
    global _team
    with _founding:
        team = _team = _team or _Team()
    team.run(functions, arguments, get_num_threads() - 1)


def usable() -> bool:
    """Return whether Numba compiles; NUMBA_DISABLE_JIT=1 forbids it."""
    return not getattr(numba.config, "DISABLE_JIT", False)


def _close() -> None:
    if _team is not None:
        _team.close()


def _forget() -> None:
    """Reset the team in a forked child, which has no threads."""
    global _team, _founding
    _team, _founding = None, threading.Lock()


atexit.register(_close)
if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_forget)
