"""DistilBERT: BERT with another pooler and without token types. Sanh et al. 2019, arXiv 1910.01108."""

from typing import Any

from ..classifier import ClassifierConfig, TransformerClassifier
from .bert import check, config_of
from .layouts import Fields, Names, refuse, written_fields

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
    refuse(config, hidden_size=config["dim"], num_hidden_layers=config["n_layers"])
    refuse(config, num_attention_heads=config["n_heads"])
    return config_of(config, FIELDS, norm_eps=1e-12, pooler="relu")


def names(c: ClassifierConfig) -> Names:
    theirs = "distilbert.transformer.layer.#"
    return {
        "embedding": "distilbert.embeddings.word_embeddings",
        "positions": "distilbert.embeddings.position_embeddings",
        "embedding_norm": "distilbert.embeddings.LayerNorm",
        "encoder.layers.#.self_attn.in_proj": tuple(f"{theirs}.attention.{name}_lin" for name in "qkv"),
        "encoder.layers.#.self_attn.out_proj": f"{theirs}.attention.out_lin",
        "encoder.layers.#.norm1": f"{theirs}.sa_layer_norm",
        "encoder.layers.#.linear1": f"{theirs}.ffn.lin1",
        "encoder.layers.#.linear2": f"{theirs}.ffn.lin2",
        "encoder.layers.#.norm2": f"{theirs}.output_layer_norm",
        "pooler": "pre_classifier",
        "output": "classifier",
    }


def config_there(c: ClassifierConfig, model: TransformerClassifier) -> dict[str, Any]:
    check(c, "DistilBERT", pooler="relu", token_types=0, norm_eps=1e-12)
    more = {"attention_dropout": c.dropout, "pad_token_id": c.pad_id}
    return {"model_type": "distilbert", **written_fields(c, FIELDS), **more}
