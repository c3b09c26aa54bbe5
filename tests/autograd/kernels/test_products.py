"""Products by direct calls of cuBLAS: they are correct for all memory layouts, and a training step uses them.

The same cases run on the stand-in for CuPy and, with `pytest -m gpu`, on a GPU.
"""

import ctypes
import subprocess
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from handloom.autograd import Tensor, grad, ops
from handloom.autograd.backend import to_device
from handloom.autograd.kernels import products
from handloom.autograd.kernels.products import add_product, product
from tests.support.attention_cases import far_apart
from tests.support.fake_cupy import cublas, operations
from tests.support.fake_cupy.array import wrap

RNG = np.random.default_rng(0)
REAL_LOAD = products.load_cublas  # the stand-in replaces it


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float16)


HEADS = normal(3, 7, 4, 5)  # (batch, length, heads, features)
# Two functions that make the operands, views of all kinds, from device arrays, and these arrays.
STACKS = {
    "contiguous": (lambda x: x, lambda x: x.swapaxes(1, 2), normal(4, 3, 5), normal(4, 6, 5)),
    "heads, whose steps differ": (
        lambda x: x.transpose(0, 2, 1, 3), lambda x: x.transpose(0, 2, 3, 1), HEADS, HEADS,
    ),
    "heads cut from a wider array": (
        lambda x: x[..., 2:4, :].transpose(0, 2, 1, 3), lambda x: x[..., :2, :].transpose(0, 2, 3, 1), HEADS, HEADS,
    ),
    "one matrix for all": (lambda x: x, lambda x: x[None], normal(4, 3, 5), normal(5, 6)),
    "one for each first axis": (lambda x: x, lambda x: x, normal(2, 4, 3, 5), normal(2, 1, 5, 6)),
    "fewer axes": (lambda x: x, lambda x: x, normal(3, 5), normal(4, 5, 6)),
    "every second row": (lambda x: x[:, ::2], lambda x: x[:, :, ::2], normal(4, 6, 5), normal(4, 5, 8)),
    "turned round": (lambda x: x[:, ::-1], lambda x: x[::-1], normal(4, 6, 5), normal(4, 5, 8)),
    "one row, one column": (lambda x: x, lambda x: x, normal(4, 1, 5), normal(4, 5, 1)),
    "an inner axis of one": (lambda x: x, lambda x: x.swapaxes(1, 2), normal(4, 3, 1), normal(4, 6, 1)),
    "one matrix": (lambda x: x, lambda x: x, normal(1, 3, 5), normal(1, 5, 6)),
    "nothing to sum": (lambda x: x, lambda x: x, normal(4, 3, 0), normal(4, 0, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_of_products(name, cuda) -> None:
    left, right, x, y = STACKS[name]
    want = left(x).astype(np.float64) @ right(y).astype(np.float64)
    found = product(left(cuda.asarray(x)), right(cuda.asarray(y)))
    assert (found.dtype, found.shape) == (np.float16, want.shape)
    np.testing.assert_allclose(to_device(found, "cpu"), want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("turned", [False, True])
def test_rows_too_far_apart_for_the_library_are_copied(turned, fake_cupy) -> None:
    """cuBLAS has 32 bits for the number of elements from one row to the next."""
    x, y = far_apart(normal(2, 2, 3, 5))[0, 0], normal(3, 5)
    left, right = (x.T, y) if turned else (x, y.T)
    found = product(wrap(left), fake_cupy.asarray(right))
    np.testing.assert_allclose(found.get(), left.astype(np.float64) @ right, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("turned", [False, True])
def test_a_product_is_added_in_float32(turned, cuda) -> None:
    x, y, total = normal(9, 6), normal(9, 8), RNG.normal(size=(6, 8)).astype(np.float32)
    want = total + x.T.astype(np.float32) @ y.astype(np.float32)
    found, left = cuda.asarray(total), cuda.asarray(x).T
    add_product(found, cuda.ascontiguousarray(left) if turned else left, cuda.asarray(y))
    np.testing.assert_allclose(to_device(found, "cpu"), want, rtol=1e-5, atol=1e-5)


def test_no_product_is_left_to_cupy(fake_cupy) -> None:
    """Attention composed of products (weights requested, standard method) calls cuBLAS directly in both passes."""
    q, k, v = (Tensor(fake_cupy.asarray(normal(2, 3, 5, 8)), requires_grad=True) for _ in range(3))
    out = ops.matmul(ops.softmax(ops.matmul(q, ops.swapaxes(k, 2, 3))), v)
    grad(out, [q, k, v], fake_cupy.asarray(normal(2, 3, 5, 8)))
    assert [call[0] for call in cublas.calls] == ["gemmStridedBatchedEx"] * 6
    assert {call[4:] for call in cublas.calls} == {(6, "float16", "float16")}
    assert not [name for name in operations if name.startswith("matmul")]
    x, weight = (Tensor(fake_cupy.asarray(normal(*shape)), requires_grad=True) for shape in ((2, 3, 8), (5, 8)))
    grad(ops.linear(x, weight), [x, weight], fake_cupy.asarray(normal(2, 3, 5)))
    assert [call[0] for call in cublas.calls[6:]] == ["gemmEx"] * 3
    assert not [name for name in operations if name.startswith("matmul")]


@pytest.mark.parametrize("library", [True, False])
def test_gradients_that_meet_are_added_by_the_product(library, fake_cupy, monkeypatch) -> None:
    """A product with beta = 1 adds to a buffer without other owners, also for a weight used twice and in every pass."""
    if not library:
        monkeypatch.setattr(products, "load_cublas", lambda: None)
    x, first, second, g = normal(2, 3, 8), normal(8, 8), normal(8, 8), normal(2, 3, 8)

    def gradients(device: str, wide: type) -> list[np.ndarray]:
        tensors = [Tensor(to_device(a.astype(wide), device), requires_grad=True) for a in (x, first, second)]
        seen: list[tuple[int, ...]] = []
        tensors[0].register_hook(lambda gradient: seen.append(gradient.shape))
        hidden = ops.linear(tensors[0], tensors[1]) + ops.linear(tensors[0], tensors[2])
        out = ops.linear(hidden, tensors[1]) + hidden
        operations.clear()
        for _ in range(2):
            found = grad(out, tensors, to_device(g.astype(wide), device), retain_graph=True)
        assert seen == [x.shape] * 2
        return [tensor.numpy() for tensor in found]

    want = gradients("cpu", np.float64)
    for found, wanted in zip(gradients("cuda", np.float16), want, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=4e-3 * np.abs(wanted).max())
    if library:  # one in each pass, for the sum with g, which has another owner
        assert operations.count("add") == 2


#: A library that records its arguments, in order and as C receives them.
STUB = r"""
#include <stddef.h>
#define ARGUMENTS long long handle, int op_a, int op_b, int m, int n, int k, const float *alpha
double noted[64];
int count;
static void note(double x) { noted[count++] = x; }
int cublasCreate_v2(void **handle) { *handle = (void *)0x123456789abcLL; return 0; }
int cublasSetStream_v2(long long handle, long long stream) { note(handle), note(stream); return 0; }
int cublasSetWorkspace_v2(long long handle, long long p, size_t size) { note(handle), note(p), note(size); return 0; }
static void begin(ARGUMENTS) {
    count = 5, note(handle), note(op_a), note(op_b), note(m), note(n), note(k), note(*alpha);
}
int cublasGemmEx(ARGUMENTS, long long a, int a_type, int lda, long long b, int b_type, int ldb, const float *beta,
                 long long c, int c_type, int ldc, int compute, int algorithm) {
    begin(handle, op_a, op_b, m, n, k, alpha);
    note(a), note(a_type), note(lda), note(b), note(b_type), note(ldb), note(*beta), note(c), note(c_type), note(ldc);
    note(compute), note(algorithm);
    return 0;
}
int cublasGemmStridedBatchedEx(ARGUMENTS, long long a, int a_type, int lda, long long stride_a, long long b, int b_type,
                               int ldb, long long stride_b, const float *beta, long long c, int c_type, int ldc,
                               long long stride_c, int matrices, int compute, int algorithm) {
    begin(handle, op_a, op_b, m, n, k, alpha);
    note(a), note(a_type), note(lda), note(stride_a), note(b), note(b_type), note(ldb), note(stride_b), note(*beta);
    note(c), note(c_type), note(ldc), note(stride_c), note(matrices), note(compute), note(algorithm);
    return 0;
}
"""


def test_the_library_gets_every_argument_as_c_expects_it(fake_cupy, tmp_path, monkeypatch) -> None:
    """The library is that of CuPy's CUDA version, although another version is there as well."""
    (tmp_path / "stub.c").write_text(STUB)
    for version in (12, 13):
        name = f"libcublas.so.{version}"
        command = ["g++", "-x", "c", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", name, "stub.c"]
        subprocess.run(command, cwd=tmp_path, check=True)
    load = Mock(side_effect=lambda name: ctypes.CDLL(str(tmp_path / name)))
    monkeypatch.setattr(products, "ctypes", SimpleNamespace(**{**vars(ctypes), "CDLL": load}))
    monkeypatch.setattr(fake_cupy.cuda.runtime, "runtimeGetVersion", lambda: 12090)
    stream, handle = 0x7FEDCBA98760, 0x123456789ABC
    monkeypatch.setattr(fake_cupy.cuda, "get_current_stream", lambda: SimpleNamespace(ptr=stream))
    library = REAL_LOAD.__wrapped__()
    load.assert_called_once_with("libcublas.so.12")
    monkeypatch.setattr(products, "load_cublas", lambda: library)
    count = ctypes.c_int.in_dll(library, "count")

    def noted() -> list[float]:
        return list((ctypes.c_double * 64).in_dll(library, "noted")[: count.value])

    x, y, out = (fake_cupy.zeros(shape, np.float16) for shape in ((3, 4, 5), (3, 5, 6), (3, 4, 6)))
    pointers = [array.data.ptr for array in (y, x, out)]
    product(x, y, out, add=True)
    workspace = products._handle(fake_cupy, library, 0).workspace.data.ptr
    begin = [handle, stream, handle, workspace, products.WORKSPACE, handle, 0, 0, 6, 4, 5, 1.0]
    assert noted() == [
        *begin, pointers[0], 2, 6, 30, pointers[1], 2, 5, 20, 1.0, pointers[2], 2, 6, 24, 3, 68, -1,
    ]  # fmt: skip
    total = fake_cupy.zeros((4, 6), np.float32)
    add_product(total, x[0], y[0])
    assert noted() == [*begin, pointers[0], 2, 6, pointers[1], 2, 5, 1.0, total.data.ptr, 0, 6, 68, -1]


def test_a_failure_says_its_status(fake_cupy, monkeypatch) -> None:
    monkeypatch.setattr(cublas.FakeCublas, "cublasGemmStridedBatchedEx", lambda *_: 13)
    with pytest.raises(RuntimeError, match="cublasGemmStridedBatchedEx failed with status 13"):
        product(fake_cupy.asarray(normal(2, 3, 4)), fake_cupy.asarray(normal(2, 4, 5)))
