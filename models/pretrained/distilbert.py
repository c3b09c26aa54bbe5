"""DistilBERT: BERT with another pooler and without token types. Sanh et al. 2019, arXiv 1910.01108."""

from __future__ import annotations

from typing import Any

from ..classifier import ClassifierConfig, TransformerClassifier
from .bert import classes_of, obstacles
from .layouts import NAMES_OF_ACTIVATIONS, Entries, activation_here, linear, needs, norm, table

ARCHITECTURE = "DistilBertForSequenceClassification"
PREFIX = "distilbert."
MODEL = TransformerClassifier
IGNORED = ("position_ids", "vocab_transform", "vocab_layer_norm", "vocab_projector")  # the head of pre-training
HEAD = ("output.", "pooler.")


def config_here(config: dict[str, Any]) -> ClassifierConfig:
    return ClassifierConfig(
        config["vocab_size"],
        classes_of(config),
        d_model=config["dim"],
        nhead=config["n_heads"],
        layers=config["n_layers"],
        dim_feedforward=config["hidden_dim"],
        dropout=float(config.get("dropout", 0.1)),
        activation=activation_here(config, "activation", "gelu"),
        positions="learned",
        max_length=config["max_position_embeddings"],
        pad_id=config.get("pad_token_id") or 0,
        norm_eps=1e-12,
        scale_embedding=False,
        embedding_norm=True,
        pooler="relu",
    )


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
    more = {
        f"the pooler is {c.pooler}, not relu": c.pooler != "relu",
        "it has token types": bool(c.token_types),
        f"the norms' eps is {c.norm_eps}, not 1e-12": c.norm_eps != 1e-12,
    }
    needs({**obstacles(c), **more}, "DistilBERT")
    return {
        "model_type": "distilbert",
        "vocab_size": c.vocab_size,
        "dim": c.d_model,
        "n_layers": c.layers,
        "n_heads": c.nhead,
        "hidden_dim": c.dim_feedforward,
        "activation": NAMES_OF_ACTIVATIONS[c.activation],
        "dropout": c.dropout,
        "attention_dropout": c.dropout,
        "max_position_embeddings": c.max_length,
        "pad_token_id": c.pad_id,
    }
