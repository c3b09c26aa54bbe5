"""Checkpoints: bit-equal round trips, and files that can't be loaded."""

import json
import os
import pickle
import re
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from safetensors.numpy import save_file

from handloom.errors import InputError
from handloom.train.runs import checkpoints
from handloom.train.runs.checkpoints import MODEL_FILE, load_checkpoint, save_checkpoint

TENSORS = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "a.bias": np.ones(3)}
CONFIG = {"model": {"d_model": 8}, "name": "Grüße", "step": 3}

dtypes = st.one_of(nps.floating_dtypes(endianness="<"), nps.integer_dtypes(endianness="<"), st.just(np.dtype(bool)))
arrays = dtypes.flatmap(
    lambda dtype: nps.arrays(dtype, nps.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


def refusal(folder) -> str:
    with pytest.raises(InputError) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@given(st.dictionaries(st.text(max_size=8), arrays, max_size=4))
def test_round_trip_is_bit_equal(tmp_path_factory, tensors):
    folder = tmp_path_factory.mktemp("checkpoint")
    save_checkpoint(folder, tensors, CONFIG)
    loaded, config = load_checkpoint(folder)
    assert config == CONFIG
    assert loaded.keys() == tensors.keys()
    for name, array in tensors.items():
        assert loaded[name].dtype == array.dtype
        assert loaded[name].shape == array.shape
        assert loaded[name].tobytes() == array.tobytes()


def test_the_same_content_gives_the_same_bytes(tmp_path):
    files = {save_checkpoint(tmp_path, TENSORS, CONFIG).read_bytes() for _ in range(8)}
    assert len(files) == 1
    other = save_checkpoint(tmp_path, dict(reversed(TENSORS.items())), CONFIG).read_bytes()
    assert files == {other}


def test_strided_views_and_big_endian_arrays_keep_their_values(tmp_path):
    whole = np.arange(24.0).reshape(4, 6)
    tensors = {
        "transposed": whole.T,
        "every other": whole[::2, ::-1],
        "big": whole.astype(">f4"),
        "scalar": whole[1, 1],
    }
    save_checkpoint(tmp_path, tensors, {})
    np.testing.assert_equal(load_checkpoint(tmp_path).tensors, tensors)


@pytest.mark.parametrize("value", [[1.0], "x", np.array(["x"]), np.array([1j]), np.array([None])])
def test_what_is_no_array_of_numbers(tmp_path, value):
    with pytest.raises(TypeError, match=r"tensor 'w' is a .*NumPy arrays of real numbers"):
        save_checkpoint(tmp_path, {"w": value}, {})
    assert os.listdir(tmp_path) == []


def test_config_that_json_cannot_hold(tmp_path):
    for config, error in (({"x": float("inf")}, ValueError), ({"x": np.ones(2)}, TypeError)):
        with pytest.raises(error):
            save_checkpoint(tmp_path, TENSORS, config)


def test_missing_folder_and_file(tmp_path, monkeypatch):
    assert f"{tmp_path / 'none'} does not exist" in refusal(tmp_path / "none")
    assert "holds no model.safetensors, which a run has after its first validation" in refusal(tmp_path)
    save_checkpoint(tmp_path, TENSORS, CONFIG)
    monkeypatch.setattr("builtins.open", Mock(side_effect=PermissionError(13, "Permission denied")))
    assert "model.safetensors can't be read: Permission denied." in refusal(tmp_path)


@pytest.mark.parametrize("kept", [0, 4, 8, 40, 200, -1])
def test_truncated(tmp_path, kept):
    path = save_checkpoint(tmp_path, TENSORS, CONFIG)
    path.write_bytes(path.read_bytes()[:kept])
    message = refusal(tmp_path)
    assert f"{path} is damaged or is not a safetensors file" in message
    assert "copy it again" in message


def test_safetensors_of_others_and_of_another_version(tmp_path):
    save_file({"w": np.ones(2)}, tmp_path / MODEL_FILE)
    assert "not a checkpoint of this version" in refusal(tmp_path)
    metadata = {"format": "handloom-checkpoint", "version": "99", "config": "{}"}
    save_file({"w": np.ones(2)}, tmp_path / MODEL_FILE, metadata=metadata)
    assert "not a checkpoint of this version" in refusal(tmp_path)


@pytest.mark.parametrize("config", ["{not json", None, "[" * 100_000, '{"x": NaN}'])
def test_malformed_configuration(tmp_path, config):
    tensors = {"w": np.ones(2)}
    full = {"format": "handloom-checkpoint", "version": "2"}
    full |= {} if config is None else {"config": config, "checksum": checkpoints._checksum(tensors, config, {})}
    save_file(tensors, tmp_path / MODEL_FILE, metadata=full)
    assert re.search("is damaged|not valid JSON", refusal(tmp_path))


def test_no_byte_can_change_unnoticed(tmp_path):
    """A file with one flipped bit in any byte is refused, unless the loaded content is unchanged."""
    path = save_checkpoint(tmp_path, {"w": np.arange(3, dtype=np.float32)}, {"d_model": 8})
    content = path.read_bytes()
    for offset in range(len(content)):
        changed = bytearray(content)
        changed[offset] ^= 1 << offset % 8
        path.write_bytes(changed)
        try:
            tensors, config = load_checkpoint(tmp_path)
        except InputError:
            continue
        assert (tensors["w"].tolist(), config) == ([0, 1, 2], {"d_model": 8}), offset
    path.write_bytes(content)
    assert load_checkpoint(tmp_path).config == {"d_model": 8}


def test_pickle_is_refused_unread(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    (tmp_path / MODEL_FILE).write_bytes(pickle.dumps(Bomb()))
    assert "is not a safetensors file" in refusal(tmp_path)
    assert not (tmp_path / "exploded").exists()


def test_configuration_can_be_read_without_handloom(tmp_path):
    path = save_checkpoint(tmp_path, TENSORS, CONFIG)
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert json.loads(header["__metadata__"]["config"]) == CONFIG


def test_an_array_with_several_names_is_stored_once(tmp_path: Path) -> None:
    table = np.arange(1000.0)
    alone = save_checkpoint(tmp_path, {"a": table}, CONFIG).stat().st_size
    path = save_checkpoint(tmp_path, {"a": table, "b": np.ones(2), "c": table}, CONFIG)
    assert path.stat().st_size < alone + 500
    loaded, _ = load_checkpoint(tmp_path)
    assert loaded["a"] is loaded["c"]
    np.testing.assert_array_equal(loaded["c"], table)
    again = path.read_bytes()
    save_checkpoint(tmp_path, loaded, CONFIG)
    assert path.read_bytes() == again


@pytest.mark.parametrize(("bits", "largest"), [(8, 127), (6, 31)])
def test_rounded_matrices_come_back_to_half_a_step(tmp_path: Path, bits: int, largest: int) -> None:
    generator = np.random.default_rng(0)
    table = generator.normal(size=(5, 300)).astype(np.float32) * np.array([[0], [1e-6], [1], [1], [1e6]], np.float32)
    tensors = {"table": table, "bias": generator.normal(size=300).astype(np.float32), "output": table}
    path = save_checkpoint(tmp_path, checkpoints.rounded(tensors, bits), CONFIG)
    assert path.stat().st_size < table.size + 4 * 300 + 1000
    loaded = load_checkpoint(tmp_path).tensors
    assert loaded.keys() == tensors.keys()
    assert loaded["output"] is loaded["table"]
    assert loaded["table"].dtype == np.float32
    np.testing.assert_array_equal(loaded["bias"], tensors["bias"])
    step = np.abs(table).max(axis=1, keepdims=True) / largest
    assert (np.abs(loaded["table"] - table) <= 0.5001 * step).all()


def test_names_of_arrays_that_are_not_there_are_refused(tmp_path: Path) -> None:
    table = np.arange(3.0)
    path = save_checkpoint(tmp_path, {"a": table, "b": table}, CONFIG)
    content = path.read_bytes()
    for wrong in ('["b", "a"]  ', '{"b": "x"}'):
        quoted, old = (json.dumps(text)[1:-1].encode() for text in (wrong, '{"b": "a"}'))
        path.write_bytes(content.replace(old, quoted.ljust(len(old))[: len(old)], 1))
        with pytest.raises(InputError):
            load_checkpoint(tmp_path)
