"""Llama and similar decoders, with RMS norms, rotary positions, gated feed-forward networks and grouped queries.

Touvron et al. 2023, arXiv 2302.13971; also Mistral (which has a window) and Qwen 2 (which has biases of q, k and v).
"""

from typing import Any

from ...errors import short
from ..language_model import LanguageModel, LanguageModelConfig
from .layouts import Fields, Names, needs, read_fields, refuse, written_fields

ARCHITECTURE = "LlamaForCausalLM"
PREFIX = "model."
MODEL = LanguageModel
IGNORED = ("rotary_emb.inv_freq",)

FIELDS: Fields = {
    "vocab_size": "vocab_size", "d_model": "hidden_size", "nhead": "num_attention_heads",
    "layers": "num_hidden_layers", "dim_feedforward": "intermediate_size",
    "max_length": ("max_position_embeddings", 2048), "tie_output": ("tie_word_embeddings", False),
    "norm_eps": ("rms_norm_eps", 1e-6),
}  # fmt: skip
#: For each scaling of rotary positions, the options of RotaryPositions by their names in config.json.
SCALINGS: dict[str, dict[str, str]] = {
    "default": {},
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor", "low": "low_freq_factor", "high": "high_freq_factor",
        "length": "original_max_position_embeddings",
    },
}  # fmt: skip

#: The defaults of fields that differ from those of Llama.
DEFAULTS: dict[str, dict[str, Any]] = {
    "mistral": {"max_position_embeddings": 131072, "num_key_value_heads": 8, "sliding_window": 4096},
    "qwen2": {"max_position_embeddings": 32768, "num_key_value_heads": 32},
}


def config_here(config: dict[str, Any]) -> LanguageModelConfig:
    refuse(config, hidden_act="silu", use_sliding_window=False, rope_interleaved=False)
    fields, kind, window = read_fields(config, FIELDS), config["model_type"], config.get("sliding_window")
    layer_type = "sliding_attention" if kind == "mistral" and window else "full_attention"
    refuse(config, layer_types=[layer_type] * fields["layers"])
    attention, feed_forward = config.get("attention_bias", False), config.get("mlp_bias", False)
    biases = {(False, False): "none", (True, False): "attention", (False, True): "feed_forward", (True, True): "all"}
    # Mistral's window counts the token itself.
    window = window if kind == "mistral" and window and window < fields["max_length"] else 0
    return LanguageModelConfig(
        **fields,
        head_dim=config.get("head_dim") or fields["d_model"] // fields["nhead"],
        dropout=float(config.get("attention_dropout") or 0.0),
        activation="swiglu",
        positions="rotary",
        pattern=f"local:{window - 1}" if window else "full",
        norm="rms",
        bias="qkv" if kind == "qwen2" else biases[bool(attention), bool(feed_forward)],
        kv_heads=config.get("num_key_value_heads") or fields["nhead"],
        rotary=_rotary_here(config),
        output_bias=False,
    )


def _rotary_here(config: dict[str, Any]) -> dict[str, Any]:
    """Return the options of RotaryPositions, for which the file format has two versions; the older one has priority."""
    newer, older = config.get("rope_parameters"), config.get("rope_scaling")
    rope = older or newer or {}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind not in SCALINGS:
        raise ValueError(
            f"its rotary positions have the scaling {short(kind)}, but handloom supports only {', '.join(SCALINGS)}"
        )
    names = SCALINGS[kind]
    if lost := [name for name in names.values() if name not in rope]:
        raise ValueError(f"its rotary positions have the scaling {kind!r}, but rope_parameters lacks {lost[0]}")
    known = {"rope_theta", "rope_type", "type", "original_max_position_embeddings", *names.values()}
    others = {name: value for name, value in rope.items() if name not in known}
    others |= {"partial_rotary_factor": rope.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1}
    if unknown := [name for name, value in others.items() if value not in (None, 1)]:
        raise ValueError(f"its rotary positions have {unknown[0]} = {short(others[unknown[0]])}")
    base = float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0)
    options = {own: (int if own == "length" else float)(rope[name]) for own, name in names.items()}
    return {"base": base, **options}


def names(c: LanguageModelConfig) -> Names:
    attention, feed_forward = "model.layers.#.self_attn", "model.layers.#.mlp"
    return {
        "embedding": "model.embed_tokens",
        "decoder.layers.#.norm1": "model.layers.#.input_layernorm",
        "decoder.layers.#.self_attn.in_proj": tuple(f"{attention}.{name}_proj" for name in "qkv"),
        "decoder.layers.#.self_attn.out_proj": f"{attention}.o_proj",
        "decoder.layers.#.norm2": "model.layers.#.post_attention_layernorm",
        # In handloom the second half of the features gates the first half.
        "decoder.layers.#.linear1": (f"{feed_forward}.up_proj", f"{feed_forward}.gate_proj"),
        "decoder.layers.#.linear2": f"{feed_forward}.down_proj",
        "decoder.norm": "model.norm",
        "output": "lm_head",
    }


def config_there(c: LanguageModelConfig, model: LanguageModel) -> dict[str, Any]:
    problems = {
        f"pattern is {c.pattern!r}": c.pattern != "full" and not c.pattern.startswith("local:"),
        "only the output of attention has a bias": c.bias == "no_qkv",
        "attention in a window has biases": c.pattern != "full" and c.bias != "none",
        "the output layer has a bias (build it with output_bias=False)": model.output.bias is not None,
    }
    needs(c, "Llama", problems, positions="rotary", norm_first=True, norm="rms", activation="swiglu")
    kind = "mistral" if c.pattern != "full" else "qwen2" if c.bias == "qkv" else "llama"
    own: dict[str, Any] = {
        "mistral": {"sliding_window": int(c.pattern.partition(":")[2] or 0) + 1},
        "qwen2": {"use_sliding_window": False},
        "llama": {"attention_bias": c.bias in ("all", "attention"), "mlp_bias": c.bias in ("all", "feed_forward")},
    }
    architecture = {"mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "llama": ARCHITECTURE}[kind]
    rotary = c.rotary or {}
    scaling = (
        "llama3" if rotary.get("high") is not None else "linear" if rotary.get("factor", 1.0) != 1.0 else "default"
    )
    rope = {"rope_theta": rotary.get("base", 10000.0), "rope_type": scaling}
    return {
        "model_type": kind,
        "architectures": [architecture],
        **written_fields(c, FIELDS),
        "num_key_value_heads": c.kv_heads or c.nhead,
        "head_dim": c.head_dim or c.d_model // c.nhead,
        "hidden_act": "silu",
        "attention_dropout": c.dropout,
        "rope_parameters": {**rope, **{name: rotary[own] for own, name in SCALINGS[scaling].items()}},
        **own[kind],
    }
