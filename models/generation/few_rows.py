"""Products of few rows with large weights, on threads that wait for one another in compiled code.

A decoding step has dozens of products, each of which takes one thread 50 microseconds to 10 milliseconds. Dividing them
by `autograd.parallel` costs up to half of what it gains: its threads sleep between jobs, which takes 40 to 300
microseconds to end on a virtual machine, and they meet at Python's lock. The helpers here stay in a compiled loop for
some milliseconds after a product, without the lock. Each product is cut into up to eight parts, and whoever is free
takes the next, so that a helper that is asleep delays nobody. One that loses its processor in the middle of a part
does: beside other programs this can be slower than one thread.

What they share is the board, an array of integers: how many use it, how many helpers are wanted and awake, what to
multiply, the number of the next part and how many are finished. Compiled code reads and writes all but the product by
the processor's atomic instructions, for which Numba has no functions of its own. A helper reads the product only after
it has taken one of its parts, and the leader, who wrote it, doesn't return before all parts are finished.

Needs Numba (the extra `fast`) and MKL (`mkl`).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from typing import Any

import numpy as np

from ...autograd import mkl
from ...autograd.loops import WIDTH, exact, few_rows, fused
from ...autograd.parallel import get_num_threads

try:
    import numba
    from llvmlite import ir
    from numba.extending import intrinsic as numba_intrinsic

    types: Any = numba.types
    carray: Any = numba.carray
    intrinsic: Any = numba_intrinsic
except ModuleNotFoundError:  # the text can be imported and read; nothing calls it
    types = None

    def intrinsic(function: Any) -> Any:
        return function


#: More rows are multiplied by MKL, which holds more of them in registers than the loop.
FEW = 8
#: Even more are left to others: a thread has room for so many.
MOST = 256
_PARTS = 8  # of each product, so that threads that begin at different times still end together
_PATIENCE = 10_000  # times that a helper looks for work and lets others run before it sleeps: some 10 ms

# The board's indices: those that several threads write lie in cache lines (8 numbers) of their own.
_NEXT, _FINISHED, _AWAKE, _WANTED, _USERS, _PRODUCT = 0, 8, 16, 24, 32, 40
_ROWS, _INNER, _BLOCKS, _COLUMNS, _STEP, _X, _WEIGHTS, _BIAS, _Y, _RELU, _GEMM = range(_PRODUCT, _PRODUCT + 11)
_BOARD = 56  # numbers
_INTEGER, _FLOAT = 8, 4  # bytes


# -- what Numba lacks --------------------------------------------------------------------------------------------------
# Each function says the types of its arguments and result, and which instructions it stands for.


def _pointer(builder, address, kind):
    return builder.inttoptr(address, ir.PointerType(kind))


if hasattr(os, "sched_yield") and types is not None:
    _let_others_run = types.ExternalFunction("sched_yield", types.int32())
else:

    @exact
    def _let_others_run():
        return 0


@intrinsic
def _load(context, address):
    """The integer at an address."""

    def write(context, builder, signature, arguments):
        return builder.load_atomic(_pointer(builder, arguments[0], ir.IntType(64)), "acquire", 8)

    return types.int64(types.int64), write


@intrinsic
def _store(context, address, value):
    """Write an integer."""

    def write(context, builder, signature, arguments):
        builder.store_atomic(arguments[1], _pointer(builder, arguments[0], ir.IntType(64)), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), write


@intrinsic
def _add(context, address, value):
    """Add to the integer at an address, which no other thread does meanwhile; what it was before."""

    def write(context, builder, signature, arguments):
        place = _pointer(builder, arguments[0], ir.IntType(64))
        return builder.atomic_rmw("add", place, arguments[1], "acq_rel")

    return types.int64(types.int64, types.int64), write


@intrinsic
def _floats(context, address):
    """An address as a pointer to float32."""

    def write(context, builder, signature, arguments):
        return _pointer(builder, arguments[0], ir.FloatType())

    return types.CPointer(types.float32)(types.int64), write


@intrinsic
def _gemm(context, function, m, n, k, a, a_step, b, b_step, c, c_step):
    """Call cblas_sgemm at an address: c = a @ b, all by rows, addresses and lengths of rows."""

    def write(context, builder, signature, arguments):
        number, real, address = ir.IntType(32), ir.FloatType(), ir.IntType(64)
        kinds = [*[number] * 6, real, address, number, address, number, real, address, number]
        function, *sizes, a, a_step, b, b_step, c, c_step = arguments
        m, n, k, a_step, b_step, c_step = (builder.trunc(one, number) for one in (*sizes, a_step, b_step, c_step))
        by_rows, as_it_is = number(101), number(111)
        given = [by_rows, as_it_is, as_it_is, m, n, k, real(1.0), a, a_step, b, b_step, real(0.0), c, c_step]
        builder.call(_pointer(builder, function, ir.FunctionType(ir.VoidType(), kinds)), given)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 10), write


# -- a product, and who computes it ------------------------------------------------------------------------------------


@fused
def _compute(board, part, scratch):
    """One part of the product on the board: some blocks of columns of y = x @ weights + bias, or of its ReLU."""
    rows, inner, columns, step = board[_ROWS], board[_INNER], board[_COLUMNS], board[_STEP]
    x_at, bias_at, y_at, relu, gemm = board[_X], board[_BIAS], board[_Y], board[_RELU], board[_GEMM]
    x = carray(_floats(x_at), (rows, inner))
    for number in range(board[_BLOCKS] * part // _PARTS, board[_BLOCKS] * (part + 1) // _PARTS):
        weights, first = board[_WEIGHTS] + number * inner * WIDTH * _FLOAT, number * WIDTH
        if gemm:
            _gemm(gemm, rows, WIDTH, inner, x_at, inner, weights, WIDTH, scratch.ctypes.data, WIDTH)
        else:
            few_rows(x, carray(_floats(weights), (inner * WIDTH,)), scratch[: rows * WIDTH])
        count = min(columns - first, WIDTH)
        bias = carray(_floats(bias_at + first * _FLOAT), (count,))
        for r in range(rows):
            product = scratch[r * WIDTH : r * WIDTH + count]
            y = carray(_floats(y_at + (r * step + first) * _FLOAT), (count,))
            if relu:
                for j in range(count):
                    t = product[j] + bias[j]
                    y[j] = np.float32(0) if t < 0 else t  # NaN stays
            else:
                for j in range(count):
                    y[j] = product[j] + bias[j]


@fused
def _work(board, at, scratch):
    """Take parts of the product on the board until all are taken; the number of those computed."""
    computed = 0
    while _load(at + _NEXT * _INTEGER) < _PARTS:
        part = _add(at + _NEXT * _INTEGER, 1)
        if part < _PARTS:
            _compute(board, part, scratch)
            _add(at + _FINISHED * _INTEGER, 1)
            computed += 1
    return computed


@fused
def _lead(board, at, product):
    """Write a product on the board and compute it with the helpers that are awake; alone if the board is in use.

    All in one piece of compiled code, which Ctrl-C can't interrupt.
    """
    scratch = np.empty(product[_ROWS] * WIDTH, np.float32)
    if _add(at + _USERS * _INTEGER, 1):  # another thread of the program was first
        for part in range(_PARTS):
            _compute(product, part, scratch)
    else:
        board[_PRODUCT:] = product[_PRODUCT:]
        _store(at + _FINISHED * _INTEGER, 0)
        _store(at + _NEXT * _INTEGER, 0)
        _work(board, at, scratch)
        while _load(at + _FINISHED * _INTEGER) < _PARTS:
            _let_others_run()
    _add(at + _USERS * _INTEGER, -1)


@fused
def _help(board, at, number, patience):
    """The work of a helper, until there has been none for a while or fewer helpers are wanted."""
    scratch = np.empty(MOST * WIDTH, np.float32)
    _add(at + _AWAKE * _INTEGER, 1)
    idle = 0
    while idle < patience and number < _load(at + _WANTED * _INTEGER):
        idle = 0 if _work(board, at, scratch) else idle + 1
        _let_others_run()
    _add(at + _AWAKE * _INTEGER, -1)


class _Helper:
    """A thread that sleeps when there is nothing to do."""

    def __init__(self, team: _Team, number: int):
        self.team, self.number = team, number
        self.bell = threading.Lock()  # an Event's own lock would stay shut after an interrupt in its Python code
        self.bell.acquire()
        self.thread = threading.Thread(target=self._serve, name="handloom few rows", daemon=True)
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
        self.board = numbers[-numbers.ctypes.data % 64 // _INTEGER :][:_BOARD]  # from the beginning of a cache line
        self.board[_NEXT] = _PARTS
        self.at = self.board.ctypes.data
        self.helpers: list[_Helper] = []
        self.closed = False
        _help(self.board, self.at, 0, 0)  # compiled before a helper needs it

    def multiply(self, product: np.ndarray, helpers: int) -> None:
        wanted = 0 if self.closed else helpers
        self.board[_WANTED] = wanted
        if self.board[_AWAKE] < wanted:
            with contextlib.suppress(RuntimeError):  # no more threads can be had: those that there are will do
                while len(self.helpers) < wanted:
                    self.helpers.append(_Helper(self, len(self.helpers)))
            for helper in self.helpers[:wanted]:
                helper.wake()
        _lead(self.board, self.at, product)

    def close(self) -> None:
        """End the helpers, before the code that they run is gone."""
        self.closed = True
        self.board[_WANTED] = 0
        for helper in self.helpers:
            helper.wake()
            helper.thread.join()


_team: _Team | None = None
_founding = threading.Lock()


def multiply(x: np.ndarray, blocks: np.ndarray, bias: np.ndarray, y: np.ndarray, relu: bool = False) -> None:
    """y = x @ W^T + bias, or the ReLU of it, for W^T cut into blocks.

    Args:
        x: (rows, inner), at most MOST rows, contiguous; inner is a multiple of 4.
        blocks: (number, inner, WIDTH), contiguous: columns 0 to WIDTH - 1, and so on, padded.
        bias: (columns,), contiguous.
        y: (rows, columns), whose rows are contiguous.

    All are float32. The caller checks all this: here they become addresses.
    """
    product = np.zeros(_BOARD, np.int64)
    gemm = mkl.address() if len(x) > FEW else 0
    places = x.ctypes.data, blocks.ctypes.data, bias.ctypes.data, y.ctypes.data
    product[_ROWS : _GEMM + 1] = (*x.shape, len(blocks), y.shape[1], y.strides[0] // _FLOAT, *places, relu, gemm)
    _found().multiply(product, get_num_threads() - 1)


def usable() -> bool:
    """Whether Numba compiles; NUMBA_DISABLE_JIT=1 forbids it."""
    return not getattr(numba.config, "DISABLE_JIT", False)


def _found() -> _Team:
    global _team
    with _founding:
        if _team is None:
            _team = _Team()
        return _team


def _close() -> None:
    if _team is not None:
        _team.close()


def _forget() -> None:
    """In a forked child the helpers are gone."""
    global _team, _founding
    _team, _founding = None, threading.Lock()


atexit.register(_close)
if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_forget)
