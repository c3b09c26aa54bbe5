"""On older GPUs or with an incomplete CUDA installation, ops give correct results or raise an error of one line."""

import itertools
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from handloom.autograd import Generator, ops
from handloom.autograd.backend import DeviceError, check_device, to_device, use_device
from handloom.nn import Linear
from tests.support.attention_cases import RESTRICTIONS, Case
from tests.support.fake_cupy import another_gpu, kernels

NO_HEADERS = RuntimeError("Failed to find CUDA headers\nand more words.")


def one_line(error: Any) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_attention_runs_below_compute_capability_8(fake_cupy) -> None:
    case = Case(1, (61, 97), (32, 32), frozenset(RESTRICTIONS))
    with another_gpu("75"):
        case.check(np.float16, method="auto", device="cuda")
        assert not any(name.startswith("attention") for name in kernels.launches)


def test_the_fused_method_is_refused_below_compute_capability_8(fake_cupy) -> None:
    x = fake_cupy.zeros((1, 1, 2, 4), np.float16)
    with another_gpu("70"), pytest.raises(ValueError, match="'fused' can't be used") as error:
        ops.attention(x, x, x, method="fused")
    said = one_line(error)
    for word in ("8.0", "7.0", "'auto'"):
        assert word in said
    with another_gpu("120"):
        ops.attention(x, x, x, method="fused")


def test_kernels_run_on_the_gpu_of_their_arrays_or_say_so(fake_cupy, monkeypatch) -> None:
    monkeypatch.setattr(fake_cupy.cuda.runtime, "getDeviceCount", lambda: 2)
    x, vector = (to_device(np.ones(shape, np.float16), "cuda:1") for shape in ((3, 8), 8))
    assert x.device.id == 1
    with pytest.raises(DeviceError, match=r"on cuda:1, but .* on cuda:0: call .*use_device\('cuda:1'\)") as error:
        ops.layer_norm(x, vector, vector)
    one_line(error)
    use_device("cuda:1")
    assert ops.layer_norm(x, vector, vector).data.device.id == 1
    generator = Generator()
    for device in ("cuda:0", "cuda:1"):
        use_device(device)
        assert generator.next_call(to_device(np.ones(1), device))[0].device.id == int(device[-1])


def test_a_gpu_without_compiler_or_headers_is_refused_with_the_cure(fake_cupy) -> None:
    """This is the state after `pip install cupy-cuda13x`, without [ctk], on a machine that has only the driver."""
    with another_gpu(broken=NO_HEADERS):
        for use in (lambda: check_device("cuda"), lambda: Linear(2, 2).to("cuda")):
            with pytest.raises(DeviceError, match=r"'cuda:0'.*CUDA headers") as error:
                use()
            assert "pip install 'cupy-cuda13x[ctk]>=14'" in one_line(error)
    check_device("cuda")


def test_a_gpu_that_cuda_13_no_longer_serves_is_sent_to_cuda_12(fake_cupy) -> None:
    unknown = RuntimeError("nvrtc: error: invalid value for --gpu-architecture (-arch)")
    with another_gpu("70", broken=unknown), pytest.raises(DeviceError, match=r"7\.5 or later.*7\.0") as error:
        check_device("cuda")
    assert "pip install 'cupy-cuda12x[ctk]'" in one_line(error)


@pytest.mark.parametrize("raises", [False, True], ids=["as CuPy 14", "as CuPy 13"])
def test_a_driver_that_is_too_old_is_named(fake_cupy, monkeypatch, raises) -> None:
    broken = RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient") if raises else None
    monkeypatch.setattr(fake_cupy.cuda, "is_available", Mock(return_value=False, side_effect=broken))
    with pytest.raises(DeviceError, match="finds no usable NVIDIA GPU"):
        check_device("cuda")
    monkeypatch.setattr(fake_cupy.cuda.runtime, "driverGetVersion", lambda: 12040)
    with pytest.raises(DeviceError, match="CuPy is built for CUDA 13, but the driver supports only CUDA 12") as error:
        check_device("cuda")
    assert "cupy-cuda12x[ctk]" in one_line(error)


def test_every_call_of_dropout_draws_a_mask_of_its_own(fake_cupy) -> None:
    generator, x = Generator(3), fake_cupy.ones(4096, np.float16)
    masks = [ops.dropout(x, 0.5, generator=generator).data.get() != 0 for _ in range(3)]
    generator.begin_calls()
    masks.append(ops.dropout(x, 0.5, generator=generator).data.get() != 0)
    for one, other in itertools.combinations(masks, 2):
        assert 0.4 < (one == other).mean() < 0.6
