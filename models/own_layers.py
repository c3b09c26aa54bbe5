"""Find the layers of a model that compute something else than handloom's layers in their places.

A part of the package that reads the weights of a model instead of calling it, such as the cache of generation, first
asks here whether they determine what the model computes.
"""

from collections.abc import Collection

from .. import nn
from ..nn.module import replaced_methods
from ..nn.positional import NoPositions, PositionScores
from ..nn.recurrent import Recurrent

#: The classes that handloom's models have under these names; a layer in a stack has a number.
_KINDS: dict[str, tuple[type[nn.Module], ...]] = {
    **dict.fromkeys(("linear1", "linear2", "out_proj", "output", "copy_gate", "pooler"), (nn.Linear,)),
    **dict.fromkeys(("embedding", "source_embedding", "target_embedding", "token_types", "logits"), (nn.Embedding,)),
    **dict.fromkeys(("self_attn", "multihead_attn"), (nn.MultiHeadAttention,)),
    **dict.fromkeys(("norm", "norm1", "norm2", "norm3", "embedding_norm"), (nn.LayerNorm, nn.RMSNorm)),
    **dict.fromkeys(("dropout", "dropout1", "dropout2", "dropout3", "token_dropout"), (nn.Dropout,)),
    **dict.fromkeys(("position_scores", "inner"), (PositionScores,)),
    "positions": (nn.SinusoidalPositions, nn.LearnedPositions, NoPositions),
    "encoder": (nn.TransformerEncoder,),
    "decoder": (nn.TransformerEncoder, nn.TransformerDecoder),
    "layers": (nn.ModuleList,),
    "#": (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer),
    "recurrent": (Recurrent,),
}
_POSITION_WISE = (nn.Linear, nn.Embedding, nn.LayerNorm, nn.SinusoidalPositions)
#: The layers that generation can call with new tokens only.
_CALLED = {name for name, kinds in _KINDS.items() if kinds[0] in _POSITION_WISE}
#: Methods that do not change what a model computes.
_NOT_COMPUTING = {"loss", "cross_entropy", "start", "raw_decoder", "copied", "add_encoder_layers", "fit"}


def own_layers(
    model: nn.Module, leave_out: Collection[str] = (), hooks: bool = True, cached: Collection[str] = ()
) -> list[str]:
    """Return a description such as "decoder.layers.0.linear1 (LoRA)" of each module of a model that is of another class
    than handloom's, or replaces methods or, if they count, has hooks: its weights do not determine what it computes.

    `leave_out` are first parts of the names of modules, and names of the model's methods, that are not looked at.
    Layers that have an attribute in `cached`, "position_wise" or "cached_step", are left out, too.
    """
    names = []
    inside: tuple[str, ...] = ()  # the layers that are left out, with a dot behind
    for name, module in model.named_modules():
        outer, _, last = name.rpartition(".")
        in_stack = last.isdecimal() and outer.endswith("layers")
        expected = isinstance(module, _KINDS.get("#" if in_stack else last, nn.Module))
        replaced = replaced_methods(module, hooks)
        if (expected and not replaced) or name.partition(".")[0] in leave_out or name.startswith(inside):
            continue
        how = "cached_step" if in_stack else "position_wise" if last in _CALLED else ""
        if how in cached and getattr(module, how, False):
            inside = (*inside, f"{name}.")
            continue
        if isinstance(module, PositionScores) and "bias_at" in replaced:  # the cached form of `scores`
            replaced -= {"bias_at", "scores", "rotate"}
        if not expected or replaced - _NOT_COMPUTING - (set() if name else set(leave_out)):
            names.append(f"{name or 'the model'} ({type(module).__name__})")
    return names


def saved_note(model: nn.Module) -> dict[str, list[str]]:
    """Return the entry of a saved configuration that says which layers are not handloom's; {} if all are."""
    names = own_layers(model, hooks=False)
    return {"own_layers": names} if names else {}
