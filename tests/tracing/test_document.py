"""The recording's document: every reference has a target, and the document stays small."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import minitorch_attn as mt
from minitorch_attn.tracing.values import Values, grid_steps, plain


@pytest.fixture(scope="module")
def gpt():
    mt.manual_seed(3)
    model = mt.models.GPT(29, 16, 24, 2, 2)
    ids = mt.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]])
    with mt.trace(title="GPT", labels=list("abcdefghijk")) as t:
        logits = model(ids[:, :-1])
        mt.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
    return t


def references(document):
    for step in document["steps"]:
        for name in ("inputs", "outputs", "grads", "results"):
            yield from (r for r in step.get(name, ()) if isinstance(r, int))
        for addition in step.get("added", ()):
            yield from (
                addition[name]
                for name in ("tensor", "before", "contribution", "after")
                if addition[name] is not None
            )
    for attention in document["attention"]:
        yield from (attention["weights"], attention["scores"], attention["mask"])
    for fused in document["fused"]:
        yield from (r for r in (*fused["inputs"], *fused["outputs"]) if isinstance(r, int))


def test_ids_are_positions_and_every_reference_leads_somewhere(gpt):
    document = json.loads(json.dumps(gpt.document(), allow_nan=False))
    for name in ("tensors", "modules", "fused"):
        assert [entry["id"] for entry in document[name]] == list(range(len(document[name])))
    assert [step["id"] for step in document["steps"]] == [step.number for step in gpt.steps]
    assert [step.number for step in gpt.steps] == list(range(1, len(gpt.steps) + 1))
    assert set(references(document)) <= set(range(len(document["tensors"])))
    steps, modules = document["steps"], len(document["modules"])
    for step in steps:
        assert step["module"] is None or 0 <= step["module"] < modules
        assert step["function"] is None or step["function"] in document["functions"]
        if step["kind"] == "backward":
            of = steps[step["of"] - 1]
            assert (of["kind"], of["op"]) == ("forward", step["op"])
            assert len(step["results"]) == len(step["output_names"]) == len(of["inputs"])
    assert {step["kind"] for step in steps} == {"forward", "backward", "accumulate"}


def test_what_made_a_tensor_is_the_step_that_its_gradient_names(gpt):
    document = gpt.document()
    checked = 0
    for step in document["steps"]:
        for addition in step.get("added", ()):
            if addition["from_step"] is not None:
                made = document["steps"][addition["from_step"] - 1]
                assert addition["tensor"] in made["outputs"]
                checked += 1
    assert checked > 50


def test_fused_operations_name_their_steps(gpt):
    document = gpt.document()
    assert [fused["op"] for fused in document["fused"]] == ["Attention", "Attention"]
    for fused in document["fused"]:
        inside = document["steps"][fused["first"] - 1 : fused["last"]]
        assert {step["part_of"] for step in inside} == {fused["id"]}
        assert inside[-1]["outputs"] == fused["outputs"]


def test_labels_go_to_axes_of_their_length(gpt):
    for attention in gpt.document()["attention"]:
        assert attention["query_labels"] == attention["key_labels"] == list("abcdefghijk")
        assert attention["heads"] == 2


def test_lines_and_definitions_exist(gpt):
    from pathlib import Path

    root = Path(mt.__file__).parent.parent
    for step in gpt.document()["steps"]:
        if step["kind"] != "accumulate":
            at = step["definition"]
            line = (root / at["file"]).read_text().splitlines()[at["line"] - 1]
            assert line.strip().startswith(f"def {step['kind']}(ctx")
            source = step["source"]
            first, _, last, _ = source["span"]
            assert source["first"] == min(first, source["line"]) - 1
            assert len(source["text"]) == last - first + 3 and source["text"][1].strip()


def test_values_are_those_of_the_tensors(make):
    x = make(3, 5)
    x.array[0, 0], x.array[1, 2], x.array[2, 4] = np.nan, np.inf, -np.inf
    with mt.trace() as t:
        x.exp()
    tensor = t.document()["tensors"][0]
    assert (tensor["nan"], tensor["inf"], tensor["shape"]) == (1, 2, [3, 5])
    flat = x.numpy().reshape(-1)
    assert (tensor["values"][0], tensor["values"][7], tensor["values"][14]) == (
        "nan",
        "inf",
        "-inf",
    )
    finite = np.isfinite(flat)
    shown = np.array([float(v) for v in tensor["values"]])
    np.testing.assert_allclose(shown[finite], flat[finite], rtol=1e-4)
    np.testing.assert_allclose(tensor["mean"], flat[finite].mean(), rtol=1e-5)
    np.testing.assert_allclose(tensor["std"], flat[finite].std(), rtol=1e-5)
    assert (tensor["min"], tensor["max"]) == pytest.approx(
        (flat[finite].min(), flat[finite].max()), rel=1e-5
    )


def test_a_large_tensor_is_sampled_evenly():
    x = mt.tensor(np.arange(70 * 110.0).reshape(70, 110))
    with mt.trace() as t:
        x + 1
    tensor = t.document(values=500)["tensors"][0]
    rows, columns = tensor["sample"]["steps"]
    wanted = x.numpy()[::rows, ::columns]
    assert tensor["sampled"] and tensor["sample"]["shape"] == list(wanted.shape)
    assert tensor["values"] == wanted.reshape(-1).tolist() and 100 < len(tensor["values"]) <= 500
    assert tensor["mean"] == (70 * 110 - 1) / 2


def test_a_recording_of_much_fits_into_a_page():
    mt.manual_seed(3)
    model = mt.models.GPT(97, 64, 64, 4, 2)
    ids = mt.randint(0, 97, (2, 65))
    with mt.trace(expand=True) as t:
        logits = model(ids[:, :-1])
        mt.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
    document = t.document()
    assert len(json.dumps(document, separators=(",", ":"))) < 2.7e6
    weights = [document["tensors"][found["weights"]] for found in document["attention"]]
    assert all(len(tensor["values"]) > 2000 for tensor in weights)  # these keep theirs


@given(st.lists(st.integers(0, 40), max_size=4), st.integers(1, 60))
def test_a_sample_fits_and_uses_the_room(shape, count):
    steps = grid_steps(shape, count)
    array = np.zeros(shape)[tuple(slice(None, None, step) for step in steps)]
    assert array.size <= count
    if np.prod(shape) <= count:
        assert set(steps) <= {1}
    elif 0 not in shape:
        assert array.size * 2 ** len(shape) > min(count, np.prod(shape)) / 2


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(1, 30))
def test_places_in_a_sample_are_places_in_the_whole(shape, count):
    array = np.arange(np.prod(shape)).reshape(shape)
    values = Values(array, count)
    for index in np.ndindex(values.array.shape):
        assert array[values.place(index)] == values.array[index]
    grid, steps = values.grid(max(1, count // 3))
    assert_array_equal(grid, array[tuple(slice(None, None, step) for step in steps)])


def test_plain_numbers():
    assert plain(np.array([True, False])) == [1, 0]
    assert plain(np.array([3, -2])) == [3, -2]
    assert plain(np.array([1 / 3, 2.0, 1e300, np.nan])) == [0.33333, 2, 1e300, "nan"]
