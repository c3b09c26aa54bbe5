"""A selection of the command lines of `tests.command_sweep`: over the three kinds of tasks, some of each group."""

from __future__ import annotations

import pytest

from tests.command_sweep import EXAMPLES, GROUPS, World

pytestmark = pytest.mark.slow

PROGRAMS = ("translate_de_en", "classify_news", "generate_text")
UNTRAINED = {*EXAMPLES} - {*PROGRAMS}
#: Of each group every so many; those that train or evaluate cost most.
EVERY = {"runs": 5, "texts": 9, "data": 9, "run_files": 9}


def test_a_selection(tmp_path) -> None:
    world = World(tmp_path, PROGRAMS)
    wrong, tried = [], 0
    for name, group in GROUPS.items():
        cases = [case for program in PROGRAMS for case in group(program) if not {*case.arguments} & UNTRAINED]
        for case in cases[:: EVERY[name]]:
            problem, tried = world.judge(case), tried + 1
            wrong += [f"{case}: {problem}"] if problem else []
    assert not wrong, "\n".join(wrong)
    assert tried > 30
