"""Options that the configurations of all models share."""

import dataclasses
from typing import Annotated, Any

from ..nn.normalization import NORMS
from ..nn.transformer import BIASES
from .fields import Choices, Fraction, Parsed, Rate, Size, fits


def _check_rotary(options: dict[str, Any]) -> None:
    """Raise ValueError unless `options` are options of `nn.positional.RotaryPositions` with numbers as values."""
    if not options or not options.keys() <= {"base", "factor", "low", "high", "length"}:
        raise ValueError("the options are empty or contain an unknown name")
    if not all(fits(Rate | None, value) for value in options.values()):
        raise ValueError("an option's value is not a number above 0")


Rotary = Annotated[dict[str, Any], Parsed(_check_rotary, "base, factor, low, high or length, each a number above 0")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The options that all Transformer models share.

    Args:
        norm: one of `nn.normalization.NORMS`.
        norm_eps: eps of every norm; it is added to the variance, or, with "layer_std", to the standard deviation.
        bias: which linear layers have biases, one of `nn.transformer.BIASES`.
        kv_heads: number of heads of keys and values in self-attention, each shared by a group of query heads; None
            means nhead.
        rotary: options of `nn.positional.RotaryPositions`, such as its base.
        sinusoid_halves: whether sinusoidal positions have all sines before all cosines, instead of alternating.
    """

    norm: Annotated[str, Choices(NORMS)] = "layer"
    norm_eps: Fraction = 1e-5
    bias: Annotated[str, Choices(tuple(BIASES))] = "all"
    kv_heads: Size | None = None
    rotary: Rotary | None = None
    sinusoid_halves: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as a JSON object. Keyword-only options with default values are omitted."""
        values = dataclasses.asdict(self)
        left_out = [f.name for f in dataclasses.fields(self) if f.kw_only and values[f.name] == f.default]
        return {name: value for name, value in values.items() if name not in left_out}

    def layer_options(self, in_attention: str, pattern: str) -> dict[str, Any]:
        """Return the keyword arguments of the layers in `nn.transformer`.
        `in_attention` is a result of `nn.embedding_positions`.
        """
        attention = {"positions": in_attention, "pattern": pattern, "kv_heads": self.kv_heads, "rotary": self.rotary}
        return {"layer_norm_eps": self.norm_eps, "norm": self.norm, "bias": self.bias, **attention}
