"""Every name that a page gives the place of is found, on the line that defines it."""

import re

import pytest
from sitebuilder import pages
from sitebuilder.names import ROOT, UnknownNameError, locate

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
TERMS = (DOCS / "where_is_it.md").read_text(encoding="utf-8")
NAMES = [(page, name) for page in PAGES for name in pages.names(page.read_text(encoding="utf-8"))]

# What students look for, in the words they use.
SEARCHED = """
attention; scaled dot product; softmax; causal mask; padding mask; KV cache; LayerNorm; GELU;
rotary; beam search; byte-pair encoding; relative position bias; shifted window mask; gradient
accumulation; sum_to_shape; multi-head attention; cross-attention; sinusoidal; learned positions;
window partition; patch embedding; patch merging; class token; masked autoencoder; dropout;
embedding; residual; feed-forward; cross-entropy; label smoothing; Adam; warm-up; gradient
clipping; temperature; top-k; top-p; greedy; online softmax; additive attention; gradient check;
checkpointing; topological order; save_for_backward; no_grad; tied weights; grouped-query; RMSNorm;
SwiGLU; flash attention; perplexity; convolution; attention rollout; CuPy; 1/sqrt(d)
"""


@pytest.mark.parametrize(("page", "name"), NAMES, ids=lambda value: getattr(value, "name", value))
def test_a_name_has_a_line_that_defines_it(page, name):
    place = locate(name)
    line = (ROOT / place.file).read_text(encoding="utf-8").splitlines()[place.line - 1]
    last = name.rpartition(".")[2]
    is_module = place.line == 1
    assert is_module or re.search(rf"\b(def|class) {last}\b|^{last}\b", line.strip()), line


def test_at_least_forty_terms_have_a_place():
    rows = [line for line in TERMS.splitlines() if line.startswith("| **")]
    assert len(rows) >= 40
    assert all(pages.names(row) for row in rows)


@pytest.mark.parametrize("term", [term.strip() for term in SEARCHED.split(";")])
def test_what_is_searched_for_is_a_term_with_a_place(term):
    rows = [row for row in TERMS.splitlines() if row.startswith("|") and pages.names(row)]
    words = [row.split("{where}")[0].lower() for row in rows]
    assert any(" ".join(term.split()).lower() in row for row in words)


@pytest.mark.parametrize(
    "name",
    ["ops.softmax.Softmaxx", "ops.softmax.Softmax.backwards", "opps.softmax", "nn.Linear.x"],
)
def test_a_name_that_is_gone_is_refused(name):
    with pytest.raises(UnknownNameError):
        locate(name)


def test_what_is_not_of_this_package_is_refused():
    with pytest.raises(UnknownNameError, match="outside"):
        locate("ops.softmax.warnings.WarningMessage")


def test_wrapped_inherited_and_assigned_things_are_found():
    assert locate("nn.Linear").text == "class Linear(Module):"
    assert locate("masks.causal").text.startswith("def causal(")
    assert locate("tensor.Tensor.shape").text == "def shape(self):"
    assert locate("Tensor.exp").file == "minitorch_attn/methods/elementwise.py"
    assert locate("models.gpt2").text == "def gpt2(**settings):"
    assert locate("data.cifar.CIFAR10_CLASSES").text.startswith("CIFAR10_CLASSES = ")


def test_names_are_read_from_both_forms_of_the_role():
    assert pages.names("{where}`a.b`, {where}`text <c.d>`, `e.f`") == ["a.b", "c.d"]
