"""Faster implementations of decoding on a CPU.

It contains products of few rows and attention of few queries on a team of threads, screening of the vocabulary, and
compiled passes over rows. Importing it registers them all; without it `cached` and `raw_layers` decode with NumPy.
Modules that need Numba are imported on first use.
"""

from typing import Any

from ....autograd.quick import replaces
from .. import raw_layers
from . import affine, rows
from .affine import PackedAffine


@replaces(raw_layers.attend_few)
def attend_few(output: PackedAffine, q: Any, keys: Any, values: Any, bias: Any) -> Any:
    if not output.compiled:
        return None
    from . import few_queries

    return few_queries.attend(q, keys, values, bias)


@replaces(raw_layers.screen_of)
def screen_of(output: PackedAffine) -> Any:
    if not output.compiled:
        return None
    from . import screening

    return screening.screen(output.weight.T, output.bias)
