"""Options that the configurations of all models share."""

import dataclasses
from typing import Annotated, Any

from ..nn import make_norm
from ..nn.normalization import NORMS
from ..nn.transformer import BIASES
from .fields import Choices, Fraction, Parsed, Rate, Size, check_fields, fits


def _check_rotary(options: dict[str, Any]) -> None:
    """Raise ValueError unless `options` are options of `nn.positional.RotaryPositions` with numbers as values."""
    if not options or not options.keys() <= {"base", "factor", "low", "high", "length"}:
        raise ValueError("the options are empty or contain an unknown name")
    if not all(fits(Rate | None, value) for value in options.values()):
        raise ValueError("an option's value is not a number above 0")


Rotary = Annotated[dict[str, Any], Parsed(_check_rotary, "base, factor, low, high or length, each a number above 0")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The options that all Transformer models share. Each model has its own defaults for the first three.

    Args:
        activation: the feed-forward networks' activation, a name in `ops.ACTIVATIONS`.
        positions: one of `nn.POSITIONS`.
        pattern: the self-attention pattern; see `nn.sparse`.
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

    def __post_init__(self) -> None:
        check_fields(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration as a JSON object. Keyword-only options with default values are omitted."""
        values = dataclasses.asdict(self)
        left_out = [f.name for f in dataclasses.fields(self) if f.kw_only and values[f.name] == f.default]
        return {name: value for name, value in values.items() if name not in left_out}

    def layers_of(self, kind: Any, number: int, in_attention: str, **sizes: Any) -> tuple[list[Any], Any]:
        """Return layers of the class `kind`, and the norm after the last layer of a pre-norm model.

        `in_attention` is a result of `nn.embedding_positions`. `sizes` replace those of the configuration.
        """
        names = ["d_model", "nhead", "dim_feedforward", "dropout", "activation", "norm_first"]
        names += ["norm", "bias", "pattern", "kv_heads", "rotary"]
        options = {name: getattr(self, name) for name in names}
        options |= {"positions": in_attention, "layer_norm_eps": self.norm_eps, **sizes}
        norm = make_norm(self.norm, options["d_model"], self.norm_eps) if options["norm_first"] else None
        return [kind(**options) for _ in range(number)], norm
