"""Every name that a page refers to is found on the line that defines it."""

import re

import pytest
from sitebuilder import source_links
from sitebuilder.doors import doors
from sitebuilder.names import ROOT, UnknownNameError, locate

DOCS = ROOT / "docs"
PAGES = source_links.pages()
TERMS = (DOCS / "where_is_it.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
NAMES = [
    (page, name) for page in PAGES for name in source_links.names(page.read_text(encoding="utf-8"))
]

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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_to_the_present_line(page):
    text = page.read_text(encoding="utf-8")
    assert text == source_links.refreshed(text, page.parent), "run: make -C docs links"


def test_a_line_that_moves_is_noticed():
    link = source_links.refreshed("{where}`ops.softmax.Softmax`", DOCS)
    line = int(re.search(r"#L(\d+)", link)[1])
    moved = link.replace(f"#L{line}", f"#L{line + 1}")
    assert moved != link == source_links.refreshed(moved, DOCS)
    assert link.startswith(f"[`ops/softmax.py:{line}`](../minitorch_attn/ops/softmax.py#L{line} ")


def test_a_label_in_words_stays():
    link = source_links.refreshed("{where}`softmax <ops.softmax.Softmax>`", ROOT)
    assert link.startswith("[`softmax`](minitorch_attn/ops/softmax.py#L")
    assert source_links.as_roles(link) == "{where}`softmax <ops.softmax.Softmax>`"


def test_at_least_sixty_terms_have_a_place():
    rows = [line for line in TERMS.splitlines() if line.startswith("| **")]
    assert len(rows) >= 60
    assert all(source_links.names(row) for row in rows)


def test_readme_and_site_link_the_pages_that_lead_into_the_code():
    guides = [page.stem for page in DOCS.glob("add_a*.md")]
    assert len(guides) >= 6
    home = (DOCS / "index.md").read_text(encoding="utf-8")
    home += "".join(f"]({page})" for _, page, _ in doors(README))
    for stem in ("where_is_it", "walk", "architecture", *guides):
        assert f"](docs/{stem}.md)" in README
        assert f"]({stem}.md)" in home


def test_the_layout_table_names_every_folder():
    table = README[README.index("## Layout") : README.index("## License")]
    named = set(re.findall(r"`([\w/]+/)`", table))
    package = ROOT / "minitorch_attn"
    parts = {f"minitorch_attn/{path.parent.name}/" for path in package.glob("*/__init__.py")}
    tops = {"lessons/", "exercises/", "assignments/", "tests/", "docs/", "benchmarks/", "tools/"}
    assert named >= parts | tops
    assert all((ROOT / name).is_dir() or list(package.rglob(f"{name[:-1]}/")) for name in named)


@pytest.mark.parametrize("term", [term.strip() for term in SEARCHED.split(";")])
def test_what_is_searched_for_is_a_term_with_a_place(term):
    rows = [row for row in TERMS.splitlines() if row.startswith("|") and source_links.names(row)]
    words = [row.split("[`")[0].lower() for row in rows]
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
    assert locate("Tensor.exp").text == "def exp(input):"
    assert locate("Tensor.add_").text == "def add(input, other, *, alpha=1):"
    assert locate("Tensor.__matmul__").file == "minitorch_attn/tensor.py"
    assert locate("models.gpt2").text == "def gpt2(**settings):"
    assert locate("data.cifar.CIFAR10_CLASSES").text.startswith("CIFAR10_CLASSES = ")
