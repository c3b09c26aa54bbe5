"""GPT-2 (Radford et al. 2019), whose linear layers are stored transposed, with q, k and v side by side."""

from typing import Any

from ...autograd import Tensor
from ..language_model import LanguageModel, LanguageModelConfig
from .layouts import Fields, Names, needs, read_fields, refuse, written_fields

ARCHITECTURE = "GPT2LMHeadModel"
PREFIX = "transformer."
MODEL = LanguageModel
IGNORED = ("attn.bias", "attn.masked_bias")  # masks that old versions stored
TRANSPOSED = True

FIELDS: Fields = {
    "vocab_size": "vocab_size", "d_model": "n_embd", "nhead": "n_head", "layers": "n_layer",
    "dropout": ("resid_pdrop", 0.1), "activation": ("activation_function", "gelu_new"), "max_length": "n_positions",
    "tie_output": ("tie_word_embeddings", True), "norm_eps": ("layer_norm_epsilon", 1e-5),
}  # fmt: skip


def config_here(config: dict[str, Any]) -> LanguageModelConfig:
    refuse(config, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False)
    refuse(config, reorder_and_upcast_attn=False, add_cross_attention=False)
    refuse(config, hidden_size=config["n_embd"], num_hidden_layers=config["n_layer"])
    refuse(config, num_attention_heads=config["n_head"], max_position_embeddings=config["n_positions"])
    feed = config.get("n_inner") or 4 * config["n_embd"]
    return LanguageModelConfig(**read_fields(config, FIELDS), dim_feedforward=feed, output_bias=False)


def names(c: LanguageModelConfig) -> Names:
    return {
        "embedding": "transformer.wte",
        "positions": "transformer.wpe",
        "decoder.layers.#.norm1": "transformer.h.#.ln_1",
        "decoder.layers.#.self_attn.in_proj": "transformer.h.#.attn.c_attn",
        "decoder.layers.#.self_attn.out_proj": "transformer.h.#.attn.c_proj",
        "decoder.layers.#.norm2": "transformer.h.#.ln_2",
        "decoder.layers.#.linear1": "transformer.h.#.mlp.c_fc",
        "decoder.layers.#.linear2": "transformer.h.#.mlp.c_proj",
        "decoder.norm": "transformer.ln_f",
        "output": "lm_head",
    }


def config_there(c: LanguageModelConfig, model: LanguageModel) -> dict[str, Any]:
    bias: Tensor | None = model.output.bias
    problems = {
        "head_dim is not d_model / nhead": c.head_dim not in (None, c.d_model // c.nhead),
        "keys are shared among heads": c.kv_heads not in (None, c.nhead),
        "the output layer has a bias (build it with tie_output or output_bias=False)": bias is not None,
    }
    needs(c, "GPT-2", problems, positions="learned", norm_first=True, norm="layer", pattern="full", bias="all")
    more = {"n_inner": c.dim_feedforward, "embd_pdrop": c.dropout, "attn_pdrop": c.dropout}
    return {"model_type": "gpt2", **written_fields(c, FIELDS), **more}
