"""A folder's generation_config.json as a Strategy, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import InputError
from ..generation import Strategy
from .files import read_object


def strategy_of(folder: Path, config: dict[str, Any]) -> Strategy:
    """The Strategy of generation_config.json, or of config.json in older folders; greedy search without any.

    Raises InputError for unsupported values.
    """
    said = {**config, **read_object(folder / "generation_config.json")}
    forbidden = [ids[0] for ids in said.get("bad_words_ids") or [] if len(ids) == 1]
    forced = said.get("forced_eos_token_id")
    try:
        return Strategy(
            beam=said.get("num_beams") or 1,
            alpha=float(1.0 if (alpha := said.get("length_penalty")) is None else alpha),
            length_norm="power",
            early_stopping=said.get("early_stopping") or False,
            sampling=bool(said.get("do_sample")),
            temperature=float(said.get("temperature") or 1.0),
            top_k=int(said.get("top_k") or 0) if said.get("do_sample") else 0,
            top_p=float(said.get("top_p") or 1.0),
            max_length=said.get("max_new_tokens"),
            repetition_penalty=float(said.get("repetition_penalty") or 1.0),
            no_repeat_ngram=int(said.get("no_repeat_ngram_size") or 0),
            forbidden=tuple(int(one) for one in (*forbidden, *(said.get("suppress_tokens") or []))),
            penalise="log-probabilities",
            forced_last=forced[0] if isinstance(forced, list) else forced,
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"{folder} has options of generation that are not supported: {error}.") from None


def generation_config(strategy: Strategy | None, ids: dict[str, int | None]) -> dict[str, Any]:
    """The content of a generation_config.json; `ids` are bos_token_id and so on."""
    said: dict[str, Any] = {name: number for name, number in ids.items() if number is not None}
    if strategy is None:
        return said
    said |= {"num_beams": strategy.beam, "no_repeat_ngram_size": strategy.no_repeat_ngram}
    said |= {"repetition_penalty": strategy.repetition_penalty}
    if strategy.length_norm == "power":
        said |= {"length_penalty": strategy.alpha, "early_stopping": strategy.early_stopping or False}
    if strategy.forbidden:
        said["bad_words_ids"] = [[one] for one in strategy.forbidden]
    if strategy.forced_last is not None:
        said["forced_eos_token_id"] = strategy.forced_last
    return said
