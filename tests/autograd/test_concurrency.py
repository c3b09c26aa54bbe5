"""Threads, asynchronous tasks, forks and signal handlers: each has its modes and observers, and none waits for ever.

No verdict depends on the clock: barriers and events fix the order, and a test that would hang is ended by an alarm.
"""

import asyncio
import os
import signal
import sys
import threading
import warnings
from typing import Any

import numpy as np
import pytest

from handloom.autograd import (
    Tensor,
    bfloat16_products,
    detect_anomaly,
    enable_grad,
    grad,
    is_grad_enabled,
    no_grad,
    ops,
)
from handloom.autograd import changes as changes_module
from handloom.autograd.bfloat16 import rounds
from handloom.autograd.ops.registry import is_plain, plain
from handloom.autograd.origin import leaf_lock
from handloom.autograd.random import default_generator
from handloom.nn import MultiHeadAttention, attention_maps
from tests.support.work import in_threads

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def test_one_object_switches_each_thread_for_itself() -> None:
    """Two threads are in the block of one no_grad object at the same time, and leave it in the order of entering."""
    switch, entered, left = no_grad(), threading.Barrier(2), threading.Event()
    seen: dict[str, list[bool]] = {"first": [], "second": []}

    def first() -> None:
        with switch:
            entered.wait()
            seen["first"].append(is_grad_enabled())
        seen["first"].append(is_grad_enabled())
        left.set()

    def second() -> None:
        with enable_grad(), switch:
            entered.wait()
            left.wait()
            seen["second"].append(is_grad_enabled())
        seen["second"].append(is_grad_enabled())

    in_threads(first, second)
    assert seen == {"first": [False, True], "second": [False, True]}


def test_each_asynchronous_task_has_its_own_mode() -> None:
    async def without(inside: asyncio.Event, done: asyncio.Event) -> bool:
        with no_grad():
            inside.set()
            await done.wait()
            return is_grad_enabled()

    async def main() -> tuple[bool, bool]:
        inside, done = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(without(inside, done))
        await inside.wait()
        here = is_grad_enabled()
        done.set()
        return here, await task

    assert asyncio.run(main()) == (True, False)


def test_blocks_that_end_in_another_order_leave_the_mode_as_it_was() -> None:
    first, second = no_grad(), no_grad()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not is_grad_enabled()
    second.__exit__(None, None, None)
    assert is_grad_enabled()


@pytest.mark.parametrize("switch", [plain, bfloat16_products, enable_grad])
def test_a_generator_that_ends_in_another_block_or_thread_changes_no_other_mode(switch) -> None:
    def batches() -> Any:
        with switch():
            yield

    def modes() -> list[bool]:
        return [is_grad_enabled(), is_plain(), rounds()]

    before = modes()
    for _ in range(2):
        opened = batches()
        next(opened)
        with no_grad():
            opened.close()
            assert not is_grad_enabled() or switch is enable_grad
        assert modes() == before
    opened, seen = batches(), []
    in_threads(lambda: next(opened))
    in_threads(lambda: (opened.close(), seen.extend(modes())))
    assert seen == before


@pytest.mark.parametrize("decorator", [no_grad, enable_grad, plain, detect_anomaly])
def test_functions_whose_body_runs_later_are_refused(decorator) -> None:
    def generator() -> Any:
        yield

    async def coroutine() -> None:
        pass

    async def asynchronous_generator() -> Any:
        yield

    for function in (generator, coroutine, asynchronous_generator):
        with pytest.raises(TypeError, match=f"{decorator.__name__} can't decorate {function.__name__}, a generator or"):
            decorator()(function)


def test_attention_maps_end_in_any_order_and_belong_to_their_block() -> None:
    layer = MultiHeadAttention(8, 2).eval()
    x, y, z = (Tensor(np.random.default_rng(i).standard_normal((1, 3, 8)).astype(np.float32)) for i in range(3))
    a, b = attention_maps(layer), attention_maps(layer)
    of_a, of_b = a.__enter__(), b.__enter__()
    layer(x)
    a.__exit__(None, None, None)
    layer(y)
    b.__exit__(None, None, None)
    layer(z)
    expected = [layer(q, return_weights=True)[1].data for q in (x, y)]
    np.testing.assert_array_equal(of_a[""], expected[:1])
    np.testing.assert_array_equal(of_b[""], expected)


def test_threads_that_record_maps_draw_and_differentiate_get_what_one_thread_gets() -> None:
    """Several threads use one layer: with maps, without them, without gradients and with gradients."""
    layer, workers, rounds = MultiHeadAttention(8, 2).eval(), 4, 12
    barrier, failures = threading.Barrier(workers), []
    inputs = [np.random.default_rng(i).standard_normal((1, 2 + i, 8)).astype(np.float32) for i in range(workers)]
    weights = [layer(Tensor(x), return_weights=True)[1].data for x in inputs]
    outs = [layer(Tensor(x)).data for x in inputs]
    switch = no_grad()

    def work(number: int) -> None:
        x = Tensor(inputs[number])
        barrier.wait()
        for index in range(rounds):
            default_generator.numpy.random(3)
            if (number + index) % 2:
                with switch, attention_maps(layer) as maps:
                    found = layer(x)
                good = len(maps[""]) == 1 and np.array_equal(maps[""][0], weights[number]) and not found.requires_grad
            else:
                found = layer(x)
                good = found.requires_grad and grad(found.sum(), [layer.in_proj_weight])[0].shape == (24, 8)
            if not (good and np.allclose(found.data, outs[number], atol=1e-6)):
                failures.append((number, index))

    in_threads(*(lambda number=number: work(number) for number in range(workers)))
    assert not failures


def forked(function: Any) -> int:
    """Return the exit code of a forked process that calls `function`. An alarm ends one that hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer versions of Python warn of threads at a fork
        child = os.fork()
    if not child:
        signal.alarm(60)
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@posix
def test_a_fork_waits_until_another_thread_has_drawn() -> None:
    """The forked process can draw, take gradients and note changes; it draws what its parent draws."""
    drawing, forking = threading.Event(), threading.Event()
    state = default_generator.get_state()

    def draw(bits: Any) -> None:
        drawing.set()
        forking.wait()

    def use_everything() -> None:
        x = Tensor(np.ones((3, 2)), requires_grad=True)
        ops.embedding(np.array([1, 1]), x).sum().backward()
        x.mark_changed()
        assert x.grad is not None
        assert default_generator.numpy.random() == expected

    expected = default_generator.numpy.random()
    default_generator.set_state(state)
    thread = threading.Thread(target=lambda: default_generator.draw(draw))
    thread.start()
    drawing.wait()
    os.register_at_fork(before=forking.set)  # runs first: handlers run in the reverse order of their registration
    code = forked(use_everything)
    thread.join()
    assert code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_a_signal_handler_may_read_a_gradient_and_note_a_change() -> None:
    """The handler runs while the main thread holds each lock, and while it looks for changes."""
    table = Tensor(np.ones((3, 2)), requires_grad=True)

    def handler(*_: Any) -> None:
        ops.embedding(np.array([1, 1]), table).sum().backward()
        assert table.grad is not None
        table.mark_changed()
        default_generator.numpy.random()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        for lock in (leaf_lock, changes_module._lock):
            with lock:
                signal.raise_signal(signal.SIGUSR1)

        def interrupted(_: Any) -> None:
            signal.raise_signal(signal.SIGUSR1)

        default_generator.draw(interrupted)
        table.data[...] = 2
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert table.grad is not None
    np.testing.assert_array_equal(table.grad[1], [6, 6])
