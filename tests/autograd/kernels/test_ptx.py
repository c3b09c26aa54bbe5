"""The inline PTX does what the emulator's twins do; a changed text is noticed."""

from __future__ import annotations

import pytest

from handloom.autograd.kernels.loading import read_source
from tests.support.cuda_emulator import compiler_missing
from tests.support.ptx import asm_statements
from tests.support.ptx_twins import compare

pytestmark = pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing()))


def test_every_instruction_does_what_its_twin_does() -> None:
    compare()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".x4.trans.shared", ".x4.shared"),
        (".x4.shared", ".x4.trans.shared"),
        ("x2.trans.shared.b16 {%0, %1}", "x2.trans.shared.b16 {%1, %0}"),
        ("{%4, %5, %6, %7}", "{%4, %6, %5, %7}"),
        ("m16n8k16.row.col.f32", "m16n8k8.row.col.f32"),
        ('"r"(b0), "r"(b1)', '"r"(b1), "r"(b0)'),
        ('"+f"(accumulator[0])', '"=f"(accumulator[0])'),
        ("[%0], [%1], 16, %2", "[%0], [%1], 16, 16"),
        ("wait_group %0", "wait_group 1"),
        ('commit_group;\\n" ::: "memory"', 'commit_group;\\n"'),
        ('asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared', 'asm("ldmatrix.sync.aligned.m8n8.x4.shared'),
    ],
)
def test_a_changed_instruction_is_noticed(old, new) -> None:
    source = read_source("ptx.cuh")
    assert source.count(old) == 1
    with pytest.raises(AssertionError):
        compare(source.replace(old, new))


def test_statements_are_read_as_they_stand() -> None:
    statement = asm_statements(
        '__device__ __forceinline__ void f(unsigned (&x)[2], int y) {\n#ifdef __CUDA_ARCH__\n'
        '    asm volatile("one.two {%0, %1}, "\n "[%2];\\n" : "=r"(x[0]), "+r"(x[1]) : "r"(g(y)) : "memory");\n#else\n'
    )["f"]
    assert statement.text == "one.two {%0, %1}, [%2];\n"
    assert statement.outputs == [("=r", "x[0]"), ("+r", "x[1]")]
    assert (statement.inputs, statement.clobbers, statement.volatile) == ([("r", "g(y)")], {"memory"}, True)
