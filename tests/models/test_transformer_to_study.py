"""Compare the one-page Transformer with Seq2SeqTransformer, with the weights of an included model."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from handloom import load
from handloom.models import transformer_to_study
from handloom.models.transformer_to_study import transformer, weights_of

pytestmark = pytest.mark.slow
TEXT = Path(transformer_to_study.__file__).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def translator():
    return load("everyday-de-en")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_has_the_logits_and_gradients_of_the_model(dtype: str, translator) -> None:
    model = translator.model.astype(dtype).eval()
    source = np.array(translator.source_ids(["Wo ist der Bahnhof?"]))
    target = np.array([[1, *translator.tokenizer.encode("Where is the station?")]])
    gradient = np.random.default_rng(0).normal(size=(*target.shape, model.config.target_vocab_size)).astype(dtype)
    logits, gradients = [], []
    for compute in (model, lambda *ids: transformer(*ids, weights_of(model), model.config)):
        model.zero_grad()
        logits.append(compute(source, target))
        logits[-1].backward(gradient)
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    np.testing.assert_allclose(*(x.numpy() for x in logits), rtol=1e-5, atol=1e-5)
    for name, wanted in gradients[0].items():
        assert np.abs(gradients[1][name] - wanted).max() < 1e-5 * np.abs(wanted).max(), name


def test_each_function_names_the_files_of_the_real_layer_and_the_page_stays_short() -> None:
    assert len(TEXT.splitlines()) <= 100
    functions = [
        node for node in ast.parse(TEXT).body if isinstance(node, ast.FunctionDef) and node.name != "weights_of"
    ]
    assert len(functions) > 7
    for function in functions:
        files = re.findall(r"[\w/]+\.py", TEXT.splitlines()[function.lineno - 1])
        assert files, function.name
        assert all((Path(transformer_to_study.__file__).parents[1] / name).is_file() for name in files), function.name
