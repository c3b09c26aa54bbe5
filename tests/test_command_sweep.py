"""A selection of the command lines of `tests.command_sweep`: over the three kinds of tasks, some of each group."""

from __future__ import annotations

import pytest

from tests.command_sweep import EXAMPLES, GROUPS, World

pytestmark = pytest.mark.slow

PROGRAMS = ("translate_de_en", "classify_news", "generate_text")
#: Of each group every so many; those that train or evaluate cost most.
EVERY = {"values": 29, "uses": 13, "texts": 9, "data": 9, "run_files": 17, "programs": 9}


def test_a_selection(tmp_path) -> None:
    world, wrong, tried = World(tmp_path, PROGRAMS), [], 0
    for name, group in GROUPS.items():
        cases = [case for case in group() if case.program in PROGRAMS or case.program not in EXAMPLES]
        for case in cases[:: EVERY[name]]:
            problem, tried = world.judge(case), tried + 1
            wrong += [f"{case}: {problem}"] if problem else []
    assert not wrong, "\n".join(wrong)
    assert tried > 60
