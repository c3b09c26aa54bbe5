"""Faster implementations of decoding on a CPU.

The modules compute matrix products with few rows, attention of few queries, the largest logits, and norms and sums over
rows, in compiled code and on several threads. Importing this package registers all of them; otherwise `cached` and
`raw_layers` use NumPy. Modules that need Numba are imported when they are first used.
"""

from typing import Any

from ....autograd.quick import replaces
from .. import raw_layers
from . import affine, rows


@replaces(raw_layers.quick_parts)
def quick_parts(decoder: Any) -> tuple[Any, Any, Any]:
    if decoder.output.blocks is None:
        return None, None, None
    from . import few_queries, layers, screening

    return few_queries.attend, layers.Layers if layers.supported(decoder) else None, screening.screen
