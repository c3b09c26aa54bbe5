"""Load a model from a folder."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError, short
from ...kinds import checked
from ...nn import Module
from ...nn.init import skip_init
from ...tensor_files import check_finite
from ...tokenizer import Tokenizer
from ..classifier import TransformerClassifier
from ..generation import Strategy
from . import bert, distilbert, gpt2, llama, marian
from .files import DTYPES, Stored, find_folder, find_tensors, read_object
from .generation_config import strategy_of
from .layouts import Entry, ReadConfig, entries
from .tokenizers import load_tokenizer_of

ARCHITECTURES: dict[str, Any] = {
    "marian": marian, "pegasus": marian, "gpt2": gpt2, "llama": llama, "mistral": llama, "qwen2": llama,
    "bert": bert, "distilbert": distilbert,
}  # fmt: skip
SHOWN = 3  # problems of the weights that a message names


class Pretrained(NamedTuple):
    """A loaded model with its tokenizer and generation options.

    Attributes:
        model: a Seq2SeqTransformer, LanguageModel or TransformerClassifier in evaluation mode.
        tokenizer: the tokenizer, or None if it was not requested.
        labels: a classifier's class names by index; empty for other models.
        strategy: the folder's generation options, or greedy search if the folder has none.
    """

    model: Any
    tokenizer: Tokenizer | None
    labels: list[str]
    strategy: Strategy


@checked
def load(
    folder_or_name: str | Path,
    *,
    revision: str | None = None,
    dtype: Any = np.float32,
    labels: Sequence[str] | None = None,
    with_tokenizer: bool = True,
    with_strategy: bool = True,
) -> Pretrained:
    """Load a model of Hugging Face's `transformers`: MarianMT, GPT-2, Llama or a similar decoder, BERT or DistilBERT.

    Args:
        folder_or_name: a folder, or a repository on the Hugging Face Hub (needs the extra `hub`), which is downloaded
            to a cache.
        revision: branch, tag or commit on the Hub.
        dtype: dtype of the parameters, which can differ from the dtype in the file.
        labels: class names of a new task, for which a classifier gets a new, untrained output layer. The folder need
            not contain an output layer.
        with_tokenizer: whether to load the tokenizer.
        with_strategy: whether to load the generation options; if false, the strategy is greedy search.

    Shapes and names are checked before weights are read. Raises InputError for a folder that can't be used.
    docs/pretrained.md lists the supported models.
    """
    folder = find_folder(folder_or_name, revision)
    absent = f"{folder} holds no config.json, so it is not a folder of transformers. Give a model's folder."
    config = read_object(folder / "config.json", missing=absent)
    architecture = _architecture(folder, config)
    if labels is not None and architecture not in (bert, distilbert):
        raise InputError(f"The model in {folder} is not a classifier, so it can't have labels.")
    with _following(folder):
        own = _config_here(folder, config, architecture, labels)
        names = _labels(config) if architecture in (bert, distilbert) else []
        fresh = architecture.HEAD if labels is not None and list(labels) != names else ()
        with skip_init():
            model = architecture.MODEL(own)
    sources = _sources(folder, architecture, model, fresh)
    with np.errstate(invalid="ignore"):  # the parameters are uninitialised
        model.astype(dtype).eval()
    _fill(model, sources, dtype)
    generates = with_strategy and architecture not in (bert, distilbert)
    strategy = strategy_of(folder, config, _vocabulary(own)) if generates else Strategy(beam=1)
    tokenizer = None
    if with_tokenizer:
        tokenizer = load_tokenizer_of(folder, config, getattr(own, "source_vocab_size", _vocabulary(own)))
    return Pretrained(model, tokenizer, names if labels is None else list(labels), strategy)


def _architecture(folder: Path, config: dict[str, Any]) -> Any:
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        raise InputError(
            f"{folder} contains a model of the type {short(kind)}, which handloom does not support; it supports "
            f"{', '.join(ARCHITECTURES)}."
        )
    if config.get("quantization_config"):
        raise InputError(
            f"{folder} contains quantised weights, which handloom does not support. Use the model without quantisation."
        )
    return ARCHITECTURES[kind]


def _labels(config: dict[str, Any]) -> list[str]:
    names = config.get("id2label") or {number: f"LABEL_{number}" for number in range(config.get("num_labels", 2))}
    names = dict(enumerate(names)) if isinstance(names, list) else names
    return [str(names[key]) for key in sorted(names, key=int)]


@contextmanager
def _following(folder: Path) -> Iterator[None]:
    """Turn errors in reading the values of config.json into InputError."""
    try:
        yield
    except InputError:
        raise
    except (ArithmeticError, AttributeError, KeyError, MemoryError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{folder / 'config.json'} can't be used: {what}. Fetch it again.") from None


def _config_here(folder: Path, config: dict[str, Any], architecture: Any, labels: Sequence[str] | None) -> Any:
    if labels is not None:
        config = {**config, "id2label": dict(enumerate(labels))}
    sizes = {key: value for key, value in config.items() if isinstance(value, int) and not isinstance(value, bool)}
    wrong = [key for key, value in sizes.items() if value < 0 and not key.endswith("_id")]
    if wrong:
        raise ValueError(f"{wrong[0]} = {sizes[wrong[0]]}")
    given = ReadConfig({**getattr(architecture, "DEFAULTS", {}).get(config["model_type"], {}), **config})
    read = architecture.config_here(given)
    given.check_all_read(folder / "config.json")
    return read


def _vocabulary(config: Any) -> int:
    return config.target_vocab_size if hasattr(config, "target_vocab_size") else config.vocab_size


def _by_full_names(found: dict[str, Stored], prefix: str) -> dict[str, Stored]:
    """Return a folder's tensors by their full names, to which the prefix is added in files without it."""
    bare = not any(name.startswith(prefix) for name in found)
    heads = ("lm_head.", "classifier.", "pre_classifier.", "final_logits_bias")
    full = {}
    for name, stored in found.items():
        for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
            name = name.removesuffix(old) + new if name.endswith(old) else name  # TensorFlow's names
        full[prefix + name if bare and not name.startswith(heads) else name] = stored
    return full


Sources = list[tuple[Entry, dict[str, Stored]]]


def _sources(folder: Path, architecture: Any, model: Module, fresh: tuple[str, ...]) -> Sources:
    """Return the tensors from which to read each parameter, except parameters whose names begin with one of `fresh`."""
    found = _by_full_names(find_tensors(folder), architecture.PREFIX)
    unused, sources = set(found), Sources()
    problems: list[str] = []
    for entry in entries(model, architecture):
        unused.difference_update(entry.theirs, entry.aliases)
        if fresh and entry.own.startswith(fresh) and (entry.own.startswith("output.") or entry.theirs[0] not in found):
            continue
        copies = [name for name in (*entry.theirs[:1], *entry.aliases) if name in found]
        names = entry.theirs if entry.theirs[0] in copies or not copies else tuple(copies[:1])
        for name, shape in zip(names, entry.shapes, strict=True):
            if name not in found:
                problems += [] if entry.optional else [f"{name} is missing"]
            elif found[name].shape != shape:
                problems.append(f"{name} is {found[name].shape}, but config.json requires {shape}")
            elif found[name].dtype not in DTYPES:
                problems.append(f"{name} has dtype {found[name].dtype}; {', '.join(DTYPES)} can be read")
        for name in copies[1:] if not problems else ():
            if found[name].shape != shape or not np.array_equal(found[copies[0]].read(), found[name].read()):
                tied = "config.json says that they are tied (tie_word_embeddings)"
                problems.append(f"{copies[0]} and {name} differ, and {tied}")
        sources.append((entry, {theirs: found[name] for theirs, name in zip(entry.theirs, names, strict=True)
                               if name in found}))  # fmt: skip
    unknown = sorted(name for name in unused if not any(part in name for part in architecture.IGNORED))
    problems = problems or [f"{name} is unknown to this architecture" for name in unknown]
    if architecture.MODEL is TransformerClassifier and "classifier.weight is missing" in problems:
        raise InputError(
            f"The model in {folder} has no classification layer. Pass labels=[...], the class names, to add an "
            "untrained layer."
        )
    if problems:
        raise InputError(
            f"The weights in {folder} don't fit its config.json: {'; '.join(problems[:SHOWN])}. Fetch both again, or "
            f"use the model class that config.json describes."
        )
    return sources


def _fill(model: Module, sources: Sources, dtype: Any) -> None:
    parameters = dict(model.named_parameters())
    for entry, stored in sources:
        parameter = parameters.pop(entry.own)
        if stored:
            parameter.data[...] = entry.read({name: one.read() for name, one in stored.items()}, parameter.shape)
            check_finite({" and ".join(stored): parameter.data}, next(iter(stored.values())).path)
        else:
            parameter.data[...] = 0
        parameter.mark_changed()
    for name, parameter in parameters.items():  # a new head
        values = np.random.default_rng(0).normal(0.0, 0.02, parameter.shape)
        parameter.data[...] = 0 if name.endswith("bias") else values.astype(dtype)
        parameter.mark_changed()
