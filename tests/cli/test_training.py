"""--set and flags change a preset; unknown names and invalid values are refused."""

from argparse import Namespace

import pytest

from handloom.cli.options import OptionParser
from handloom.cli.training import add_preset_options, changed, option_of, preset_of
from handloom.errors import InputError
from handloom.models.fields import field_kinds, parse_value, plain_kind, settings
from handloom.models.hyperparameters import ClassifierPreset, Preset, TranslationPreset
from handloom.models.presets import CLASSIFIER_PRESETS, LANGUAGE_MODEL_PRESETS, SMOKE, translation_preset


def test_changed_values() -> None:
    preset = changed(SMOKE, ["d_model=64", "norm_first=true", "betas=0.8,0.9", "clip_norm=none", "positions=rotary"])
    assert (preset.d_model, preset.norm_first, preset.betas, preset.clip_norm) == (64, True, (0.8, 0.9), None)
    assert preset.positions == "rotary"
    assert SMOKE.d_model == 32


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("d_modell=3", "the preset has no 'd_modell'. Did you mean d_model?"),
        ("x=3", "the preset has no 'x'. It has .*d_model"),
        ("d_model=32 d_model=64", "--set d_model=64: d_model is given twice"),
        ("d_model=1e3", "must be a whole number"),
        ("steps=0", "must be a whole number from 1"),
        ("norm_first=maybe", "must be true or false"),
        ("betas=0.9", "must be 2 values"),
        ("schedule=sinus", "must be one of noam, constant"),
        ("pattern=local", "must be full, local:SIZE or strided:SIZE"),
    ],
)
def test_values_that_are_refused(setting: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        changed(SMOKE, setting.split())


@pytest.mark.parametrize(
    ("preset", "options", "message"),
    [
        (SMOKE, "--set lr=0.1", "--set lr has no effect: the schedule noam does not use it"),
        (SMOKE, "--lr 0.1", "--lr has no effect: .* or choose another --schedule"),
        (SMOKE, "--set lr_factor=2 --schedule cosine --lr 1", "--set lr_factor has no effect: only the schedule"),
        (SMOKE, "--set weight_decay=0.1 --weight-decay 0.2", "--set weight_decay and --weight-decay set the same"),
        (SMOKE, "--set positions=none --positions alibi", "positions is given twice"),
        (SMOKE, "--positions alibi --init run", "--positions has no effect: the model of --init"),
        (SMOKE, "--set lowercase=true --set words=true", "--set lowercase has no effect: the words are in lower case"),
        (SMOKE, "--set lowercase=true --set title_case=true", "--set title_case has no effect: lowercase replaces it"),
        (SMOKE, "--set vocab_size=500 --tokenizer character", "the characters of the text are the vocabulary"),
        (SMOKE, "--set vocab_size=500 --teacher run", "the vocabulary of the --teacher is used"),
        (SMOKE, "--set max_length=9 --set d_model=16 --init run", "--set d_model has no effect: the model of --init"),
        (SMOKE, "--set new_encoder_layers=2", "the layers are added to the model of --init. Add --init"),
        (SMOKE, "--optimizer sgd --set betas=0.9,0.99", "--set betas has no effect: only adam and adamw use it"),
        (SMOKE, "--set optimizer=sgd --set eps=1e-8", "--set eps has no effect: only adam and adamw use it"),
        (SMOKE, "--name-overflows", "--name-overflows has no effect: gradients overflow only in fp16"),
        (SMOKE, "--ema 0.9 --set average=3", "--set average has no effect: --ema already averages"),
        (SMOKE, "--init run --set tied=false", "--set tied has no effect: the model of --init"),
        (CLASSIFIER_PRESETS["smoke"], "--steps 3 --set epochs=2", "--set epochs has no effect: the number of steps"),
        (CLASSIFIER_PRESETS["smoke"], "--teacher run --set min_frequency=2", "--set min_frequency has no effect"),
        (LANGUAGE_MODEL_PRESETS["smoke"], "--pad-to 8", "--pad-to has no effect: all windows"),
        (LANGUAGE_MODEL_PRESETS["smoke"], "--steps 3 --set recurrent_steps=2", "--set recurrent_steps has no effect"),
        (LANGUAGE_MODEL_PRESETS["smoke"], "--table none --set recurrent_lr=1", "only --table baselines trains"),
    ],
)
def test_a_value_without_effect_beside_others(preset: Preset, options: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(preset, *options.split())


def test_the_same_values_where_they_have_an_effect() -> None:
    parse(SMOKE, "--set", "betas=0.9,0.99", "--set", "average=3", "--set", "tied=false")
    parse(CLASSIFIER_PRESETS["smoke"], "--set", "epochs=2", "--set", "min_frequency=2", "--pad-to", "8")
    parse(LANGUAGE_MODEL_PRESETS["smoke"], "--set", "recurrent_steps=2")


def test_a_run_that_goes_on_may_have_other_steps_and_another_table() -> None:
    """--steps and --table can be changed while resuming, whatever --set the run was started with."""
    common = {"schedule": None, "teacher": None, "init": None, "resume": "run", "steps": 9, "given": {"steps"}}
    assert preset_of(Namespace(**common, set=["steps=5"]), SMOKE).steps == 9
    assert preset_of(Namespace(**common, set=["epochs=5"]), CLASSIFIER_PRESETS["smoke"]).steps == 9
    options = Namespace(**common, set=["recurrent_steps=5", "recurrent_lr=0.1"], table="none")
    assert preset_of(options, LANGUAGE_MODEL_PRESETS["smoke"]).steps == 9


def test_changes_beside_each_other() -> None:
    given = {"set": ["accumulate=2", "lr=0.1"], "accumulate": 3, "schedule": "linear", "positions": "alibi"}
    arguments = Namespace(**given, teacher=None, init=None, given={"accumulate"})
    preset = preset_of(arguments, SMOKE)
    assert (preset.accumulate, preset.lr, preset.positions) == (6, 0.1, "alibi"), "both accumulations are multiplied"


def parse(preset: Preset, *options: str) -> Preset:
    parser = OptionParser()
    add_preset_options(parser, lambda size, data: preset)
    for name, default in (("table", "baselines"), ("tokenizer", "bpe"), ("positions", None)):
        parser.add_argument(f"--{name}", default=default)
    given = vars(parser.parse_args(options))
    return preset_of(Namespace(**parser.defaults | given, given=given.keys()), preset)


@pytest.mark.parametrize("preset", [SMOKE, *CLASSIFIER_PRESETS.values(), *LANGUAGE_MODEL_PRESETS.values()])
def test_without_flags_a_preset_stays_as_it_is(preset: Preset) -> None:
    assert parse(preset) == preset


def test_every_flag_changes_its_field() -> None:
    """Each flag gets a value that differs from the preset's value."""
    kinds = field_kinds(TranslationPreset)
    values = {"schedule": "linear", "optimizer": "sgd", "monitor": "valid_accuracy", "precision": "fp16"}
    for name, (_, flag) in settings(TranslationPreset).items():
        if flag is None:
            continue
        value = values.get(name, "0.25" if plain_kind(kinds[name])[0] is float else "7")
        typed = [option_of(name)] if kinds[name] is bool else [option_of(name), value]
        more = {"lr": ["--schedule", "linear"], "name_overflows": ["--precision", "fp16"]}.get(name, [])
        changed_one = parse(SMOKE, *typed, *more)
        expected = True if kinds[name] is bool else parse_value(kinds[name], value)
        assert getattr(changed_one, name) == expected, name


def test_help_is_made_of_the_fields() -> None:
    parser = OptionParser()
    add_preset_options(parser, lambda size, data: CLASSIFIER_PRESETS[size])
    told = " ".join(parser.format_help().split())
    assert "--patience N early stopping: stop after N validations without improvement (default: the preset" in told
    accumulate = "--accumulate K number of batches whose gradients are accumulated per update, as a multiple of"
    assert f"{accumulate} the preset's value (default: 1)" in told
    assert "min_frequency minimum number of occurrences in the training data for a word to be in the vocabulary" in told
    assert all(name in told for name in field_kinds(ClassifierPreset))


def test_help_shows_the_values_of_the_preset_that_is_typed(monkeypatch) -> None:
    typed: dict[str, int | None] = {"--preset smoke": 30, "": 1500, "--data=multi30k": 7500, "--preset x": None}
    for words, steps in typed.items():
        monkeypatch.setattr("sys.argv", ["translate", *words.split(), "--help"])
        parser = OptionParser()
        add_preset_options(parser, translation_preset)
        line = next(line for line in parser.format_help().splitlines() if line.startswith("  steps "))
        assert line.endswith(f"(default: {steps})") == (steps is not None)
    assert "HANDLOOM_DATA" in parser.format_help()
