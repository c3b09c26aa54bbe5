"""Tensors in the library einops."""

from typing import Any

from ..autograd import Tensor, ops


def use_einops() -> None:
    """Make einops accept Tensors in rearrange, reduce, repeat, einsum, ... Raises ImportError without einops."""
    from einops._backends import AbstractBackend

    class HandloomBackend(AbstractBackend):  # einops finds the subclasses of its class
        framework_name = __name__.partition(".")[0]
        is_appropriate_type = staticmethod(lambda tensor: isinstance(tensor, Tensor))
        from_numpy, to_numpy = staticmethod(Tensor), staticmethod(Tensor.numpy)
        arange, einsum, tile = staticmethod(ops.arange), staticmethod(ops.einsum), staticmethod(ops.tile)
        add_axis, concat = staticmethod(ops.expand_dims), staticmethod(ops.concatenate)
        stack_on_zeroth_dimension = staticmethod(ops.stack)
        is_float_type = staticmethod(lambda x: x.dtype.kind == "f")

    _kept.append(HandloomBackend)


_kept: list[Any] = []  # the class must not be collected
