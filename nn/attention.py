"""Multi-head attention."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from ..autograd import Parameter, Tensor, ops
from ..kinds import checked
from . import init
from .linear import Linear
from .module import Module
from .positional import attention_positions
from .sparse import with_pattern


class AttentionCall(NamedTuple):
    """The inputs and results of one attention call, as NumPy arrays.

    Attributes:
        query, key, value: (batch, heads, length, head_dim), after rotary positions if the layer has them.
        settings: the other arguments of `ops.attention`, such as mask, key_lengths, causal and bias.
        weights: (batch, heads, query_length, key_length).
        output: (batch, heads, query_length, head_dim), before the output projection.
    """

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    settings: dict[str, Any]
    weights: np.ndarray
    output: np.ndarray


#: The observers of this thread, or asynchronous task: the names of a model's layers, and the function to call.
_observers: ContextVar[tuple[tuple[dict["MultiHeadAttention", str], Callable[[str, AttentionCall], None]], ...]]
_observers = ContextVar("observers", default=())


@checked
@contextmanager
def observe_attention(model: Module, observe: Callable[[str, AttentionCall], None]) -> Iterator[None]:
    """Call `observe(name, call)` at each call of a MultiHeadAttention of `model` inside the `with` block.

    `name` is the layer's first name, such as "encoder.layers.0.self_attn". Blocks can be nested, and can end in any
    order: every observer is called for each call. Calls in other threads or asynchronous tasks are not observed. Every
    attention method reports the weights before dropout. Therefore ValueError is raised if a layer with dropout is in
    training mode.
    """
    layers = _names(model)
    dropping = [name for layer, name in layers.items() if layer.training and layer.dropout]
    if dropping:
        raise ValueError(f"{dropping[0]} is in training mode with dropout; call eval() first")
    observer = layers, observe
    _observers.set((*_observers.get(), observer))
    try:
        yield
    finally:
        _observers.set(tuple(other for other in _observers.get() if other is not observer))


@checked
@contextmanager
def attention_maps(model: Module) -> Iterator[dict[str, list[np.ndarray]]]:
    """Collect the attention weights of all computations of `model` inside the `with` block, in this thread.

    Yields a dictionary that maps the name of each MultiHeadAttention, such as "encoder.layers.0.self_attn", to a list
    with one array (batch, heads, query_length, key_length) for each call. Every attention method reports weights.
    Raises ValueError as `observe_attention` does.
    """
    maps: dict[str, list[np.ndarray]] = {name: [] for name in _names(model).values()}
    with observe_attention(model, lambda name, call: maps[name].append(call.weights)):
        yield maps


def _names(model: Module) -> dict["MultiHeadAttention", str]:
    """Return the attention layers of a model, each once, with their first names."""
    names: dict[MultiHeadAttention, str] = {}
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            names.setdefault(module, name)
    return names


class MultiHeadAttention(Module):
    """Attention in `num_heads` subspaces. The output has the shape of the query, (batch, query_length, embed_dim).

    The parameters have the names of PyTorch's MultiheadAttention. `in_proj_weight` (3 embed_dim, embed_dim) consists of
    the query, key and value projections in this order, and `in_proj_bias` (3 embed_dim,) of their biases; `out_proj` is
    a Linear. The initial weights are Xavier uniform, the initial biases zero. `method` and the attribute
    `deterministic` are arguments of `ops.attention`. Source: arXiv 1706.03762, section 3.2.2.

    If `head_dim` is given, each projection has num_heads * head_dim features instead of embed_dim. `positions` is one
    of `ATTENTION_POSITIONS`: it determines how the scores of self-attention depend on positions. `pattern` is the
    pattern of self-attention, "full", "local:W" or "strided:S" (see `nn.sparse`). `rotary` is a dictionary of options
    of `nn.positional.RotaryPositions`.

    If `kv_heads` is less than `num_heads`, there are `kv_heads` heads of keys and values, each shared by a group of
    query heads (Ainslie et al. 2023, arXiv 2305.13245); `in_proj_weight` is then ((num_heads + 2 kv_heads) head_dim,
    embed_dim). `bias` says whether the three projections have biases, and `out_bias` whether `out_proj` has a bias. If
    `out_bias` is None, it equals `bias`.

    Raises ValueError for sizes below 1, if `embed_dim` is not divisible by `num_heads` and there is no `head_dim`, if
    `num_heads` is not divisible by `kv_heads`, or for an unknown pattern.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        method: str = "auto",
        head_dim: int | None = None,
        positions: str = "none",
        pattern: str = "full",
        kv_heads: int | None = None,
        rotary: Mapping[str, Any] | None = None,
        out_bias: bool | None = None,
    ):
        if min(size for size in (embed_dim, num_heads, kv_heads, head_dim) if size is not None) < 1:
            raise ValueError(f"sizes must be at least 1, not {embed_dim=}, {num_heads=}, {kv_heads=}, {head_dim=}")
        if head_dim is None and embed_dim % num_heads:
            raise ValueError(
                f"embed_dim {embed_dim} is not divisible by num_heads {num_heads}: choose another number of heads, or "
                "set head_dim"
            )
        self.embed_dim, self.num_heads, self.dropout, self.method = embed_dim, num_heads, dropout, method
        self.deterministic = False
        self.kv_heads = kv_heads or num_heads
        if num_heads % self.kv_heads:
            raise ValueError(f"num_heads {num_heads} is not divisible by kv_heads {kv_heads}")
        self.head_dim = head_dim or embed_dim // num_heads
        self.inner_dim = num_heads * self.head_dim
        projected = self.inner_dim + 2 * self.kv_heads * self.head_dim
        self.in_proj_weight = Parameter(np.empty((projected, embed_dim), np.float32))
        init.xavier_uniform_(self.in_proj_weight)
        self.in_proj_bias = Parameter(np.zeros(projected, np.float32)) if bias else None
        self.out_proj = Linear(self.inner_dim, embed_dim, bias if out_bias is None else out_bias)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)
        self.position_scores = with_pattern(pattern, attention_positions(positions, num_heads, self.head_dim, rotary))

    def forward(
        self,
        query: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Any = None,
        key_lengths: Any = None,
        causal: bool = False,
        return_weights: bool = False,
    ) -> Any:
        """Compute self-attention, or cross-attention to the encoder output `memory` (batch, key_length, embed_dim).

        Args:
            mask: boolean array that broadcasts to (batch, heads, query_length, key_length); True means that the query
                may attend to the key.
            key_lengths: (batch,), the number of keys of each batch row; later keys are padding.
            causal: whether a position attends only to itself and to earlier positions.
            return_weights: also return the weights (batch, heads, query_length, key_length); no weight is then dropped.
        """
        q, k, v = self._project(query, memory)
        by_position = {} if self.position_scores is None or memory is not None else self.position_scores.scores(q, k)
        pattern = by_position.pop("mask", None)
        if pattern is not None:
            mask = pattern if mask is None else pattern & mask
        settings = {**by_position, "mask": mask, "key_lengths": key_lengths, "causal": causal}
        observers = [(layers[self], observe) for layers, observe in _observers.get() if self in layers]
        with_weights = return_weights or bool(observers)
        attended: Any = ops.attention(
            q,
            k,
            v,
            **settings,
            dropout=self.dropout if self.training and not return_weights else 0.0,
            return_weights=with_weights,
            method=self.method,
            deterministic=self.deterministic,
        )
        weights: Any = None
        if with_weights:
            attended, weights = attended
        for name, observe in observers:
            group = self.num_heads // self.kv_heads  # report each head with the keys and values that it uses
            keys, values = (x.numpy() if group == 1 else x.numpy().repeat(group, axis=1) for x in (k, v))
            observe(name, AttentionCall(q.numpy(), keys, values, settings, weights.numpy(), attended.numpy()))
        out = self.out_proj(ops.merge_heads(attended))
        return (out, weights) if return_weights else out

    def _project(self, query: Tensor, memory: Tensor | None) -> tuple[Tensor, ...]:
        """Compute queries, keys and values (batch, heads, length, head_dim) by one product, or two for `memory`."""
        weight, bias, d = self.in_proj_weight, self.in_proj_bias, self.inner_dim
        if memory is None:
            projected = ops.linear(query, weight, bias)
            if self.kv_heads == self.num_heads:
                q, k, v = ops.split_heads(projected, self.num_heads, parts=3)
            else:
                queries, keys_values = ops.split(projected, [d], axis=-1)
                (q,) = ops.split_heads(queries, self.num_heads)
                k, v = ops.split_heads(keys_values, self.kv_heads, parts=2)
            if self.position_scores is not None:
                q, k = self.position_scores.rotate(q, k, 0)
            return q, k, v
        weights, biases = ops.split(weight, [d]), (None, None) if bias is None else ops.split(bias, [d])
        (q,) = ops.split_heads(ops.linear(query, weights[0], biases[0]), self.num_heads)
        k, v = ops.split_heads(ops.linear(memory, weights[1], biases[1]), self.kv_heads, parts=2)
        return q, k, v

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, {self.num_heads}, dropout={self.dropout}"
