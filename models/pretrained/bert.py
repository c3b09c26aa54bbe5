"""BERT as a classifier: Devlin et al. 2019, arXiv 1810.04805."""

from typing import Any

from ..classifier import ClassifierConfig, TransformerClassifier
from .layouts import Fields, Names, needs, read_fields, refuse, written_fields

ARCHITECTURE = "BertForSequenceClassification"
PREFIX = "bert."
MODEL = TransformerClassifier
IGNORED = ("position_ids", "cls.")  # the head of pre-training
HEAD = ("output.", "pooler.")  # starts untrained for a new task, a pooler only if the folder has none

FIELDS: Fields = {
    "vocab_size": "vocab_size", "d_model": "hidden_size", "nhead": "num_attention_heads",
    "layers": "num_hidden_layers", "dim_feedforward": "intermediate_size", "dropout": ("hidden_dropout_prob", 0.1),
    "activation": ("hidden_act", "gelu"), "max_length": "max_position_embeddings",
    "norm_eps": ("layer_norm_eps", 1e-12), "token_types": ("type_vocab_size", 2),
}  # fmt: skip
#: The other fields, for BERT and DistilBERT.
FIXED: dict[str, Any] = {"positions": "learned", "scale_embedding": False, "embedding_norm": True}


def config_here(config: dict[str, Any]) -> ClassifierConfig:
    refuse(config, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    return config_of(config, FIELDS, pooler="tanh")


def config_of(config: dict[str, Any], fields: Fields, **options: Any) -> ClassifierConfig:
    """Return the configuration of BERT or DistilBERT."""
    options |= {**read_fields(config, fields), **FIXED}
    refuse(config, problem_type=config.get("problem_type") and "single_label_classification")
    classes = len(config["id2label"]) if config.get("id2label") else int(config.get("num_labels", 2))
    config.get("tie_word_embeddings")  # concerns a language model's output layer only
    pad_id = config.get("pad_token_id") or 0
    return ClassifierConfig(classes=classes, pad_id=pad_id, **options)


def names(c: ClassifierConfig) -> Names:
    theirs = "bert.encoder.layer.#"
    return {
        "embedding": "bert.embeddings.word_embeddings",
        "positions": "bert.embeddings.position_embeddings",
        "token_types": "bert.embeddings.token_type_embeddings",
        "embedding_norm": "bert.embeddings.LayerNorm",
        "encoder.layers.#.self_attn.in_proj": tuple(f"{theirs}.attention.self.{x}" for x in ("query", "key", "value")),
        "encoder.layers.#.self_attn.out_proj": f"{theirs}.attention.output.dense",
        "encoder.layers.#.norm1": f"{theirs}.attention.output.LayerNorm",
        "encoder.layers.#.linear1": f"{theirs}.intermediate.dense",
        "encoder.layers.#.linear2": f"{theirs}.output.dense",
        "encoder.layers.#.norm2": f"{theirs}.output.LayerNorm",
        "pooler": "bert.pooler.dense",
        "output": "classifier",
    }


def check(c: ClassifierConfig, name: str, no_token_types: bool = False, **fields: Any) -> None:
    """Raise InputError for a model that can't be saved as BERT or DistilBERT."""
    fixed = FIXED | {"norm_first": False, "norm": "layer", "pattern": "full", "bias": "all", "pooling": "first"}
    problems = {
        "keys are shared among heads": c.kv_heads not in (None, c.nhead),
        "it has no token types": no_token_types,
    }
    needs(c, name, problems, **fixed, bos=True, **fields)


def config_there(c: ClassifierConfig, model: TransformerClassifier) -> dict[str, Any]:
    check(c, "BERT", not c.token_types, pooler="tanh")
    more = {"attention_probs_dropout_prob": c.dropout, "pad_token_id": c.pad_id}
    return {"model_type": "bert", **written_fields(c, FIELDS), **more}
