"""Faster implementations of decoding on a CPU.

The modules compute matrix products with few rows, attention of few queries, the largest logits, and norms and sums over
rows, in compiled code and on several threads. Importing this package registers all of them; otherwise `cached` and
`raw_layers` use NumPy. Modules that need Numba are imported when they are first used.
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


@replaces(raw_layers.layers_at_once)
def layers_at_once(decoder: Any) -> Any:
    if not decoder.output.compiled:
        return None
    from . import layers

    return layers.Layers(decoder) if layers.supported(decoder) else None


@replaces(raw_layers.screen_of)
def screen_of(output: PackedAffine) -> Any:
    if not output.compiled:
        return None
    from . import screening

    return screening.screen(output.weight.T, output.bias)
