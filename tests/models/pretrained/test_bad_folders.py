"""Test that each unusable folder gives one clear error."""

import builtins
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from handloom import models
from handloom.errors import InputError
from handloom.models.pretrained import load, save

SIZES: dict[str, Any] = {"d_model": 16, "nhead": 2, "layers": 2, "dim_feedforward": 24}
GPT2 = models.LanguageModelConfig(20, **SIZES, tie_output=True)
LLAMA = models.LanguageModelConfig(
    20, **SIZES, norm="rms", positions="rotary", activation="swiglu", bias="none", output_bias=False
)


@pytest.fixture
def folder(tmp_path) -> Path:
    return save(models.LanguageModel(GPT2), None, tmp_path / "model")


def change(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))


def rewrite(folder: Path, edit: Any) -> None:
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors")


def refused(folder: Any, match: str, **options: Any) -> None:
    with pytest.raises(InputError, match=match) as caught:
        load(folder, with_tokenizer=False, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"n_layer": 10**7}, r"layers is 10000000, but it must be a whole number from 1 to 1,000. Fetch it again"),
        ({"n_layer": 1000}, r"transformer.h.2.attn.c_attn.weight is missing; .*; .*Fetch both again"),
        ({"n_embd": 10**9}, r"d_model is 1000000000, but it must be a whole number"),
        ({"n_positions": 10**12}, r"max_length is 1000000000000, but it must be a whole number"),
        ({"n_positions": 10**6}, r"wpe.weight is \(128, 16\)"),
        ({"vocab_size": 21}, r"wte.weight is \(20, 16\), but config.json requires \(21, 16\)"),
        ({"vocab_size": -5}, r"vocab_size = -5"),
        ({"n_head": 3}, r"embed_dim 16 is not divisible by num_heads 3"),
        ({"n_head": 0}, r"can't be used"),
        ({"n_layer": "many"}, r"can't be used"),
        ({"model_type": "t5"}, r"of the type 't5', which handloom does not support; it supports marian"),
        ({"model_type": None}, r"of the type None"),
        ({"model_type": ["gpt2"]}, r"of the type \['gpt2'\]"),
        ({"activation_function": "mish"}, r"activation_function is 'mish', which handloom does not support"),
        ({"reorder_and_upcast_attn": True}, r"reorder_and_upcast_attn is True"),
        ({"quantization_config": {"bits": 4}}, r"quantised weights"),
        ({"tie_word_embeddings": False}, r"lm_head.weight is missing"),
        ({"id2label": {}, "n_layer": 1}, r"transformer.h.1.attn.c_attn.weight is unknown to this architecture"),
    ],
)
def test_a_configuration_that_can_t_be_used(folder, values, match) -> None:
    change(folder, **values)
    refused(folder, match)


def test_weights_that_don_t_fit(folder) -> None:
    name = "transformer.h.1.mlp.c_fc.weight"
    rewrite(folder, lambda tensors: tensors.update({name: tensors[name].T.copy()}))
    refused(folder, r"c_fc.weight is \(24, 16\), but config.json requires \(16, 24\)")
    rewrite(folder, lambda tensors: tensors.update({name: np.zeros((16, 24), np.int8)}))
    refused(folder, r"c_fc.weight has dtype I8")
    rewrite(folder, lambda tensors: tensors.pop(name))
    refused(folder, r"c_fc.weight is missing")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "model",
    [
        models.LanguageModel(GPT2),
        models.LanguageModel(LLAMA),
        models.Seq2SeqTransformer(models.Seq2SeqConfig(9, 9, 16, 2, 1, 1, 24, max_length=8)),
        models.TransformerClassifier(
            models.ClassifierConfig(9, 2, 16, 2, 1, activation="gelu", positions="learned", scale_embedding=False,
                             token_types=2, embedding_norm=True, pooler="tanh")
        ),
    ],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_weights_that_are_not_finite(tmp_path, model, value) -> None:
    folder = save(model, None, tmp_path)
    name = next(name for name in load_file(folder / "model.safetensors") if name.endswith("weight"))
    rewrite(folder, lambda tensors: tensors[name].put(3, value))
    refused(folder, rf"model.safetensors can't be used: .*{name}.* contains values that are not finite numbers")


def test_tied_weights_that_are_stored_twice(folder) -> None:
    tied = "lm_head.weight"
    rewrite(folder, lambda tensors: tensors.update({tied: tensors["transformer.wte.weight"].copy()}))
    load(folder, with_tokenizer=False)
    rewrite(folder, lambda tensors: tensors.pop("transformer.wte.weight"))
    load(folder, with_tokenizer=False)  # stored only under the other name
    rewrite(folder, lambda tensors: tensors.update({"transformer.wte.weight": tensors[tied] + 1}))
    refused(folder, r"wte.weight and lm_head.weight differ, and config.json says that they are tied")


def test_files_that_are_missing_or_damaged(folder, tmp_path) -> None:
    index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
    single.rename(folder / "one.safetensors")
    index.write_text(json.dumps({"weight_map": {"transformer.wte.weight": "model-00001-of-00002.safetensors"}}))
    refused(folder, r"model-00001-of-00002.safetensors is damaged or is not a safetensors file .*No such file")
    index.write_text(json.dumps({"weight_map": {"transformer.nothing": "one.safetensors"}}))
    refused(folder, r"does not contain the tensor transformer.nothing, which")
    index.write_text("[]")
    refused(folder, r"contains a JSON list where an object is expected")
    for name in ("../one.safetensors", str(folder / "one.safetensors"), "..", "one.bin", 3):
        index.write_text(json.dumps({"weight_map": {"transformer.nothing": name}}))
        refused(folder, r"index.json has no weight_map of files in that folder. Fetch it again")
    index.unlink()
    (folder / "one.safetensors").rename(single)
    whole = (folder / "model.safetensors").read_bytes()
    for data in (whole[:-100], b"", b"\xff" * 64, (10**15).to_bytes(8, "little") + b"{}"):
        (folder / "model.safetensors").write_bytes(data)
        refused(folder, r"is damaged or is not a safetensors file")
    (folder / "model.safetensors").unlink()
    refused(folder, r"contains no model.safetensors")
    for text, match in (("{", "is not valid JSON"), ("[" * 10**5, "nested too deep"), ("3", "a JSON int")):
        (folder / "config.json").write_text(text)
        refused(folder, match)
    (folder / "config.json").unlink()
    refused(folder, r"holds no config.json, so it is not a folder of transformers")


def test_pickled_weights_are_never_opened(folder) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (open, (str(folder / "opened"), "w"))

    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    refused(folder, r"The weights in .* are pickled \(pytorch_model.bin\).*save_pretrained\(FOLDER\)")
    assert not (folder / "opened").exists()


def test_a_table_that_is_made_and_not_read_has_a_limit(tmp_path) -> None:
    model = models.Seq2SeqTransformer(models.Seq2SeqConfig(9, 9, 16, 2, 1, 1, 24, max_length=8))
    folder = save(model, None, tmp_path)
    change(folder, max_position_embeddings=10**12)
    refused(folder, r"max_position_embeddings is 1000000000000, but handloom supports at most 32,768")
    change(folder, max_position_embeddings=8, normalize_before=True)
    refused(folder, r"normalize_before is True, but handloom supports only False")


def test_llamas_of_other_kinds(tmp_path) -> None:
    folder = save(models.LanguageModel(LLAMA), None, tmp_path)
    change(folder, rope_parameters={"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4})
    refused(folder, r"have the scaling 'yarn', but handloom supports only default, linear, llama3")
    change(folder, rope_parameters={"rope_type": "llama3", "factor": 4.0})
    refused(folder, r"have the scaling 'llama3', but rope_parameters lacks low_freq_factor")
    change(folder, rope_parameters=None, hidden_act="gelu")
    refused(folder, r"hidden_act is 'gelu'")
    change(folder, hidden_act="silu", num_key_value_heads=3)
    refused(folder, r"num_heads 2 is not divisible by kv_heads 3")


def test_names_that_can_t_be_fetched(folder, monkeypatch, tmp_path) -> None:
    refused(tmp_path / "nothing", r"There is no folder .*nothing. Give a model's folder, or a name on the Hub")
    refused(folder, r"has no revision 'main'", revision="main")
    monkeypatch.chdir(tmp_path)
    hub = pytest.importorskip("huggingface_hub")

    def fails(name: str, **options: Any) -> None:
        assert options["revision"] == "v1"
        assert "*.bin" not in options["allow_patterns"]
        raise ConnectionError("no network\nat all")

    monkeypatch.setattr(hub, "snapshot_download", fails)
    match = (
        r"no folder owner/model, and the .* Hub can't be used .*no network.* from https://huggingface.co/owner/model"
    )
    refused("owner/model", match + " into a folder", revision="v1")
    monkeypatch.setattr(hub, "snapshot_download", lambda name, **options: str(folder))
    load("owner/model", with_tokenizer=False)
    real = builtins.__import__

    def absent(name: str, *more: Any) -> Any:
        if name == "huggingface_hub":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", absent)
    refused("owner/model", r"no folder owner/model, .* pip install huggingface_hub\. Without it: fetch")
