"""Settings that every test shares: hypothesis profiles and a non-interactive plotting backend."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import matplotlib
import pytest
from hypothesis import HealthCheck, settings

from tests.support.fake_cupy import installed

matplotlib.use("Agg")

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "derandomize": True}
settings.register_profile("default", max_examples=25, **_COMMON)
settings.register_profile("thorough", max_examples=250, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def fake_cupy() -> Iterator[Any]:
    """`import cupy` finds the stand-in; device "cuda" can be used."""
    with installed() as cupy:
        yield cupy
