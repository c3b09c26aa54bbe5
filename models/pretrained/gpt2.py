"""GPT-2 (Radford et al. 2019), whose linear layers are stored transposed, with q, k and v side by side."""

from typing import Any

from ...autograd import Tensor
from ..language_model import LanguageModel, LanguageModelConfig
from .layouts import Entries, Fields, linear, needs, norm, read_fields, refuse, table, written_fields

ARCHITECTURE = "GPT2LMHeadModel"
PREFIX = "transformer."
MODEL = LanguageModel
IGNORED = ("attn.bias", "attn.masked_bias")  # masks that old versions stored


FIELDS: Fields = {
    "vocab_size": "vocab_size", "d_model": "n_embd", "nhead": "n_head", "layers": "n_layer",
    "dropout": ("resid_pdrop", 0.1), "activation": ("activation_function", "gelu_new"), "max_length": "n_positions",
    "tie_output": ("tie_word_embeddings", True), "norm_eps": ("layer_norm_epsilon", 1e-5),
}  # fmt: skip


def config_here(config: dict[str, Any]) -> LanguageModelConfig:
    refuse(config, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False)
    refuse(config, reorder_and_upcast_attn=False, add_cross_attention=False)
    feed = config.get("n_inner") or 4 * config["n_embd"]
    return LanguageModelConfig(**read_fields(config, FIELDS), dim_feedforward=feed, output_bias=False)


def entries(c: LanguageModelConfig) -> Entries:
    d = c.d_model
    tied = ("lm_head.weight",) if c.tie_output else ()
    yield table("embedding.weight", "transformer.wte.weight", c.vocab_size, d, aliases=tied)
    yield table("positions.weight", "transformer.wpe.weight", c.max_length, d)
    for layer in range(c.layers):
        own, theirs = f"decoder.layers.{layer}", f"transformer.h.{layer}"
        yield from norm(f"{own}.norm1", f"{theirs}.ln_1", d)
        yield from linear(f"{own}.self_attn.in_proj", f"{theirs}.attn.c_attn", 3 * d, d, transposed=True)
        yield from linear(f"{own}.self_attn.out_proj", f"{theirs}.attn.c_proj", d, d, transposed=True)
        yield from norm(f"{own}.norm2", f"{theirs}.ln_2", d)
        yield from linear(f"{own}.linear1", f"{theirs}.mlp.c_fc", c.dim_feedforward, d, transposed=True)
        yield from linear(f"{own}.linear2", f"{theirs}.mlp.c_proj", d, c.dim_feedforward, transposed=True)
    yield from norm("decoder.norm", "transformer.ln_f", d)
    if not c.tie_output:
        yield table("output.weight", "lm_head.weight", c.vocab_size, d)


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
