"""The data of the views: the model's numbers, and errors for invalid requests."""

import base64
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from handloom.errors import InputError
from handloom.explorer import attention, beam, check, graph, merges, tiles
from handloom.explorer.asking import Ask
from handloom.explorer.mutants import MUTANTS
from handloom.explorer.step import recorded_step
from handloom.explorer.subject import load_subject
from handloom.models import beam_search, length_penalty
from handloom.nn import Dropout
from tests.support.explorer_run import SENTENCE


@pytest.fixture(scope="module")
def subject(run_folder: Path) -> Any:
    return load_subject(run_folder)


def unpacked(packed: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), packed["type"]).reshape(packed["shape"])


def test_the_next_tokens_are_those_of_softmax(subject: Any) -> None:
    seen = subject.watched(SENTENCE)
    logits = subject.logits(seen) / 2.0
    expected = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    shown = attention.following(subject, Ask({"text": SENTENCE, "temperature": 2.0}))["positions"]
    assert [one["written"] for one in shown] == seen.tokens["written"]
    for row, one in zip(expected, shown, strict=True):
        np.testing.assert_allclose([share for _, share in one["candidates"]], np.sort(row)[::-1][:10])
        assert one["entropy"] == pytest.approx(-(row * np.log(row)).sum())


def test_a_head_is_switched_off_for_one_pass_only(subject: Any) -> None:
    name = "encoder.layers.0.self_attn"
    before = attention.translate(subject, Ask({"text": SENTENCE}))
    off = attention.translate(subject, Ask({"text": SENTENCE, "off": [f"{name}/0", f"{name}/1"]}))
    assert unpacked(off["layers"][1]["weights"]).tolist() != unpacked(before["layers"][1]["weights"]).tolist()
    assert attention.translate(subject, Ask({"text": SENTENCE})) == before
    for wrong in (f"{name}/2", f"{name}/-1", name, "output/0", "/"):
        with pytest.raises(InputError, match="has no head"):
            attention.translate(subject, Ask({"text": SENTENCE, "off": [f"{name}/0", wrong]}))
    assert attention.translate(subject, Ask({"text": SENTENCE})) == before


@pytest.mark.parametrize(
    "body",
    [
        {"text": 3},
        {"text": "x" * 9999},
        {"layer": "output", "head": 0, "query": 0},
        {"layer": "encoder.layers.0.self_attn", "head": 2, "query": 0},
        {"layer": "encoder.layers.0.self_attn", "head": 0, "query": 99},
        {"layer": "encoder.layers.0.self_attn", "head": True, "query": 0},
        {"layer": ["encoder.layers.0.self_attn"], "head": 0, "query": 0},
    ],
)
def test_wrong_requests_are_refused(subject: Any, body: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        attention.head(subject, Ask({"text": SENTENCE, **body}))


@pytest.mark.parametrize(("width", "alpha"), [(1, 0.0), (3, 1.0), (5, 0.6)])
def test_the_leaves_of_the_tree_are_what_beam_search_returns(subject: Any, width: int, alpha: float) -> None:
    shown = beam.beam(subject, Ask({"text": SENTENCE, "width": width, "alpha": alpha}))
    search = subject.search(SENTENCE)
    expected = beam_search(search.state, search.rules, width=width, alpha=alpha, n_best=width)[0]
    nodes = shown["nodes"]
    leaves = sorted((node for node in nodes if node["rank"] is not None), key=lambda node: node["rank"])
    assert [leaf["score"] for leaf in leaves] == pytest.approx([hypothesis.score for hypothesis in expected], rel=1e-6)
    for leaf, hypothesis in zip(leaves, expected, strict=True):
        path, at = [], leaf
        while at["parent"] is not None:
            path.append(at["token"])
            at = nodes[at["parent"]]
        ids = hypothesis.ids if leaf["token"] != "<eos>" else [*hypothesis.ids, subject.tokenizer.eos_id]
        assert path[::-1] == subject.shown(ids)
        assert leaf["score"] == pytest.approx(leaf["log_probability"] / length_penalty(leaf["length"], alpha))
    assert {node["kind"] for node in nodes} <= {"root", "open", "finished", "pruned"}
    assert len({(node["x"], node["y"]) for node in nodes}) == len(nodes)  # no node hides another node


def test_the_tree_of_a_word_is_how_the_encoder_merges_it(subject: Any) -> None:
    for word in (" Ritter", " gesungen", "ä", "", "🙂"):
        shown = merges.merges(subject, Ask({"text": SENTENCE, "word": word}))
        nodes = shown["tree"]["nodes"]
        used = {part for node in nodes for part in node["parts"]}
        roots = [node for i, node in enumerate(nodes) if i not in used]
        if word:
            assert [node["text"] for node in roots] == subject.shown(subject.tokenizer.encode(word))
        for node in nodes:
            parts = [nodes[i] for i in node["parts"]]
            assert all(part["merge"] < node["merge"] and part["y"] > node["y"] for part in parts)
            assert node["made"] == (node["merge"] <= shown["merges"])
        assert len({(node["x"], node["y"]) for node in nodes}) == len(nodes)


@pytest.mark.parametrize("name", ["encoder.layers.0.self_attn", "decoder.layers.1.self_attn"])
@pytest.mark.parametrize("block", [2, 5, 32])
def test_blocked_attention_is_shown_as_it_runs(subject: Any, name: str, block: int) -> None:
    query = 4
    ask = Ask({"text": SENTENCE, "layer": name, "head": 1, "query": query, "block": block})
    shown = tiles.tiles(subject, ask)
    layer = subject.watched(SENTENCE).layer(name)
    queries, keys = layer.weights.shape[1:]
    weights = layer.weights[1].astype(np.float64)
    covered = np.zeros((queries, keys), int)
    for tile in shown["tiles"]:
        block = slice(*tile["queries"]), slice(*tile["keys"])
        covered[block] += 1
        assert not tile["skipped"] or not weights[block].any()
    assert (covered == 1).all()
    here = [tile for tile in shown["tiles"] if tile["queries"][0] <= query < tile["queries"][1]]
    mine = [tile for tile in here if not tile["skipped"]]
    assert [row["keys"] for row in shown["trace"]] == [tile["keys"] for tile in mine]
    q, k = layer.call.query[0, 1, query].astype(np.float64), layer.call.key[0, 1]
    scores = k @ q * layer.scale + layer.added()[1, query]
    for row in shown["trace"]:
        seen = scores[: row["keys"][1]]
        assert row["m"] == pytest.approx(seen.max(), rel=1e-5)
        assert row["l"] == pytest.approx(np.exp(seen - seen.max()).sum(), rel=1e-5)
        np.testing.assert_allclose(
            unpacked(row["o"]), np.exp(seen - seen.max()) @ layer.call.value[0, 1, : len(seen)], rtol=1e-4, atol=1e-5
        )
    for method in shown["methods"]:
        if "refused" in method:
            assert method["method"] == "fused"
        else:
            np.testing.assert_allclose(unpacked(method["output"]), layer.call.output[0, 1, query], atol=1e-5)
            assert method["error"] < 1e-5


@pytest.fixture(scope="module")
def whole_graph(subject: Any) -> dict[str, Any]:
    """Return the graph of a training step with every module open."""
    shown = graph.graph(subject, Ask({"text": "Er singt."}))
    while any(row["kind"] == "closed" for row in shown["rows"]):
        keys = [row["key"] for row in shown["rows"] if row["kind"] != "call"]
        shown = graph.graph(subject, Ask({"text": "Er singt.", "open": keys}))
    return shown


def test_the_graph_is_the_trace_and_its_gradients_are_those_of_backward(
    subject: Any, whole_graph: dict[str, Any]
) -> None:
    loss = subject.training_loss("Er singt.")()
    found, waiting = set(), [loss.origin.node]
    while waiting:
        node = waiting.pop()
        if node is not None and id(node) not in found:
            found.add(id(node))
            waiting += [origin.node for origin in node.inputs if origin is not None]
    rows = [row for row in whole_graph["rows"] if row["kind"] == "call"]
    assert whole_graph["count"] == len(rows) == len(found)
    assert [row["calls"] for row in rows] == [[i] for i in range(len(rows))]
    assert whole_graph["loss"] == loss.item()
    loss.backward()
    expected = {name: parameter.grad.copy() for name, parameter in subject.model.named_parameters()}
    subject.model.zero_grad()
    shown = {one["name"]: one["norm"] for one in whole_graph["parameters"]}
    assert set(shown) == set(expected)
    step = subject.step("Er singt.")
    for name, gradient in expected.items():
        np.testing.assert_array_equal(step.gradients[name], gradient)
        assert shown[name] == pytest.approx(np.linalg.norm(gradient))


def test_a_fused_call_has_the_gradients_of_its_composed_form(subject: Any, whole_graph: dict[str, Any]) -> None:
    fused = {row["name"]: row["calls"][0] for row in whole_graph["rows"] if row.get("form") == "fused"}
    assert {"ResidualLayerNorm", "StandardAttention", "LinearCrossEntropy"} <= set(fused)
    for number in fused.values():
        shown = graph.call(subject, Ask({"text": "Er singt.", "call": number}))
        assert shown["composed"]["gradients"]
        assert all(one["relative"] < 1e-4 for one in shown["composed"]["gradients"])
        assert [one["name"] for one in shown["sources"]] == ["plain", "forward", "backward"]
        assert "_plain(" in shown["sources"][0]["text"]
        assert shown["about"]
    shown = graph.call(subject, Ask({"text": "Er singt.", "call": fused["StandardAttention"]}))
    assert [one["name"] for one in shown["inputs"]][:3] == ["query", "key", "value"]


def test_a_planted_mistake_is_found_and_the_rule_itself_is_right(subject: Any, whole_graph: dict[str, Any]) -> None:
    numbers = {row["name"]: row["calls"][0] for row in whole_graph["rows"] if row["kind"] == "call"}
    missed = 0
    for op in ("Linear", "ResidualLayerNorm", "StandardAttention", "SplitHeads"):
        plain = check.check(subject, Ask({"text": "Er singt.", "call": numbers[op]}))
        assert plain["ok"], plain
        assert all(unpacked(one["analytic"]).shape == (len(one["positions"]),) for one in plain["inputs"])
        for mutant in plain["mutants"]:
            found = check.check(subject, Ask({"text": "Er singt.", "call": numbers[op], "plant": mutant["number"]}))
            assert not (found["ok"] and any(one["changed"] for one in found["inputs"])), mutant
            missed += found["ok"]
    assert missed == 1  # a post-norm layer does not use the sum, so one mistake has no effect
    again = check.check(subject, Ask({"text": "Er singt.", "call": numbers["Linear"]}))
    assert again["ok"]  # the planted mistake is removed
    with pytest.raises(InputError, match="can't be planted"):
        check.check(subject, Ask({"text": "Er singt.", "call": numbers["Linear"], "plant": 0}))


def test_a_mistake_in_few_entries_is_compared_where_it_is(subject: Any, whole_graph: dict[str, Any]) -> None:
    """With a dropout of 0.05 a forgotten mask changes few entries, and none of the largest ones."""
    for module in subject.model.modules():
        if isinstance(module, Dropout):
            module.p = 0.05
    try:
        step = recorded_step(subject.model, subject.training_loss("Er singt."))
    finally:
        for module in subject.model.modules():
            if isinstance(module, Dropout):
                module.p = subject.model.config.dropout
    number = next(i for i, mutant in enumerate(MUTANTS) if "Dropout" in mutant.kinds)
    calls = [call for call in step.calls if call.name == "Dropout"]
    assert calls
    for call in calls:
        of_step: Any = SimpleNamespace(step=lambda text: step)
        wrong = check.check(of_step, Ask({"call": call.number, "plant": number}))
        assert 0 < sum(one["changed"] for one in wrong["inputs"]) < 0.2 * wrong["inputs"][0]["size"]
        assert not wrong["ok"]


@pytest.mark.parametrize(
    "kind", ["LinearReLUCompiled", "LinearCrossEntropyCompiled", "LayerNormCompiled", "LinearReLUOnCPU"]
)
def test_a_derived_op_has_the_mistakes_of_the_rules_that_it_keeps(kind: str) -> None:
    pytest.importorskip("numba")
    from handloom.autograd.fast import compiled_ops

    own = getattr(compiled_ops, kind)
    found = {mutant.where.partition(":")[2] for mutant in MUTANTS if check.fits(mutant, own)}
    assert (
        found
        == {
            "LinearReLUCompiled": {"LinearOnCPU.gradients"},
            "LinearCrossEntropyCompiled": {"LinearCrossEntropyOnCPU.backward"},
            "LayerNormCompiled": set(),
            "LinearReLUOnCPU": {"LinearOnCPU.gradients", "LinearReLUOnCPU.mask_gradient"},
        }[kind]
    )


def test_a_call_of_each_kind_can_be_checked(subject: Any, whole_graph: dict[str, Any]) -> None:
    numbers = {row["name"]: row["calls"][0] for row in whole_graph["rows"] if row["kind"] == "call"}
    assert "MergeHeads" in numbers  # its in-place form accepts only views of one array; the check passes copies
    for number in numbers.values():
        found = check.check(subject, Ask({"text": "Er singt.", "call": number}))
        assert found["ok"], found
        assert not [one["name"] for one in found["inputs"] if "operand" in one["name"]]
