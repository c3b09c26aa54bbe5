"""BERT as a classifier: Devlin et al. 2019, arXiv 1810.04805."""

from __future__ import annotations

from typing import Any

from ..classifier import ClassifierConfig, TransformerClassifier
from .layouts import NAMES_OF_ACTIVATIONS, Entries, activation_here, linear, needs, norm, refuse, table

ARCHITECTURE = "BertForSequenceClassification"
PREFIX = "bert."
MODEL = TransformerClassifier
IGNORED = ("position_ids", "cls.")  # the head of pre-training
HEAD = ("output.", "pooler.")  # starts untrained for a new task, a pooler only if the folder has none


def config_here(config: dict[str, Any]) -> ClassifierConfig:
    refuse(config, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    return ClassifierConfig(
        config["vocab_size"],
        classes_of(config),
        d_model=config["hidden_size"],
        nhead=config["num_attention_heads"],
        layers=config["num_hidden_layers"],
        dim_feedforward=config["intermediate_size"],
        dropout=float(config.get("hidden_dropout_prob", 0.1)),
        activation=activation_here(config, "hidden_act", "gelu"),
        positions="learned",
        max_length=config["max_position_embeddings"],
        pad_id=config.get("pad_token_id") or 0,
        norm_eps=config.get("layer_norm_eps", 1e-12),
        scale_embedding=False,
        token_types=config.get("type_vocab_size", 2),
        embedding_norm=True,
        pooler="tanh",
    )


def classes_of(config: dict[str, Any]) -> int:
    """Return the number of classes in config.json, by default two."""
    refuse(config, problem_type=config.get("problem_type") and "single_label_classification")
    return len(config["id2label"]) if config.get("id2label") else int(config.get("num_labels", 2))


def entries(c: ClassifierConfig) -> Entries:
    d = c.d_model
    yield table("embedding.weight", "bert.embeddings.word_embeddings.weight", c.vocab_size, d)
    yield table("positions.weight", "bert.embeddings.position_embeddings.weight", c.max_length, d)
    yield table("token_types.weight", "bert.embeddings.token_type_embeddings.weight", c.token_types, d)
    yield from norm("embedding_norm", "bert.embeddings.LayerNorm", d)
    for layer in range(c.layers):
        own, theirs = f"encoder.layers.{layer}", f"bert.encoder.layer.{layer}"
        three = tuple(f"{theirs}.attention.self.{name}" for name in ("query", "key", "value"))
        yield from linear(f"{own}.self_attn.in_proj", three, (d, d, d), d)
        yield from linear(f"{own}.self_attn.out_proj", f"{theirs}.attention.output.dense", d, d)
        yield from norm(f"{own}.norm1", f"{theirs}.attention.output.LayerNorm", d)
        yield from linear(f"{own}.linear1", f"{theirs}.intermediate.dense", c.dim_feedforward, d)
        yield from linear(f"{own}.linear2", f"{theirs}.output.dense", d, c.dim_feedforward)
        yield from norm(f"{own}.norm2", f"{theirs}.output.LayerNorm", d)
    yield from linear("pooler", "bert.pooler.dense", d, d)
    yield from linear("output", "classifier", c.classes, d)


def obstacles(c: ClassifierConfig) -> dict[str, bool]:
    """Return the options of a model that neither BERT nor DistilBERT supports; see `layouts.needs`."""
    return {
        "there is no norm after the embeddings (build it with embedding_norm)": not c.embedding_norm,
        "embeddings are scaled": c.scale_embedding,
        "it is pre-norm": c.norm_first,
        f"norms are {c.norm}": c.norm != "layer",
        f"the activation is {c.activation}": c.activation not in NAMES_OF_ACTIVATIONS,
        f"positions are {c.positions}, not learned": c.positions != "learned",
        f"attention sees a pattern ({c.pattern})": c.pattern != "full",
        "keys are shared among heads": c.kv_heads not in (None, c.nhead),
        "linear layers lack biases": c.bias != "all",
        f"the class is computed from the {c.pooling} of all tokens": c.pooling != "first",
    }


def config_there(c: ClassifierConfig, model: TransformerClassifier) -> dict[str, Any]:
    more = {f"the pooler is {c.pooler}, not tanh": c.pooler != "tanh", "it has no token types": not c.token_types}
    needs({**obstacles(c), **more}, "BERT")
    return {
        "model_type": "bert",
        "vocab_size": c.vocab_size,
        "hidden_size": c.d_model,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.nhead,
        "intermediate_size": c.dim_feedforward,
        "hidden_act": NAMES_OF_ACTIVATIONS[c.activation],
        "hidden_dropout_prob": c.dropout,
        "attention_probs_dropout_prob": c.dropout,
        "max_position_embeddings": c.max_length,
        "type_vocab_size": c.token_types,
        "layer_norm_eps": c.norm_eps,
        "pad_token_id": c.pad_id,
    }
