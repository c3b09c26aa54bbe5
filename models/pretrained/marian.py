"""Encoder-decoders: MarianMT (the models of OPUS-MT) with post-norm, Pegasus with pre-norm and two final norms.

Junczys-Dowmunt et al. 2018, arXiv 1804.00344; Zhang et al. 2020, arXiv 1912.08777.
"""

from typing import Any

import numpy as np

from ...nn import sinusoidal_table
from ..seq2seq import Seq2SeqConfig, Seq2SeqTransformer
from .layouts import Entry, Fields, Names, needs, read_fields, refuse, written_fields

ARCHITECTURE = "MarianMTModel"
PREFIX = "model."
MODEL = Seq2SeqTransformer
IGNORED = ("embed_positions.weight", "model.shared.weight")  # sinusoidal tables; an unused table
MAX_POSITIONS = 1 << 15  # the table is computed, not read, so a file could ask for any size

FIELDS: Fields = {
    "source_vocab_size": "vocab_size", "d_model": "d_model", "nhead": "encoder_attention_heads",
    "encoder_layers": "encoder_layers", "decoder_layers": "decoder_layers", "dim_feedforward": "encoder_ffn_dim",
    "dropout": ("dropout", 0.1), "activation": ("activation_function", "gelu"),
    "max_length": ("max_position_embeddings", 1024), "pad_id": "pad_token_id",
    "tie_output": ("tie_word_embeddings", True), "scale_embedding": ("scale_embedding", False),
}  # fmt: skip


def config_here(config: dict[str, Any]) -> Seq2SeqConfig:
    pre_norm = config["model_type"] == "pegasus"
    refuse(config, normalize_before=pre_norm, normalize_embedding=False, add_final_layer_norm=pre_norm)
    refuse(config, static_position_embeddings=True, is_encoder_decoder=True)
    refuse(config, hidden_size=config["d_model"], num_hidden_layers=config["encoder_layers"])
    refuse(config, num_attention_heads=config["encoder_attention_heads"])
    fields = read_fields(config, FIELDS)
    if not 0 < (length := fields["max_length"]) <= MAX_POSITIONS:
        raise ValueError(f"its max_position_embeddings is {length}, but handloom supports at most {MAX_POSITIONS:,}")
    heads, feed = config["decoder_attention_heads"], config["decoder_ffn_dim"]
    return Seq2SeqConfig(
        **fields,
        target_vocab_size=config.get("decoder_vocab_size") or config["vocab_size"],
        norm_first=pre_norm,
        # Without tied embeddings there are three tables, whatever the other options.
        share_embeddings=config.get("share_encoder_decoder_embeddings", True) and fields["tie_output"],
        sinusoid_halves=True,
        decoder_nhead=None if heads == fields["nhead"] else heads,
        decoder_dim_feedforward=None if feed == fields["dim_feedforward"] else feed,
    )


def names(c: Seq2SeqConfig) -> Names:
    found: dict[str, Any] = {
        "source_embedding": "model.encoder.embed_tokens",
        "target_embedding": "model.decoder.embed_tokens",
        "encoder.layers.#.norm2": "model.encoder.layers.#.final_layer_norm",
        "decoder.layers.#.norm2": "model.decoder.layers.#.encoder_attn_layer_norm",
        "decoder.layers.#.norm3": "model.decoder.layers.#.final_layer_norm",
        "output": "lm_head",
        "output.bias": Entry("output.bias", ("final_logits_bias",), ((1, c.target_vocab_size),), optional=True),
    }
    for side in ("encoder", "decoder"):
        own, theirs = f"{side}.layers.#", f"model.{side}.layers.#"
        for attention, name in (("self_attn", "self_attn"), ("multihead_attn", "encoder_attn")):
            found[f"{own}.{attention}.in_proj"] = tuple(f"{theirs}.{name}.{x}_proj" for x in "qkv")
            found[f"{own}.{attention}.out_proj"] = f"{theirs}.{name}.out_proj"
        found[f"{own}.norm1"] = f"{theirs}.self_attn_layer_norm"
        found |= {f"{own}.linear1": f"{theirs}.fc1", f"{own}.linear2": f"{theirs}.fc2"}
        found[f"{side}.norm"] = f"model.{side}.layer_norm"
    if c.share_embeddings and c.tie_output:
        name, shape = "source_embedding.weight", (c.source_vocab_size, c.d_model)
        found[name] = Entry(name, ("model.shared.weight",), (shape,), aliases=("model.encoder.embed_tokens.weight",))
    return found


def config_there(c: Seq2SeqConfig, model: Seq2SeqTransformer) -> dict[str, Any]:
    problems = {
        "source and target have separate tables": c.norm_first and c.tie_output and not c.share_embeddings,
        "source and target have separate vocabularies": c.norm_first and c.source_vocab_size != c.target_vocab_size,
        "keys are shared among heads": c.kv_heads not in (None, c.nhead),
    }
    fixed = {"norm": "layer", "norm_eps": 1e-5, "positions": "sinusoidal", "pattern": "full", "bias": "all"}
    needs(c, "Pegasus" if c.norm_first else "Marian", problems, **fixed, copy=False, title_case=False, lowercase=False)
    if c.norm_first:
        # Other programs that read Pegasus, such as CTranslate2, need the first two.
        own: dict[str, Any] = {"normalize_before": True, "normalize_embedding": False, "add_final_layer_norm": True}
        own |= {"model_type": "pegasus", "architectures": ["PegasusForConditionalGeneration"]}
    else:
        own = {"model_type": "marian", "decoder_vocab_size": c.target_vocab_size}
        own |= {"share_encoder_decoder_embeddings": c.share_embeddings and c.tie_output}
    decoder = {"decoder_attention_heads": c.decoder_nhead or c.nhead}
    decoder |= {"decoder_ffn_dim": c.decoder_dim_feedforward or c.dim_feedforward}
    more = {"is_encoder_decoder": True, "static_position_embeddings": True}
    return {**own, **written_fields(c, FIELDS), **decoder, **more}


def unread(c: Seq2SeqConfig, state: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the tensors that are no parameters: the second copy of an embedding that source and target share without
    the output layer, and in Pegasus's files positions, and an embedding if untied.
    """
    table = state["source_embedding.weight"]
    both = {"model.decoder.embed_tokens.weight": table.copy()} if c.share_embeddings and not c.tie_output else {}
    if not c.norm_first:
        return both
    positions = sinusoidal_table(c.max_length, c.d_model, halves=True).astype(table.dtype)
    found = {f"model.{side}.embed_positions.weight": positions.copy() for side in ("encoder", "decoder")}
    return found if c.tie_output else {**found, **both, "model.shared.weight": table.copy()}


def state_there(model: Seq2SeqTransformer) -> dict[str, Any]:
    """Return the state dict with the residual stream's features in the order of `transformers`, all sines before all
    cosines. Any order gives the same results if the features of all weights are permuted alike, because norms sum over
    all features.
    """
    state = model.state_dict()
    if model.config.sinusoid_halves:
        return state
    features = np.arange(model.config.d_model)
    order = np.concatenate([features[0::2], features[1::2]])
    return {name: array.take(order, axis=axis) if (axis := _stream_axis(name)) is not None else array
            for name, array in state.items()}  # fmt: skip


def _stream_axis(name: str) -> int | None:
    """Return the axis of a parameter that corresponds to the residual stream's features."""
    if name == "output.bias" or name.endswith(("in_proj_bias", "linear1.bias")):
        return None
    return 1 if name.endswith(("embedding.weight", "in_proj_weight", "linear1.weight", "output.weight")) else 0
