"""Save a model as a folder for `transformers`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...files import make_folder, write_json
from ...kinds import checked
from ...tensor_files import write_tensors
from ...tokenizer import Tokenizer
from ..classifier import TransformerClassifier
from ..generation import Strategy
from ..language_model import LanguageModel
from ..own_layers import own_layers
from ..seq2seq import Seq2SeqTransformer
from . import bert, distilbert, gpt2, llama, marian
from .files import INDEX, WEIGHTS
from .generation_config import generation_config
from .layouts import entries
from .tokenizers import role_names, save_tokenizer


@checked
def save(
    model: Any,
    tokenizer: Tokenizer | None,
    folder: str | Path,
    *,
    labels: Sequence[str] | None = None,
    strategy: Strategy | None = None,
) -> Path:
    """Write a model in the format of `transformers`: config.json, model.safetensors and the tokenizer's files.

    Args:
        model: a Seq2SeqTransformer, saved as Pegasus (pre-norm) or Marian (post-norm); a LanguageModel, saved as GPT-2
            or Llama; or a TransformerClassifier, saved as BERT or DistilBERT.
        tokenizer: the tokenizer, or None to save only the model.
        folder: folder to write to; it is created if necessary. A model that it contains is replaced, with its
            tokenizer unless `tokenizer` is None; other files stay.
        labels: names of a classifier's classes.
        strategy: generation options, for generation_config.json.

    The weights keep their dtype. Returns the folder. If `transformers` has no equivalent of the model or the tokenizer,
    raises InputError before writing any file.
    """
    folder, architecture = Path(folder), _architecture(model)
    if own := own_layers(model):
        raise InputError(f"transformers has no equivalent of this model: {own[0]} is not handloom's.")
    config = {"architectures": [architecture.ARCHITECTURE], **architecture.config_there(model.config, model)}
    config |= {"dtype": str(model.state_dict()[next(iter(model.state_dict()))].dtype)}
    if isinstance(model, TransformerClassifier):
        names = list(labels) if labels is not None else [f"LABEL_{n}" for n in range(model.config.classes)]
        if len(names) != model.config.classes:
            raise InputError(f"Got {len(names)} labels for {model.config.classes} classes: give one for each class.")
        config["id2label"] = {str(number): name for number, name in enumerate(names)}
        config["label2id"] = {name: number for number, name in enumerate(names)}
    ids = _special_ids(model, tokenizer)
    config |= ids
    state = architecture.state_there(model) if hasattr(architecture, "state_there") else model.state_dict()
    tensors: dict[str, np.ndarray] = {}
    for entry in entries(model, architecture):
        tensors |= entry.write(state[entry.own])
    if hasattr(architecture, "unread"):
        tensors |= architecture.unread(model.config, state)
    generation = generation_config(strategy, ids, model.config.max_length)
    make_folder(folder)
    if tokenizer is not None:
        # In handloom's tasks, a translator reads <eos> after a text, and a classifier reads <bos> before it.
        begins, ends = isinstance(model, TransformerClassifier), isinstance(model, Seq2SeqTransformer)
        save_tokenizer(tokenizer, folder, model.config.max_length, begins=begins, ends=ends)
    write_tensors(folder / WEIGHTS, tensors, {"format": "pt"})
    for path in (folder / INDEX, *folder.glob("model-*-of-*.safetensors")):  # of an older model
        path.unlink(missing_ok=True)
    if not isinstance(model, TransformerClassifier):
        write_json(folder / "generation_config.json", generation)
    write_json(folder / "config.json", config)
    return folder


def _architecture(model: Any) -> Any:
    if isinstance(model, Seq2SeqTransformer):
        return marian
    if isinstance(model, LanguageModel):
        return llama if model.config.norm == "rms" or model.config.positions == "rotary" else gpt2
    if isinstance(model, TransformerClassifier):
        return distilbert if model.config.pooler == "relu" else bert
    raise InputError(f"transformers has no equivalent of a {type(model).__name__}.")


def _special_ids(model: Any, tokenizer: Tokenizer | None) -> dict[str, int | None]:
    """Return the special token ids for config.json, such as bos_token_id; None for a missing token."""
    names = {} if tokenizer is None else role_names(tokenizer)
    found = {f"{r}_token_id": getattr(tokenizer, f"{r}_id") if r in names else None for r in ("bos", "eos", "pad")}
    if hasattr(model.config, "pad_id"):
        found["pad_token_id"] = model.config.pad_id
    if isinstance(model, Seq2SeqTransformer):
        bos = found.pop("bos_token_id")
        found["decoder_start_token_id"] = model.config.pad_id if bos is None else bos
        found["forced_eos_token_id"] = None
    return found
