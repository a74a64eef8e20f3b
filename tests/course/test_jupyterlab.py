"""JupyterLab: `mta lesson open` starts it, and figures and recordings appear in the page."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from browsing import new_tab
from course.test_notebook_shows import CELLS

from minitorch_attn.course.build.make_notebook import build_notebook
from minitorch_attn.course.notebooks import write_notebook

pytest.importorskip("jupyterlab", reason="needs JupyterLab: pip install -e '.[notebooks]'")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of the JupyterLab that `mta lesson open` starts, and its folder."""
    folder = tmp_path_factory.mktemp("lab")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"ServerApp": {"open_browser": False, "allow_root": True, "port": port}}
    (folder / "config").mkdir()
    (folder / "config/jupyter_server_config.json").write_text(json.dumps(settings))
    tracker = folder / "settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
    tracker.parent.mkdir(parents=True)
    tracker.write_text(json.dumps({"windowingMode": "none"}))  # draws cells that are out of sight
    cells = [*CELLS.values(), "plt.plot([1, 3, 2])\nplt.show()"]
    book = {"cells": [_cell(code) for code in cells], **_BOOK}
    beside = folder / "runs/lessons/09"  # JupyterLab shows the folder of the lesson
    beside.mkdir(parents=True)
    (beside / "shows.ipynb").write_text(json.dumps(book))
    own = build_notebook()
    own.cells = own.cells[:11]  # the first two functions; one is answered
    own.cells[5].source = build_notebook(answers=True).cells[5].source
    write_notebook(own, beside / "my_gpt.ipynb")
    root = str(Path(__file__).resolve().parents[2])
    environment = {
        **os.environ, "JUPYTER_CONFIG_DIR": str(folder / "config"), "PYTHONPATH": root,
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"), "IPYTHONDIR": str(folder / "ipython"),
        "MTA_STATE": str(folder / "state"),
    }  # fmt: skip
    environment.pop("MPLBACKEND", None)  # a kernel keeps it, and plt.show() of Agg shows nothing
    process = subprocess.Popen(
        [sys.executable, "-m", "minitorch_attn", "lesson", "open", "09"], cwd=folder, text=True,
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    said = ""
    for line in process.stdout:
        said += line
        if found := re.search(rf"http://(?:localhost|127\.0\.0\.1):{port}/\S+token=(\w+)", line):
            break
    else:
        pytest.fail(f"JupyterLab did not start:\n{said}")
    yield f"http://127.0.0.1:{port}/lab/tree/{{}}?token={found[1]}&reset", said
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


_BOOK = {
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    "nbformat": 4, "nbformat_minor": 5,
}  # fmt: skip


def _cell(code):
    return {
        "cell_type": "code", "source": code, "metadata": {}, "outputs": [],
        "execution_count": None, "id": f"cell-{abs(hash(code))}",
    }  # fmt: skip


def test_the_lesson_is_what_it_opens(lab):
    assert "09_why_sqrt_d.ipynb" in lab[1] and "opening it with jupyter-lab" in lab[1]


def test_figures_and_recordings_appear_in_the_page(lab, browser):
    tab = new_tab(browser, viewport={"width": 1200, "height": 900})
    tab.goto(lab[0].format("shows.ipynb"))
    tab.wait_for_selector(".jp-Notebook .jp-CodeCell")
    tab.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    tab.get_by_role("menuitem", name="Run", exact=True).click()
    tab.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    tab.get_by_text("tensor([1. , 2.5])", exact=True).wait_for()
    pictures = tab.locator(".jp-OutputArea-output img")
    frames = tab.locator(".jp-OutputArea-output iframe")
    frames.nth(1).wait_for()
    pictures.nth(2).wait_for()
    assert (pictures.count(), frames.count()) == (3, 2)
    assert tab.locator(".jp-OutputArea-output[data-mime-type*='stderr']").count() == 0
    stepper = frames.nth(0).content_frame
    stepper.get_by_text("y = exp(x) / sum(exp(x))").first.wait_for()
    frames.nth(1).content_frame.get_by_text("The recordings agree").first.wait_for()
    if folder := os.environ.get("MTA_SCREENSHOTS"):
        tab.screenshot(path=Path(folder) / "jupyterlab.png")
    tab.close()


def test_the_build_is_checked_in_the_page(lab, browser):
    tab = new_tab(browser, viewport={"width": 1200, "height": 900})
    tab.goto(lab[0].format("my_gpt.ipynb"))
    tab.wait_for_selector(".jp-Notebook .jp-CodeCell")
    tab.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    tab.get_by_role("menuitem", name="Run", exact=True).click()
    tab.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    tab.get_by_text("Value.__init__: values ✓").wait_for()
    tab.get_by_text("Value.backward is not written yet").wait_for()
    errors = tab.locator(".jp-OutputArea-output[data-mime-type*='stderr']")
    assert errors.count() == 1 and "Traceback" not in errors.inner_text()
    hint = tab.locator("details p", has_text="Four assignments.")
    assert not hint.is_visible()
    tab.get_by_text("Hint", exact=True).first.click()
    hint.wait_for()
    if folder := os.environ.get("MTA_SCREENSHOTS"):
        tab.screenshot(path=Path(folder) / "build_notebook.png")
    tab.close()
