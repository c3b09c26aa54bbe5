"""How a training continues from a save: the state on which it depends, and its folder as it was then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .optim.schedules import Plateau
from .runs.stores import RunStore

if TYPE_CHECKING:
    from .trainer import Trainer

#: Settings that change neither an update nor the choice of the best weights.
_WITHOUT_EFFECT = {"graphs", "log_every", "gradient_norms", "name_overflows", "keep", "accumulate"}


def _parts(trainer: Trainer) -> dict[str, Any]:
    """Return the parts of the trainer that have a state, by name."""
    parts = {"progress": trainer.progress, "optimizer": trainer.optimizer, "schedule": trainer.schedule}
    parts |= {"ema": trainer.ema, "scaler": trainer.scaler}
    return {name: part for name, part in parts.items() if hasattr(part, "state_dict")}


def saved_state(trainer: Trainer) -> dict[str, Any]:
    """Return the state on which the run depends, except the weights."""
    state = {name: part.state_dict() for name, part in _parts(trainer).items()}
    setup = {name: value for name, value in asdict(trainer.settings).items() if name not in _WITHOUT_EFFECT}
    setup |= {"higher_is_better": trainer.higher_is_better, **trainer.optimizer.numbers()}
    fingerprint = getattr(trainer.batches, "fingerprint", lambda: f"{len(trainer.batches)} batches")
    state |= {"setup": json.dumps(setup, default=float), "data": fingerprint()}
    return {**state, "config": json.dumps(trainer.config, sort_keys=True)}


def restore(trainer: Trainer, resume: bool, stop_at: int | None) -> None:
    """With `resume`, continue from the newest undamaged save.

    Raises InputError, before anything is changed, if the run is past the last step or past `stop_at`.
    """
    saves = trainer.store.saves if resume and isinstance(trainer.store, RunStore) else None
    done = max(saves.steps(), default=0) if saves else 0
    if done > trainer.steps:
        raise InputError(f"The run is already at step {done:,}: give at least steps={done}.")
    if stop_at is not None and not done < stop_at <= trainer.steps:
        cure = f"Use {done + 1:,} to {trainer.steps:,}" if done < trainer.steps else "Leave it out"
        raise InputError(f"stop_at={stop_at}: the run is at step {done:,} of {trainer.steps:,}. {cure}.")
    if saves is None:
        return
    saved, now = trainer.group.from_first(saves.load), trainer.progress
    _load_state(trainer, saved.state)
    try:
        set_weights(trainer, saved.weights)
    except (KeyError, ValueError) as error:
        raise InputError(f"The save of {trainer.run.path} does not fit the model: {error}.") from None
    for problem in saved.damaged:
        trainer.say(f"warning: {problem} An older save is used.")
    trainer.say(f"resumed after step {now.step:,}")
    if trainer.group.first:
        _rewind(trainer)
    before = now.batches(len(trainer.batches)) / max(now.step, 1)
    used = trainer.settings.accumulate * trainer.group.size
    if before not in (0, used):
        trainer.say(f"an update used {before:g} batches so far, and uses {used} with this number of processes")


def _rewind(trainer: Trainer) -> None:
    """Bring the folder to the state of the save, without what only the end of a shorter training has."""
    now, store, rows = trainer.progress, trainer.store, trainer.run.metrics()
    longer = bool(rows) and rows[-1]["step"] == now.step < trainer.steps

    def drop(row: Mapping[str, Any]) -> bool:
        late = now.step % trainer.every > 0 if "valid_loss" in row else longer and bool(now.log_sums)
        return late and row["step"] == now.step

    assert isinstance(store, RunStore)
    name = f"model-{now.step}.safetensors" if longer and (store.ended or now.best is None) else ""
    if store.rewind(name):
        trainer.say(f"the result of the first {now.step:,} steps is kept as {name}")
    step, rate = next(((row["step"], row["learning_rate"]) for row in rows[::-1] if "learning_rate" in row), (0, 0))
    if step and not isinstance(trainer.schedule, Plateau) and (new := trainer._rate(step)) != rate:
        change = f"was {rate:.3g} and would now be {new:.3g}"
        trainer.say(f"the learning rate of step {step:,} {change}: a run of {trainer.steps:,} steps in a piece differs")
    trainer.run.rewind(now.step, drop)
    trainer.history.rows = trainer.run.metrics()
    trainer.clock.processor = max(trainer.run.processor_seconds()[1], default=0.0)
    trainer.run.write_config()  # options may have changed


def _load_state(trainer: Trainer, state: dict[str, Any]) -> None:
    """Restore a `saved_state`. Raises InputError if it belongs to other data or parts."""
    parts, own = _parts(trainer), saved_state(trainer)
    state = {"setup": own["setup"], **state}  # older saves have none
    if own.keys() != state.keys():
        raise InputError(f"The save of {trainer.run.path} has another setup: it holds {', '.join(sorted(state))}.")
    if not own["data"].startswith(state["data"]):  # older saves have a part of it
        raise InputError(
            f"The training data are not those that {trainer.run.path} was trained on: the files, the requested sizes "
            "or the batching have changed. Restore them, or start a new run."
        )
    if state["config"] != own["config"]:
        before, now = json.loads(state["config"]), json.loads(own["config"])
        changed = sorted(name for name in before | now if before.get(name) != now.get(name))
        raise InputError(
            f"{trainer.run.path} was started differently, or by another version of handloom: {', '.join(changed)} of "
            "the model differ. Restore the run's config.json and tokenizer.json, or start a new run."
        )
    before, now = json.loads(state["setup"]), json.loads(own["setup"])
    changed = [f"{name} was {before.get(name)} and is {now[name]}" for name in now if before.get(name) != now[name]]
    if changed:
        trainer.say(f"changed since the save, so the run differs from one in a piece: {', '.join(changed)}")
    try:
        for name, part in parts.items():
            part.load_state_dict(state[name])
    except ValueError as error:
        raise InputError(f"The save of {trainer.run.path} does not fit: {error}.") from None


def set_weights(trainer: Trainer, weights: Mapping[str, Any]) -> None:
    """Set parameters and buffers. A save may hold a shared parameter under its first name only."""
    arrays = trainer.model.state_dict()
    first = {id(array): name for name, array in reversed(arrays.items())}
    trainer.model.load_state_dict({name: weights[first[id(array)]] for name, array in arrays.items()})
    trainer.updates.write()
