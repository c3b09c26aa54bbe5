"""Llama and similar decoders, with RMS norms, rotary positions, gated feed-forward networks and grouped queries.

Touvron et al. 2023, arXiv 2302.13971; also Mistral (which has a window) and Qwen 2 (which has biases of q, k and v).
"""

from __future__ import annotations

from typing import Any

from ...nn.transformer import has_biases
from ..fields import short
from ..language_model import LanguageModel, LanguageModelConfig
from .layouts import Entries, linear, needs, norm, refuse, table

ARCHITECTURE = "LlamaForCausalLM"
PREFIX = "model."
MODEL = LanguageModel
IGNORED = ("rotary_emb.inv_freq",)


def config_here(config: dict[str, Any]) -> LanguageModelConfig:
    refuse(config, hidden_act="silu", use_sliding_window=False, rope_interleaved=False)
    kind, width, heads = config["model_type"], config["hidden_size"], config["num_attention_heads"]
    window, length = config.get("sliding_window"), config.get("max_position_embeddings", 2048)
    attention, feed_forward = config.get("attention_bias", False), config.get("mlp_bias", False)
    biases = {(False, False): "none", (True, False): "attention", (False, True): "feed_forward", (True, True): "all"}
    return LanguageModelConfig(
        config["vocab_size"],
        d_model=width,
        nhead=heads,
        head_dim=config.get("head_dim") or width // heads,
        layers=config["num_hidden_layers"],
        dim_feedforward=config["intermediate_size"],
        dropout=float(config.get("attention_dropout") or 0.0),
        activation="swiglu",
        positions="rotary",
        # Mistral's window counts the token itself.
        pattern=f"local:{window - 1}" if kind == "mistral" and window and window < length else "full",
        max_length=length,
        tie_output=config.get("tie_word_embeddings", False),
        norm="rms",
        norm_eps=config.get("rms_norm_eps", 1e-6),
        bias="qkv" if kind == "qwen2" else biases[bool(attention), bool(feed_forward)],
        kv_heads=config.get("num_key_value_heads") or heads,
        rotary=_rotary_here(config),
        output_bias=False,
    )


def _rotary_here(config: dict[str, Any]) -> dict[str, Any]:
    """Return the options of RotaryPositions, for which the file format has two versions."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    base = float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0)
    if kind == "default":
        return {"base": base}
    if kind == "linear":
        return {"base": base, "factor": float(rope["factor"])}
    if kind != "llama3":
        raise ValueError(
            f"its rotary positions have the scaling {short(kind)}, but handloom supports only default, linear and "
            "llama3"
        )
    names = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    if lost := [name for name in names if name not in rope]:
        raise ValueError(
            f"its rotary positions have the scaling 'llama3', but rope_parameters does not contain {lost[0]}"
        )
    return {
        "base": base,
        "factor": float(rope["factor"]),
        "low": float(rope["low_freq_factor"]),
        "high": float(rope["high_freq_factor"]),
        "length": int(rope["original_max_position_embeddings"]),
    }


def entries(c: LanguageModelConfig) -> Entries:
    d, head = c.d_model, c.head_dim or c.d_model // c.nhead
    q, kv = c.nhead * head, (c.kv_heads or c.nhead) * head
    qkv, out, ff = has_biases(c.bias)
    tied = ("lm_head.weight",) if c.tie_output else ()
    yield table("embedding.weight", "model.embed_tokens.weight", c.vocab_size, d, aliases=tied)
    for layer in range(c.layers):
        own, theirs = f"decoder.layers.{layer}", f"model.layers.{layer}"
        three = tuple(f"{theirs}.self_attn.{name}_proj" for name in "qkv")
        # In handloom the second half of the features gates the first half.
        two = (f"{theirs}.mlp.up_proj", f"{theirs}.mlp.gate_proj")
        yield from norm(f"{own}.norm1", f"{theirs}.input_layernorm", d, bias=False)
        yield from linear(f"{own}.self_attn.in_proj", three, (q, kv, kv), d, bias=qkv)
        yield from linear(f"{own}.self_attn.out_proj", f"{theirs}.self_attn.o_proj", d, q, bias=out)
        yield from norm(f"{own}.norm2", f"{theirs}.post_attention_layernorm", d, bias=False)
        yield from linear(f"{own}.linear1", two, (c.dim_feedforward,) * 2, d, bias=ff)
        yield from linear(f"{own}.linear2", f"{theirs}.mlp.down_proj", d, c.dim_feedforward, bias=ff)
    yield from norm("decoder.norm", "model.norm", d, bias=False)
    if not c.tie_output:
        yield table("output.weight", "lm_head.weight", c.vocab_size, d)


def config_there(c: LanguageModelConfig, model: LanguageModel) -> dict[str, Any]:
    needs(
        {
            f"positions are {c.positions}, not rotary": c.positions != "rotary",
            "it is post-norm": not c.norm_first,
            f"norms are {c.norm}, not rms": c.norm != "rms",
            f"the activation is {c.activation}, not swiglu": c.activation != "swiglu",
            f"attention sees a pattern ({c.pattern})": c.pattern != "full" and not c.pattern.startswith("local:"),
            "only the output of attention has a bias": c.bias == "no_qkv",
            "attention in a window has biases": c.pattern != "full" and c.bias != "none",
            "the output layer has a bias (build it with output_bias=False)": model.output.bias is not None,
        },
        "Llama",
    )
    kind = "mistral" if c.pattern != "full" else "qwen2" if c.bias == "qkv" else "llama"
    own: dict[str, Any] = {
        "mistral": {"sliding_window": int(c.pattern.partition(":")[2] or 0) + 1},
        "qwen2": {"use_sliding_window": False},
        "llama": {"attention_bias": c.bias in ("all", "attention"), "mlp_bias": c.bias in ("all", "feed_forward")},
    }
    architecture = {"mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "llama": ARCHITECTURE}[kind]
    return {
        "model_type": kind,
        "architectures": [architecture],
        "vocab_size": c.vocab_size,
        "hidden_size": c.d_model,
        "intermediate_size": c.dim_feedforward,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.nhead,
        "num_key_value_heads": c.kv_heads or c.nhead,
        "head_dim": c.head_dim or c.d_model // c.nhead,
        "hidden_act": "silu",
        "max_position_embeddings": c.max_length,
        "rms_norm_eps": c.norm_eps,
        "attention_dropout": c.dropout,
        "tie_word_embeddings": c.tie_output,
        "rope_parameters": _rotary_there(c.rotary or {}),
        **own[kind],
    }


def _rotary_there(rotary: dict[str, Any]) -> dict[str, Any]:
    base = {"rope_theta": rotary.get("base", 10000.0)}
    if rotary.get("high") is not None:
        return {
            **base,
            "rope_type": "llama3",
            "factor": rotary["factor"],
            "low_freq_factor": rotary["low"],
            "high_freq_factor": rotary["high"],
            "original_max_position_embeddings": rotary["length"],
        }
    if rotary.get("factor", 1.0) != 1.0:
        return {**base, "rope_type": "linear", "factor": rotary["factor"]}
    return {**base, "rope_type": "default"}
