"""The page of a recording as a file: its data, its policy, its size."""

import base64
import hashlib
import json
import re

import pytest

import minitorch_attn as mt
from minitorch_attn.tracing.page import diff_page, page


def data_of(html):
    found = re.search(r'<script type="application/json" id="recording">(.*?)</script>', html, re.S)
    return json.loads(found[1])


def values_of(tensors, tensor):
    """The values of a tensor, through `same_as`."""
    by_id = {one["id"]: one for one in tensors}
    while isinstance(tensor["values"], dict):
        tensor = by_id[tensor["values"]["same_as"]]
    return tensor["values"]


def test_the_page_holds_the_document(transformer):
    data, document = data_of(transformer.html), transformer.document
    assert data["steps"] == document["steps"]
    assert data["modules"] == document["modules"]
    assert len(data["tensors"]) == len(document["tensors"])
    for written, tensor in zip(data["tensors"], document["tensors"], strict=True):
        assert values_of(data["tensors"], written) == tensor["values"]
        assert {**written, "values": None} == {**tensor, "values": None}


def test_repeated_values_are_written_once(transformer):
    repeated = [t for t in data_of(transformer.html)["tensors"] if isinstance(t["values"], dict)]
    assert len(repeated) > len(transformer.document["tensors"]) / 4


def test_a_transformer_of_two_layers_stays_below_three_megabytes():
    mt.manual_seed(0)
    model = mt.models.GPT(
        vocab_size=64, context_length=64, embed_dim=128, num_heads=4, num_layers=2
    )
    ids = mt.randint(0, 64, (4, 64))
    with mt.trace() as t:
        logits = model(ids)
        mt.nn.functional.cross_entropy(logits.reshape(-1, 64), ids.reshape(-1)).backward()
    assert len(page(t.document()).encode()) < 3_000_000


def test_of_many_attention_maps_some_are_kept_whole():
    mt.manual_seed(0)
    attention = mt.nn.Attention(embed_dim=12, num_heads=6)
    with mt.trace() as t:
        attention(mt.randn(8, 40, 12), mask=mt.masks.causal(40))
    document = t.document()
    entry = document["attention"][0]
    weights, mask = (document["tensors"][entry[name]] for name in ("weights", "mask"))
    assert weights["shape"] == [8, 6, 40, 40] and weights["sampled"]
    *_, queries, keys = weights["sample"]["shape"]
    assert (queries, keys) == (40, 40)
    rows = [weights["values"][i : i + keys] for i in range(0, len(weights["values"]), keys)]
    assert len(rows) >= 2 * queries
    assert [sum(row) for row in rows] == pytest.approx([1] * len(rows), abs=1e-3)
    lowest = [[int(key <= query) for key in range(40)] for query in range(40)]
    assert mask["values"][:1600] == [value for row in lowest for value in row]


def test_the_policy_allows_one_style_and_one_script_and_nothing_else(head):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', head.html)[1]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules.pop("default-src") == "'none'"
    assert rules.pop("base-uri") == rules.pop("form-action") == "'none'"
    for element, name in (("style", "style-src"), ("script", "script-src")):
        text = re.search(rf"<{element}>(.*?)</{element}>", head.html, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules.pop(name) == f"'sha256-{digest}'"
    assert rules == {}


def test_nothing_in_the_page_points_elsewhere(head):
    assert re.findall(r"(?:https?:)?//[a-z][\w.-]*\.[a-z]{2,}", head.html) == []
    assert re.findall(r"<(?:link|img|iframe|object|embed)\b|\bsrc=|@import|url\(", head.html) == []


@pytest.mark.parametrize("text", ["</script><b>x</b>", "{{data}} {{style}}", "<!-- a \u2028 b"])
def test_no_text_of_a_recording_can_leave_its_place(head, text):
    document = {**head.document, "title": text, "message": text}
    html = page(document)
    assert data_of(html)["title"] == text
    assert html.count("</script>") == head.html.count("</script>")


def test_the_page_of_a_difference_holds_both_recordings(head):
    with mt.trace() as mine:
        mt.ones(3).sum()
    with mt.trace() as other:
        (mt.ones(3) * 2).sum()
    difference = mt.trace_diff(mine, other).document()
    data = data_of(diff_page(difference))
    assert [data[name]["steps"] for name in ("mine", "reference")] == [
        difference[name]["steps"] for name in ("mine", "reference")
    ]
