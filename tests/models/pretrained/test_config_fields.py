"""Test that every field of a config.json is read as `transformers` reads it, or refused by name."""

import copy
import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.autograd import no_grad
from handloom.errors import InputError
from handloom.models.pretrained import ARCHITECTURES, load
from handloom.models.pretrained.layouts import ReadConfig

from .peers import BERT, CASES, DISTIL, GPT2, LLAMA, MARIAN, logits, make, torch, transformers

RNG = np.random.default_rng(1)
#: Fields of other versions or of similar models, with values that have an effect there or had one.
OTHERS: dict[str, list[Any]] = {
    "rope_scaling": [{"rope_type": "linear", "factor": 4.0}, {"type": "yarn", "factor": 4.0}, {"rope_type": "default"}],
    "rope_parameters": [
        {"rope_type": "linear", "factor": 2.0, "rope_theta": 77.0},
        {"rope_type": "default", "rope_theta": 77.0},
        {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5},
        {"rope_type": "dynamic", "factor": 2.0},
    ],
    "rope_theta": [33.0], "partial_rotary_factor": [0.5], "head_dim": [2], "layer_types": [["sliding_attention"] * 2],
    "sliding_window": [2, 4096, None], "use_sliding_window": [True], "attention_bias": [True], "mlp_bias": [True],
    "attention_sinks": [4], "logit_scale": [0.5], "final_logit_softcapping": [30.0], "attn_logit_softcapping": [5.0],
    "query_pre_attn_scalar": [64], "residual_multiplier": [0.5], "embedding_multiplier": [2.0], "qk_norm": [True],
    "position_embedding_type": ["relative_key", "absolute"], "normalize_before": [True, False],
    "normalize_embedding": [True], "add_final_layer_norm": [True], "static_position_embeddings": [False],
    "scale_attn_by_inverse_layer_idx": [True], "parallel_attention": [True], "pruned_heads": [{"0": [1]}],
    "hidden_size": [8], "num_attention_heads": [1], "num_hidden_layers": [1], "max_position_embeddings": [8],
    "rms_norm_eps": [0.1], "layer_norm_eps": [0.1], "layer_norm_epsilon": [0.1], "pinyin_map_len": [32],
}  # fmt: skip


#: Fields that are records only.
WITHOUT_EFFECT = {"model_type", "transformers_version", "architectures", "dtype", "label2id", "id2label"}
KINDS = ["marian", "pegasus", "gpt2", "llama", "mistral, window 4", "qwen2", "bert", "distilbert"]
SIZES = {"marian": MARIAN, "pegasus": MARIAN, "gpt2": GPT2, "llama": LLAMA, "mistral": LLAMA, "qwen2": LLAMA,
         "bert": BERT, "distilbert": DISTIL}  # fmt: skip
PUBLIC: dict[str, dict[str, Any]] = {
    "marian": {
        "_num_labels": 3, "add_bias_logits": False, "add_final_layer_norm": False, "bad_words_ids": [[58100]],
        "classif_dropout": 0.0, "extra_pos_embeddings": 58101, "force_bos_token_to_be_generated": False,
        "gradient_checkpointing": False, "id2label": {"0": "LABEL_0"}, "is_encoder_decoder": True, "max_length": 512,
        "normalize_before": False, "normalize_embedding": False, "num_beams": 6, "num_hidden_layers": 2,
        "static_position_embeddings": True, "share_encoder_decoder_embeddings": True, "tokenizer_class": "x",
    },
    "pegasus": {
        "extra_pos_embeddings": 1, "force_bos_token_to_be_generated": False, "length_penalty": 0.8, "num_beams": 8,
        "normalize_before": True, "add_final_layer_norm": True, "static_position_embeddings": True,
        "task_specific_params": {"summarization": {"max_length": 32}}, "activation_function": "relu",
    },
    "gpt2": {
        "attn_pdrop": 0.1, "embd_pdrop": 0.1, "initializer_range": 0.02, "n_ctx": 32, "summary_type": "cls_index",
        "summary_first_dropout": 0.1, "summary_proj_to_labels": True, "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "torch_dtype": "float32",
    },
    "llama": {
        "is_llama_config": True, "rope_interleaved": False, "rope_scaling": None, "rope_theta": 1e5,
        "pretraining_tp": 1, "torch_dtype": "bfloat16", "transformers.js_config": {"dtype": "q4"}, "use_cache": True,
    },
    "mistral": {"sliding_window": 4096, "rope_theta": 1e4, "torch_dtype": "bfloat16", "use_cache": True},
    "qwen2": {"max_window_layers": 28, "sliding_window": 131072, "use_sliding_window": False, "rope_theta": 1e6},
    "bert": {
        "attention_probs_dropout_prob": 0.1, "directionality": "bidi", "gradient_checkpointing": False,
        "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3, "output_past": True,
        "pooler_size_per_head": 128, "pooler_type": "first_token_transform", "position_embedding_type": "absolute",
    },
    "distilbert": {
        "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True,
        "finetuning_task": "sst-2", "output_past": True,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("models")


def other_values(value: Any) -> list[Any]:
    """Return values unlike `value`, of the same kind."""
    if isinstance(value, bool) or value is None:
        return [not value]
    if isinstance(value, float):
        return [value / 2 + 0.3, 0.0]
    if isinstance(value, int):
        return [value + 1, value * 2 or 2, 0]
    if isinstance(value, str):
        return ["relu", "single_label_classification", "other"]
    return [[], ["other"]] if isinstance(value, list) else [{}]


def theirs(case: str, said: dict[str, Any], state: dict[str, Any], inputs: list[np.ndarray]) -> np.ndarray | None:
    """Return the logits of `transformers`, or None if it can't use the weights with this configuration.

    Everything is float64, also where `transformers` computes in float32 in a model of any dtype.
    """
    with warnings.catch_warnings(action="ignore"), pytest.MonkeyPatch.context() as patch:
        try:
            config = getattr(transformers, CASES[case][0]).from_dict(copy.deepcopy(said), attn_implementation="eager")
            model = getattr(transformers, CASES[case][1])(config)
            model.load_state_dict(state)
            mask = {"attention_mask": torch.tensor(inputs[0] != said.get("pad_token_id"))} if "bert" in case else {}
            model.eval().double()
            patch.setattr(torch.Tensor, "float", torch.Tensor.double)
            patch.setattr(torch, "float32", torch.float64)
            with torch.no_grad():
                return logits(model, *inputs, **mask).numpy()
        except Exception:  # of dozens of kinds
            return None


@cache
def made(case: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """Save a random model, and return its state, its configuration, and all configurations with one other field."""
    state = make(case, folder).state_dict()
    config = json.loads((folder / "config.json").read_text())
    everything = {**getattr(transformers, CASES[case][0])().to_dict(), **config}
    found = [{key: value for key, value in config.items() if key != name} for name in config]
    for name in sorted({*everything, *OTHERS} - WITHOUT_EFFECT):
        values = [*other_values(everything.get(name)), *OTHERS.get(name, [])]
        found += [{**config, name: value} for value in values]
    return state, config, found


@pytest.mark.search
@given(case=st.sampled_from(KINDS), choice=st.integers(0, 2**32))
def test_each_field_is_read_or_refused(folders, case, choice) -> None:
    """One field is removed or has another value: the logits are those of `transformers`, or the model is refused."""
    folder = folders / case
    state, config, others = made(case, folder)
    said = others[choice % len(others)]
    shapes = [(2, 9), (2, 7)] if case in ("marian", "pegasus") else [(2, 9)]
    inputs = [np.random.default_rng(choice).integers(5, 19, shape) for shape in shapes]
    (folder / "config.json").write_text(json.dumps(said))
    try:
        ours = load(folder, with_tokenizer=False, with_strategy=False).model
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - refused by name is right, too
        return
    expected = theirs(case, said, state, inputs)
    if expected is not None:
        changed = {name: said.get(name) for name in {*said, *config} if said.get(name) != config.get(name)}
        with no_grad():
            np.testing.assert_allclose(
                ours.astype(np.float64)(*inputs).data, expected, rtol=1e-6, atol=1e-6, err_msg=str(changed)
            )


@pytest.mark.parametrize(
    ("case", "name", "value"),
    [
        ("llama", "rope_scaling", {"rope_type": "linear", "factor": 4.0}),
        ("llama", "rope_scaling", {"type": "yarn", "factor": 4.0}),
        ("llama", "partial_rotary_factor", 0.5),
        ("llama", "attention_sinks", 4),
        ("mistral, window 4", "layer_types", ["full_attention", "sliding_attention"]),
        ("mistral, window 4", "sliding_window", 4096),
        ("qwen2", "layer_types", ["sliding_attention"] * 2),
        ("gpt2", "num_attention_heads", 2),
        ("bert", "pinyin_map_len", 32),
        ("marian", "num_hidden_layers", 1),
    ],
)
def test_fields_that_were_once_not_read(case, name, value, tmp_path) -> None:
    state = make(case, tmp_path).state_dict()
    path = tmp_path / "config.json"
    said = {**json.loads(path.read_text()), name: value}
    path.write_text(json.dumps(said))
    inputs = [RNG.integers(5, 19, (2, 9))]
    try:
        ours = load(tmp_path, with_tokenizer=False).model
    except InputError as error:
        assert name in str(error) or "rotary positions" in str(error)  # noqa: PT017 - refused by name is right, too
        return
    with no_grad():
        np.testing.assert_allclose(ours(*inputs).data, theirs(case, said, state, inputs), atol=1e-5)


def test_the_configurations_of_public_models_are_read() -> None:
    """Their fields, apart from the sizes, are those of models on the Hub."""
    for kind, more in PUBLIC.items():
        given = ReadConfig({"model_type": kind, **SIZES[kind], **more})
        ARCHITECTURES[kind].config_here(given)
        given.check_all_read(Path("config.json"))
