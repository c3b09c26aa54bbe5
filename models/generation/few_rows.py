"""Products of few rows with large weights, on threads that wait for one another in compiled code.

A decoding step has dozens of products, each of which takes one thread 50 microseconds to 10 milliseconds. Dividing them
by `autograd.parallel` costs up to half of what it gains: its threads sleep between jobs, which takes 40 to 300
microseconds to end on a virtual machine, and they meet at Python's lock. The helpers here stay in a compiled loop for
some milliseconds after a product, without the lock. Each product is cut into parts, and whoever is free takes the next,
so that a helper that is asleep, or has no processor, delays nobody.

What they share is the board, an array of integers: what to multiply, the number of the next part, how many are
finished. The last two are read and written by the processor's atomic instructions, for which Numba has no functions of
its own. A helper reads the product only after it has taken one of its parts, and the caller neither returns nor writes
another product before all parts are finished.

Needs Numba (the extra `fast`) and MKL (`mkl`).
"""

from __future__ import annotations

import atexit
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
_PATIENCE = 10_000  # times that a helper looks for work and lets others have its processor, before it sleeps: some ms

# The board's indices: those that several threads write lie in cache lines (8 numbers) of their own.
_NEXT, _FINISHED, _HELPERS, _CLOSING, _PRODUCT = 0, 8, 16, 24, 32
_ROWS, _INNER, _BLOCKS, _COLUMNS, _STEP, _X, _WEIGHTS, _BIAS, _Y, _RELU, _GEMM = range(_PRODUCT, _PRODUCT + 11)
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
        m, n, k, a_step, b_step, c_step = (
            builder.trunc(one, number) for one in (*sizes, a_step, b_step, c_step)
        )
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
def _lead(board, at, scratch):
    """Compute the product that was written on the board, with the helpers that are there."""
    _store(at + _FINISHED * _INTEGER, 0)
    _store(at + _NEXT * _INTEGER, 0)
    _work(board, at, scratch)
    while _load(at + _FINISHED * _INTEGER) < _PARTS:
        _let_others_run()


@fused
def _help(board, at, scratch, patience):
    """A helper's work, until there has been none for a while."""
    _add(at + _HELPERS * _INTEGER, 1)
    idle = 0
    while idle < patience and not _load(at + _CLOSING * _INTEGER):
        idle = 0 if _work(board, at, scratch) else idle + 1
        _let_others_run()
    _add(at + _HELPERS * _INTEGER, -1)


class _Team:
    """The caller's board and its helpers, threads that sleep when there is nothing to do."""

    def __init__(self) -> None:
        numbers = np.zeros(64 + 8, np.int64)
        self.board = numbers[-numbers.ctypes.data % 64 // _INTEGER :][:64]  # from the beginning of a cache line
        self.board[_NEXT] = _PARTS
        self.at = self.board.ctypes.data
        self.scratch = np.empty(MOST * WIDTH, np.float32)
        self.turn = threading.Lock()
        self.wake: list[threading.Event] = []
        self.helpers: list[threading.Thread] = []
        _help(self.board, self.at, self.scratch, 0)  # compiled before a helper needs it

    def multiply(self, product: tuple[int, ...], helpers: int) -> None:
        self.board[_PRODUCT : _PRODUCT + len(product)] = product
        if self.board[_HELPERS] < helpers:
            while len(self.helpers) < helpers:
                self._add_helper()
            for wake in self.wake[:helpers]:
                wake.set()
        _lead(self.board, self.at, self.scratch)

    def _add_helper(self) -> None:
        wake = threading.Event()
        helper = threading.Thread(target=self._wait, args=(wake,), name="handloom few rows", daemon=True)
        self.wake.append(wake)
        self.helpers.append(helper)
        helper.start()

    def _wait(self, wake: threading.Event) -> None:
        scratch = np.empty(MOST * WIDTH, np.float32)
        while not self.board[_CLOSING]:
            wake.wait()
            wake.clear()
            _help(self.board, self.at, scratch, _PATIENCE)

    def close(self) -> None:
        """End the helpers; they would read the board when it is gone."""
        self.board[_CLOSING] = 1
        for wake, helper in zip(self.wake, self.helpers, strict=True):
            wake.set()
            helper.join()


_team: _Team | None = None
_founding = threading.Lock()


def multiply(x: np.ndarray, blocks: np.ndarray, bias: np.ndarray, y: np.ndarray, relu: bool = False) -> None:
    """y = x @ W^T + bias, or the ReLU of it, for W^T cut into blocks.

    Args:
        x: (rows, inner), at most MOST rows, contiguous; inner is a multiple of 4.
        blocks: (number, inner, WIDTH), contiguous: columns 0 to WIDTH - 1, and so on, padded.
        bias: (columns,).
        y: (rows, columns), whose rows are contiguous.

    All are float32.
    """
    gemm = mkl.address() if len(x) > FEW else 0
    places = x.ctypes.data, blocks.ctypes.data, bias.ctypes.data, y.ctypes.data
    product = (*x.shape, len(blocks), y.shape[1], y.strides[0] // _FLOAT, *places, int(relu), gemm)
    team = _found()
    if team.turn.acquire(blocking=False):
        try:
            team.multiply(product, get_num_threads() - 1)
        finally:
            team.turn.release()
    else:  # another thread of the program is using it
        _Team().multiply(product, 0)


def _found() -> _Team:
    global _team
    with _founding:
        if _team is None:
            _team = _Team()
        return _team


def _close() -> None:
    global _team
    team, _team = _team, None
    if team is not None:
        team.close()


def _forget() -> None:
    """In a forked child the helpers are gone."""
    global _team, _founding
    _team, _founding = None, threading.Lock()


atexit.register(_close)
if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_forget)
