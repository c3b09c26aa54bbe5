"""Ablations of the news models: other numbers of heads, other numbers of layers."""

from __future__ import annotations

from typing import Any

ABLATIONS = ("heads", "layers")
HEADS, LAYERS = (1, 4, 8, 16), (1, 2, 4, 6)


def ablation_cells(name: str, d_model: int) -> dict[str, dict[str, Any]]:
    """Name of the cell -> changes to the model: 1, 4, 8 and 16 heads (those that divide d_model), or 1 to 6 layers."""
    if name == "heads":
        return {numbered(heads, "head"): {"nhead": heads} for heads in HEADS if d_model % heads == 0}
    if name == "layers":
        return {numbered(layers, "layer"): {"layers": layers} for layers in LAYERS}
    raise ValueError(f"unknown ablation {name!r}: use one of {', '.join(ABLATIONS)}")


def numbered(count: int, thing: str) -> str:
    """1 head, 2 heads."""
    return f"{count} {thing}{'s' if count > 1 else ''}"
