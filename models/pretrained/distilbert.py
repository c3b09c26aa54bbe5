"""DistilBERT: BERT with another pooler and without token types. Sanh et al. 2019, arXiv 1910.01108."""

from typing import Any

from ..classifier import ClassifierConfig, TransformerClassifier
from .bert import check, config_of
from .layouts import Entries, Fields, linear, norm, table, written_fields

ARCHITECTURE = "DistilBertForSequenceClassification"
PREFIX = "distilbert."
MODEL = TransformerClassifier
IGNORED = ("position_ids", "vocab_transform", "vocab_layer_norm", "vocab_projector")  # the head of pre-training
HEAD = ("output.", "pooler.")


FIELDS: Fields = {
    "vocab_size": "vocab_size", "d_model": "dim", "nhead": "n_heads", "layers": "n_layers",
    "dim_feedforward": "hidden_dim", "dropout": ("dropout", 0.1), "activation": ("activation", "gelu"),
    "max_length": "max_position_embeddings",
}  # fmt: skip


def config_here(config: dict[str, Any]) -> ClassifierConfig:
    return config_of(config, FIELDS, norm_eps=1e-12, pooler="relu")


def entries(c: ClassifierConfig) -> Entries:
    d = c.d_model
    yield table("embedding.weight", "distilbert.embeddings.word_embeddings.weight", c.vocab_size, d)
    yield table("positions.weight", "distilbert.embeddings.position_embeddings.weight", c.max_length, d)
    yield from norm("embedding_norm", "distilbert.embeddings.LayerNorm", d)
    for layer in range(c.layers):
        own, theirs = f"encoder.layers.{layer}", f"distilbert.transformer.layer.{layer}"
        three = tuple(f"{theirs}.attention.{name}_lin" for name in "qkv")
        yield from linear(f"{own}.self_attn.in_proj", three, (d, d, d), d)
        yield from linear(f"{own}.self_attn.out_proj", f"{theirs}.attention.out_lin", d, d)
        yield from norm(f"{own}.norm1", f"{theirs}.sa_layer_norm", d)
        yield from linear(f"{own}.linear1", f"{theirs}.ffn.lin1", c.dim_feedforward, d)
        yield from linear(f"{own}.linear2", f"{theirs}.ffn.lin2", d, c.dim_feedforward)
        yield from norm(f"{own}.norm2", f"{theirs}.output_layer_norm", d)
    yield from linear("pooler", "pre_classifier", d, d)
    yield from linear("output", "classifier", c.classes, d)


def config_there(c: ClassifierConfig, model: TransformerClassifier) -> dict[str, Any]:
    check(c, "DistilBERT", pooler="relu", token_types=0, norm_eps=1e-12)
    more = {"attention_dropout": c.dropout, "pad_token_id": c.pad_id}
    return {"model_type": "distilbert", **written_fields(c, FIELDS), **more}
