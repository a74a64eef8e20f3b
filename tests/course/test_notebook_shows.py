"""What a notebook shows in a fresh kernel: figures, recordings, reports, modules and tensors."""

import base64
import html

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytestmark = pytest.mark.kernel

CELLS = {
    "figure": "import minitorch_attn as mt\nmt.viz.sinusoidal_figure(8, 16)",
    "figure with pyplot": "import matplotlib.pyplot as plt\nmt.viz.sinusoidal_figure(8, 16)",
    "recording": "with mt.trace() as t:\n    mt.softmax(mt.randn(2, 3), -1)\nt",
    "difference": "mt.trace_diff(t, t)",
    "report": "x = mt.randn(2, 3, dtype=mt.float64, requires_grad=True)\n"
    "mt.autograd.gradcheck_report(mt.exp, (x,))",
    "module": "mt.nn.Sequential(mt.nn.Linear(3, 5), mt.nn.ReLU())",
    "tensor": "mt.tensor([1.0, 2.5])",
    "table": "t.table()",
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Name of a cell -> the outputs that a fresh kernel gives."""
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(code) for code in CELLS.values()]
    folder = str(tmp_path_factory.mktemp("notebook"))
    client = nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": folder}})
    client.execute()
    return {name: cell["outputs"] for name, cell in zip(CELLS, book.cells, strict=True)}


@pytest.mark.parametrize("name", ["figure", "figure with pyplot"])
def test_a_figure_is_shown_once_and_as_a_picture(name, shown):
    pictures = [out["data"]["image/png"] for out in shown[name] if "image/png" in out["data"]]
    assert len(pictures) == 1 == len(shown[name])
    assert base64.b64decode(pictures[0]).startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["recording", "difference"])
def test_a_recording_shows_its_page_in_place(name, shown):
    (out,) = shown[name]
    page = out["data"]["text/html"]
    assert page.startswith("<iframe") and "srcdoc=" in page and len(page) > 10_000
    assert page.count("</iframe>") == 1 and "Softmax" in page


def test_the_cell_and_the_expression_in_it_are_named(shown):
    page = html.unescape(shown["recording"][0]["data"]["text/html"])
    assert '"file":"Cell In[3]","line":2' in page and '"span":[2,4,2,34]' in page
    assert "Cell In[3]:2: mt.softmax(mt.randn(2, 3), -1)" in shown["table"][0]["data"]["text/plain"]


def test_reports_modules_and_tensors_are_text_that_fits(shown):
    expected = {
        "report": "gradcheck: the gradient agrees", "module": "Sequential(",
        "tensor": "tensor([1. , 2.5])", "table": "forward",
    }  # fmt: skip
    for name, words in expected.items():
        (out,) = shown[name]
        text = out["data"]["text/plain"]
        assert words in text and "\\n" not in text, name
        assert max(map(len, text.splitlines())) <= 100, name
