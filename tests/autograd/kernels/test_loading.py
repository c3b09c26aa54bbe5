"""Kernel files become self-contained text."""

import sys

import pytest

from handloom.autograd import Tensor
from handloom.autograd.backend import DeviceError
from handloom.autograd.kernels.loading import compile_options, load_module, read_source


def test_headers_are_put_in_once_and_lines_keep_their_numbers(tmp_path) -> None:
    (tmp_path / "a.cuh").write_text("#pragma once\nint a;\n")
    (tmp_path / "b.cuh").write_text('#pragma once\n#include "a.cuh"\nint b;\n')
    (tmp_path / "k.cu").write_text('#include <cuda_fp16.h>\n#include "a.cuh"\n  #include "b.cuh"  // both\nint c;\n')
    text = read_source(tmp_path / "k.cu")
    assert [text.count(word) for word in ("int a;", "int b;", "int c;", "#pragma once", ".cuh>")] == [1, 1, 1, 0, 0]
    assert "#include <cuda_fp16.h>" in text
    lines = text.splitlines()
    assert lines[lines.index("int c;") - 1] == '#line 4 "k.cu"'
    assert lines[lines.index("int b;") - 1] == '#line 3 "b.cuh"'
    with pytest.raises(FileNotFoundError):
        read_source("no_such_kernel.cu")


def test_constants_become_options() -> None:
    assert compile_options({"N": 3, "CAUSAL": True}) == ("-std=c++17", "-DCAUSAL=1", "-DN=3")


def test_without_cupy_the_error_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match=r"pip install 'cupy-cuda13x\[ctk\]'"):
        load_module("ptx.cuh")
    with pytest.raises(DeviceError, match=r"pip install 'cupy-cuda13x\[ctk\]'.*without a GPU use device 'cpu'"):
        Tensor([1.0]).to("cuda:1")
