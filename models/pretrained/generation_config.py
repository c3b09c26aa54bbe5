"""Convert a folder's generation_config.json to a Strategy, and a Strategy to generation_config.json."""

from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, short
from ..fields import Whole, described, field_kinds, fits
from ..generation import Rules, Strategy
from .files import read_object

FILE = "generation_config.json"
#: Options, with the fields of Strategy and Rules that allow the same values.
FIELDS = {
    "do_sample": "sampling", "early_stopping": "early_stopping", "length_penalty": "alpha", "max_length": "max_total",
    "max_new_tokens": "max_length", "min_length": "min_total", "min_new_tokens": "min_length",
    "no_repeat_ngram_size": "no_repeat_ngram", "num_beams": "beam", "num_return_sequences": "n_best",
    "repetition_penalty": "repetition_penalty", "temperature": "temperature", "top_k": "top_k", "top_p": "top_p",
}  # fmt: skip
#: Options that hold tokens.
TOKENS = ("bad_words_ids", "eos_token_id", "forced_eos_token_id", "suppress_tokens")
#: Options that handloom does not have, with the value that changes nothing. They may also be null or absent.
ABSENT: dict[str, Any] = {
    "begin_suppress_tokens": [], "constraints": [], "diversity_penalty": 0, "dola_layers": None,
    "encoder_no_repeat_ngram_size": 0, "encoder_repetition_penalty": 1, "exponential_decay_length_penalty": None,
    "force_words_ids": [], "forced_bos_token_id": None, "guidance_scale": 1, "max_time": None, "num_beam_groups": 1,
    "penalty_alpha": 0, "renormalize_logits": False, "sequence_bias": {}, "stop_strings": [], "token_healing": False,
    "watermarking_config": None,
}  # fmt: skip
#: Such options of sampling, which other strategies do not read.
ABSENT_IN_SAMPLING: dict[str, Any] = {
    "epsilon_cutoff": 0, "eta_cutoff": 0, "min_p": 0, "num_beams": 1, "top_h": None, "typical_p": 1,
}  # fmt: skip


def strategy_of(folder: Path, config: dict[str, Any], vocab_size: int) -> Strategy:
    """Return the Strategy in generation_config.json, or else in config.json. The default is greedy search."""
    path = folder / FILE
    found = read_object(path)
    path, found = (path, found) if found else (folder / "config.json", config)
    said = {name: value for name, value in found.items() if value is not None}
    try:
        return _strategy(said, vocab_size)
    except ValueError as error:
        cure = "Change it there, or load the model without it: with_strategy=False"
        raise InputError(f"{path} has generation options that handloom does not support: {error}. {cure}.") from None


def _strategy(said: dict[str, Any], vocab_size: int) -> Strategy:
    kinds = field_kinds(Strategy) | field_kinds(Rules)
    for name, field in FIELDS.items():
        if not fits(kinds[field], said.get(name)) and name in said:
            raise ValueError(f"{name} is {short(said[name])}, but it must be {described(kinds[field], none=False)}")
    sampling = said.get("do_sample", False)
    for name, neutral in (ABSENT | (ABSENT_IN_SAMPLING if sampling else {})).items():
        if said.get(name, neutral) != neutral:
            raise ValueError(f"{name} is {short(said[name])}")
    ends = [end for end in _tokens("eos_token_id", said.get("eos_token_id", [])) if end < vocab_size]
    forced = _tokens("forced_eos_token_id", said.get("forced_eos_token_id", []))
    if len(forced) > 1:
        raise ValueError("forced_eos_token_id has several tokens")
    words = said.get("bad_words_ids", [])
    if not isinstance(words, list) or not all(isinstance(ids, list) and len(ids) == 1 for ids in words):
        raise ValueError(f"bad_words_ids is {short(words)}, but only single tokens can be forbidden")
    bad = _tokens("bad_words_ids", [ids[0] for ids in words])
    # Like transformers: end tokens among the bad words are ignored, and the minimum length does not count end tokens.
    forbidden = [*(one for one in bad if one not in ends), *_tokens("suppress_tokens", said.get("suppress_tokens", []))]
    # The defaults of transformers, then the options of the file, without those that others disable.
    values: dict[str, Any] = {"beam": 1, "early_stopping": False, "top_k": 50}
    values |= {field: said[name] for name, field in FIELDS.items() if name in said}
    unused = [] if sampling else ["temperature", "top_k", "top_p"]
    unused += ["alpha"] if values["beam"] == 1 else []
    unused += [f"{end}_total" for end in ("min", "max") if f"{end}_length" in values]
    values = {field: value for field, value in values.items() if field not in unused}
    if least := values.get("min_length"):
        values["min_length"] = least + 1
        if least >= values.get("max_length", np.inf):
            forbidden, values["min_length"] = [*forbidden, *ends], 0
    if (largest := max([*forbidden, *forced], default=0)) >= vocab_size:
        raise ValueError(f"an option contains the token {largest}, but the model has only {vocab_size:,} tokens")
    of_rules = {field: values.pop(field) for field in field_kinds(Rules) if field in values}
    ends_and_bans: dict[str, Any] = {
        "forbidden": tuple(forbidden),
        "forced_last": forced[0] if forced else None,
        "stop": tuple(ends),  # the tokenizer may have another end
    }
    rules = Rules(**of_rules, **ends_and_bans, penalise="log-probabilities")
    return Strategy(**values, length_norm="power", rules=rules)


def _tokens(name: str, found: Any) -> list[int]:
    """Return the tokens of an option, which is one token or a list of tokens."""
    found = found if isinstance(found, list) else [found]
    if not all(fits(Whole, one) for one in found):
        raise ValueError(f"{name} is {short(found)}, but it must be a token or a list of tokens")
    return found


def generation_config(strategy: Strategy | None, ids: dict[str, int | None], max_length: int) -> dict[str, Any]:
    """Return the content of a generation_config.json. `ids` contains bos_token_id and similar entries."""
    said: dict[str, Any] = {name: number for name, number in ids.items() if number is not None}
    if strategy is None:
        return {**said, "max_length": max_length}
    rules, search = strategy.rules, strategy.beam > 1 and not strategy.sampling
    problems = {
        "a consensus": strategy.consensus > 0,
        "rules that are functions": bool(rules.functions),
        "sampling at temperature 0 (give beam=1)": strategy.sampling and strategy.temperature == 0,
        "a coverage penalty": strategy.coverage > 0,
        f"length_norm {strategy.length_norm!r} (give 'power')": search
        and strategy.alpha != 0
        and strategy.length_norm != "power",
        "early_stopping None (give True, False or 'never')": search and strategy.early_stopping is None,
        "a beam's repetition penalty of logits (give penalise='log-probabilities')": search
        and rules.repetition_penalty != 1
        and rules.penalise == "logits",
        "min_length with min_total (give one)": rules.min_length > 1 and rules.min_total > 0,
        "max_length with max_total (give one)": None not in (rules.max_length, rules.max_total),
    }
    if any(problems.values()):
        there = "; ".join(problem for problem, found in problems.items() if found)
        raise InputError(f"This strategy can't be saved, because transformers does not support {there}.")
    names = ["do_sample", "temperature", "top_k", "top_p"] if strategy.sampling else ["num_beams"]
    names += ["length_penalty", "early_stopping"] if search else []
    names += ["num_return_sequences"] if strategy.n_best > 1 else []
    names += ["min_length"] if rules.min_length <= 1 else []
    names += ["max_length"] if rules.max_length is None else ["max_new_tokens"]
    values = vars(strategy) | vars(rules)
    said |= {name: values[FIELDS[name]] for name in (*names, "repetition_penalty", "no_repeat_ngram_size")}
    if said.get("max_length", 0) is None:
        said["max_length"] = max_length
    if rules.min_length > 1:
        said["min_new_tokens"] = rules.min_length - 1
    if rules.stop:
        said["eos_token_id"] = list(dict.fromkeys([*_tokens("", said.get("eos_token_id", [])), *rules.stop]))
    if rules.forbidden:
        said["suppress_tokens"] = list(rules.forbidden)
    if rules.forced_last is not None:
        said["forced_eos_token_id"] = rules.forced_last
    return said
