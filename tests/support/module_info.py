"""Runs handloom's layers on the inputs that PyTorch tests its own with (its ModuleInfo database) and compares.

    python -m tests.support.module_info        # the report: counts, what was changed or left out and why

Both layers get the same random weights, through PyTorch's state dict. Outputs and, for a random output gradient, the
gradients of all inputs and parameters are compared in float64. Needs torch, expecttest and scipy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from handloom import nn
from handloom.autograd import Tensor, grad, ops
from tests.support.opinfo import as_list, converted, difference, leaves, torch_at_rest

BATCH = "the input becomes a batch of one"
LENGTH_FIRST = "(length, batch, features) becomes (batch, length, features)"
CLASSES_SECOND = "(batch, classes, ...) becomes (batch, ..., classes)"
ONE_MEMORY = "keys and values are the same tensor (both libraries get the keys)"
CAUSAL = "decoders are causal (PyTorch gets the causal mask beside the sample's own)"
NO_BIAS = "biases, or a layer norm's weights, that PyTorch leaves out are zeros, or ones"


class LeftOutError(Exception):
    """The sample can't be compared; the message is the reason."""


@dataclass
class Pair:
    """One sample's layer in both libraries. The functions take the sample's inputs, in PyTorch's layout."""

    module: nn.Module
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    changes: list[str] = field(default_factory=list)


@dataclass
class Tally:
    """Counts over the samples of one layer, or of all."""

    samples: int = 0
    compared: int = 0
    error_inputs: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


# -- conventions -----------------------------------------------------------------------------------------------------


def layout(shape: tuple[int, ...], batch_first: bool) -> tuple[Callable[[Any], Any], Callable[[Any], Any], list[str]]:
    """Functions to (batch, length, features) and back, and the names of these changes."""
    if len(shape) == 2:
        return (lambda x: x.reshape((1, *x.shape))), (lambda x: x.reshape(x.shape[1:])), [BATCH]
    if batch_first:
        return (lambda x: x), (lambda x: x), []
    return (lambda x: x.swapaxes(0, 1)), (lambda x: x.swapaxes(0, 1)), [LENGTH_FIRST]


def lengths(keys: Tensor, padding: Any, mask: Any = None) -> Any:
    """(batch,) lengths of keys (batch, length, features). A mask that is the same for every query is padding too."""
    if padding is None and mask is None:
        return None
    blocked = np.zeros(keys.shape[:2], bool) if padding is None else np.broadcast_to(padding, keys.shape[:2])
    if mask is not None:
        if (mask != mask[:1]).any():
            raise LeftOutError("a decoder takes no mask of queries and keys beside the causal one")
        blocked = blocked | mask[0]
    counts = (~blocked).sum(axis=1)
    if (blocked != (np.arange(keys.shape[1]) >= counts[:, None])).any():
        raise LeftOutError("padding is at the end only")
    return counts


def causal(mask: torch.Tensor | None, length: int) -> torch.Tensor:
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    return future if mask is None else future | mask


def allowed(mask: Any) -> Any:
    return None if mask is None else ~mask


# -- one pair for each layer -----------------------------------------------------------------------------------------


def linear(peer: Any, sample: Any) -> Pair:
    module = nn.Linear(peer.in_features, peer.out_features, peer.bias is not None)
    return Pair(module, lambda input: module(input), peer)  # noqa: A006  (PyTorch's name of the argument)


def embedding(peer: Any, sample: Any) -> Pair:
    module = nn.Embedding(peer.num_embeddings, peer.embedding_dim, peer.padding_idx)
    return Pair(module, module, peer)


def layer_norm(peer: Any, sample: Any) -> Pair:
    if len(peer.normalized_shape) > 1:
        raise LeftOutError("LayerNorm normalises one axis")
    module = nn.LayerNorm(*peer.normalized_shape, peer.eps)
    return Pair(module, module, peer)


def cross_entropy_loss(weight: Any = None, **options: Any) -> Callable[..., Any]:
    """PyTorch's layer; handloom has the op alone."""
    return partial(ops.cross_entropy, weight=weight, **options)


def rms_norm(peer: Any, sample: Any) -> Pair:
    module = nn.RMSNorm(peer.normalized_shape, peer.eps, peer.elementwise_affine)
    return Pair(module, module, peer)


def cross_entropy(peer: Any, sample: Any) -> Pair:
    weight = None if peer.weight is None else peer.weight.numpy()
    loss = cross_entropy_loss(
        weight, ignore_index=peer.ignore_index, reduction=peer.reduction, label_smoothing=peer.label_smoothing
    )

    def ours(logits: Tensor, target: Any) -> Tensor:
        if logits.ndim > 2:
            last = (0, *range(2, logits.ndim), 1)
            target = target.transpose(last) if target.ndim == logits.ndim else target
            logits = logits.transpose(last)
        return loss(logits, target)

    return Pair(nn.Module(), ours, peer, [CLASSES_SECOND] if sample.forward_input.args[0].ndim > 2 else [])


def attention(peer: Any, sample: Any) -> Pair:
    if peer.bias_k is not None or peer.add_zero_attn:
        raise LeftOutError("attention adds no further keys (add_bias_kv, add_zero_attn)")
    module = nn.MultiHeadAttention(peer.embed_dim, peer.num_heads, peer.dropout, peer.in_proj_bias is not None)
    to, back, changes = layout(sample.forward_input.args[0].shape, peer.batch_first)

    def ours(query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Any = None, attn_mask: Any = None) -> Any:
        q, k = to(query), to(key)
        mask = None if attn_mask is None else ~attn_mask.reshape(q.shape[0], -1, *attn_mask.shape[1:])
        out, weights = module(q, k, mask=mask, key_lengths=lengths(k, key_padding_mask), return_weights=True)
        mean = weights.mean(axis=1)
        return back(out), mean if query.ndim == 3 else mean[0]

    return Pair(module, ours, lambda query, key, value, **kw: peer(query, key, key, **kw), [*changes, ONE_MEMORY])


def layer(kind: type, peer: Any) -> Any:
    """handloom's encoder or decoder layer with the options of PyTorch's."""
    activation = "relu" if peer.activation is torch.nn.functional.relu else peer.activation.__name__
    sizes = peer.self_attn.embed_dim, peer.self_attn.num_heads, peer.linear1.out_features
    return kind(*sizes, peer.dropout.p, activation, peer.norm_first, peer.norm1.eps)


def encoder_layer(peer: Any, sample: Any) -> Pair:
    return encoder_pair(layer(nn.TransformerEncoderLayer, peer), peer, peer, sample)


def encoder(peer: Any, sample: Any) -> Pair:
    module = nn.TransformerEncoder([layer(nn.TransformerEncoderLayer, part) for part in peer.layers])
    return encoder_pair(module, peer, peer.layers[0], sample)


def encoder_pair(module: Any, peer: Any, first: Any, sample: Any) -> Pair:
    to, back, changes = layout(sample.forward_input.args[0].shape, first.self_attn.batch_first)

    def ours(src: Tensor, src_mask: Any = None, mask: Any = None, src_key_padding_mask: Any = None) -> Tensor:
        x = to(src)
        mask = allowed(mask if src_mask is None else src_mask)
        return back(module(x, mask=mask, lengths=lengths(x, src_key_padding_mask)))

    return Pair(module, ours, peer, changes)


def decoder_layer(peer: Any, sample: Any) -> Pair:
    module = layer(nn.TransformerDecoderLayer, peer)
    to, back, changes = layout(sample.forward_input.args[0].shape, peer.self_attn.batch_first)

    def ours(
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
    ) -> Tensor:
        x, m = to(tgt), to(memory)
        own, cross = lengths(x, tgt_key_padding_mask, tgt_mask), lengths(m, memory_key_padding_mask, memory_mask)
        return back(module(x, m, lengths=own, memory_lengths=cross))

    def theirs(tgt: torch.Tensor, memory: torch.Tensor, tgt_mask: Any = None, **masks: Any) -> torch.Tensor:
        return peer(tgt, memory, tgt_mask=causal(tgt_mask, to(tgt).shape[1]), **masks)

    return Pair(module, ours, theirs, [*changes, CAUSAL])


class EncoderDecoder(nn.Module):
    """PyTorch's Transformer: an encoder and a decoder, each with a final norm."""

    def __init__(self, peer: Any):
        stacks = (
            (nn.TransformerEncoder, nn.TransformerEncoderLayer),
            (nn.TransformerDecoder, nn.TransformerDecoderLayer),
        )
        self.encoder, self.decoder = (
            stack([layer(kind, part) for part in theirs.layers], nn.LayerNorm(peer.d_model, theirs.norm.eps))
            for (stack, kind), theirs in zip(stacks, (peer.encoder, peer.decoder), strict=True)
        )


def transformer(peer: Any, sample: Any) -> Pair:
    module = EncoderDecoder(peer)
    to, back, changes = layout(sample.forward_input.args[0].shape, peer.batch_first)

    def ours(
        src: Tensor,
        tgt: Tensor,
        src_mask: Any = None,
        tgt_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
    ) -> Tensor:
        s, t = to(src), to(tgt)
        memory = module.encoder(s, mask=allowed(src_mask), lengths=lengths(s, src_key_padding_mask))
        return back(module.decoder(t, memory, lengths=lengths(t, tgt_key_padding_mask, tgt_mask)))

    def theirs(src: torch.Tensor, tgt: torch.Tensor, tgt_mask: Any = None, **masks: Any) -> torch.Tensor:
        return peer(src, tgt, tgt_mask=causal(tgt_mask, to(tgt).shape[1]), **masks)

    return Pair(module, ours, theirs, [*changes, CAUSAL])


LAYERS: dict[str, Callable[[Any, Any], Pair]] = {
    "Linear": linear,
    "Embedding": embedding,
    "LayerNorm": layer_norm,
    "RMSNorm": rms_norm,
    "CrossEntropyLoss": cross_entropy,
    "MultiheadAttention": attention,
    "TransformerEncoderLayer": encoder_layer,
    "TransformerDecoderLayer": decoder_layer,
    "TransformerEncoder": encoder,
    "Transformer": transformer,
}


# -- comparing -------------------------------------------------------------------------------------------------------


def examine(name: str) -> Tally:
    """All sample inputs of one layer, in training mode (their dropout is 0)."""
    tally, rng = Tally(), np.random.default_rng(0)
    with torch_at_rest():
        from torch.testing._internal.common_modules import module_db

        (info,) = (entry for entry in module_db if entry.module_cls is getattr(torch.nn, name))
        for sample in info.module_inputs_func(info, "cpu", torch.float64, requires_grad=True, training=True):
            tally.samples += 1
            built = sample.constructor_input
            peer = info.module_cls(*built.args, **built.kwargs).double()
            try:
                pair = LAYERS[name](peer, sample)
                wrong = compare(pair, peer, sample.forward_input, rng)
            except LeftOutError as reason:
                tally.left_out[str(reason)] += 1
                continue
            tally.compared += 1
            tally.changes.update(pair.changes)
            if wrong:
                tally.findings.append(f"{sample.desc} {built.args} {built.kwargs}: {wrong}")
        if info.module_error_inputs_func:
            for case in info.module_error_inputs_func(info, "cpu", torch.float64, requires_grad=True, training=True):
                tally.error_inputs += 1
                kind = cross_entropy_loss if name == "CrossEntropyLoss" else getattr(nn, name)
                if not refused(kind, case.module_error_input):
                    tally.findings.append(f"no error; PyTorch: {case.error_regex}")
    return tally


def refused(kind: Callable[..., Any], case: Any) -> bool:
    """Whether handloom raises a proper error, for the arguments or the input."""
    options, taken = (
        converted([list(part.args), part.kwargs]) for part in (case.constructor_input, case.forward_input)
    )
    try:
        kind(*options[0], **options[1])(*taken[0], **taken[1])
    except (ValueError, TypeError, IndexError):
        return True
    return False


def compare(pair: Pair, peer: Any, taken: Any, rng: np.random.Generator) -> str | None:
    """Outputs and gradients of one sample; what differs, or None."""
    theirs, ours = dict(peer.named_parameters()), dict(pair.module.astype(np.float64).named_parameters())
    for parameter in theirs.values():  # the initial zeros and ones would hide errors
        parameter.data.normal_()
    absent = ours.keys() - theirs.keys()
    state = {n: np.full(ours[n].shape, 0.0 if n.endswith("bias") else 1.0) for n in absent}
    pair.module.load_state_dict(state | {n: p.detach().numpy() for n, p in theirs.items()})
    pair.changes += [NO_BIAS] if absent else []

    given = [list(taken.args), taken.kwargs]
    args, kwargs = converted(given)
    expected, found = as_list(pair.theirs(*given[0], **given[1])), as_list(pair.ours(*args, **kwargs))
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if wrong := difference(a, b):
            return f"output {i}: {wrong}"
    cotangents = [rng.normal(size=tuple(out.shape)) for out in expected]
    our_leaves = [*leaves([args, kwargs], Tensor), *(ours[n] for n in theirs)]
    their_leaves = [*leaves(given, torch.Tensor), *theirs.values()]
    truth = torch.autograd.grad(expected, their_leaves, [torch.from_numpy(g) for g in cotangents], allow_unused=True)
    for i, (a, b) in enumerate(zip(grad(found, our_leaves, cotangents), truth, strict=True)):
        if wrong := difference(a, np.zeros(a.shape) if b is None else b):
            return f"gradient {i} of {len(truth)}: {wrong}"
    return None


def report() -> tuple[str, list[str]]:
    """The counts as Markdown, and what was found wrong."""
    total, rows = Tally(), []
    for name in LAYERS:
        tally = examine(name)
        rows.append(
            f"| {name} | {tally.samples} | {tally.compared} | {tally.left_out.total()} | {tally.error_inputs} |"
        )
        total.samples += tally.samples
        total.error_inputs += tally.error_inputs
        total.compared += tally.compared
        total.changes += tally.changes
        total.left_out += tally.left_out
        total.findings += [f"{name}: {finding}" for finding in tally.findings]
    lines = [
        "| layer | samples | compared | left out | error inputs |",
        "|---|---|---|---|---|",
        *rows,
        f"| together | {total.samples} | {total.compared} | {total.left_out.total()} | {total.error_inputs} |",
        "",
        "| compared | after this change |",
        "|---|---|",
        *(f"| {count} | {change} |" for change, count in total.changes.most_common()),
        "",
        "| left out | reason |",
        "|---|---|",
        *(f"| {count} | {reason} |" for reason, count in total.left_out.most_common()),
    ]
    return "\n".join(lines), total.findings


if __name__ == "__main__":
    text, wrong = report()
    print(text)
    raise SystemExit("\n".join(wrong) or 0)
