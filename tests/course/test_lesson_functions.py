"""Functions for lessons: pick, show, where and fails."""

import inspect
import re
import sys
import types
from pathlib import Path

import pytest

import minitorch_attn as mt
from minitorch_attn.course import lesson
from minitorch_attn.course.lesson import fails, pick, show, where
from minitorch_attn.errors import ArgumentError, ShapeError
from minitorch_attn.viz.style import new_figure

ROOT = Path(mt.__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    monkeypatch.setattr(lesson, "_shown", {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "sphinx_gallery.gen_rst", raising=False)


@pytest.mark.parametrize(
    ("value", "picked"), [(None, 1), ("", 1), ("0", 1), ("false", 1), ("1", 2), ("yes", 2)]
)
def test_pick_follows_the_environment(monkeypatch, value, picked):
    monkeypatch.delenv("MTA_FAST", raising=False)
    if value is not None:
        monkeypatch.setenv("MTA_FAST", value)
    assert pick(1, 2) == picked


# where

PLACES = [
    (mt.softmax, "function softmax"),
    (mt.ops.softmax, "function softmax"),
    (mt.nn.Linear, "class Linear"),
    (mt.nn.Linear.forward, "method Linear.forward"),
    (mt.nn.Linear(2, 2).forward, "method Linear.forward"),
    (mt.no_grad, "class no_grad"),
    (mt.Tensor.shape, "method Tensor.shape"),
    (mt.Tensor.__matmul__, "method Tensor.__matmul__"),
    (mt.data.tokenizers.ByteBPE.from_files, "method ByteBPE.from_files"),
    (mt.nn.collect_attention, "function collect_attention"),
    (mt.viz, "module minitorch_attn.viz"),
    (mt.errors, "module minitorch_attn.errors"),
]


@pytest.mark.parametrize(("thing", "name"), PLACES, ids=[name for _, name in PLACES])
def test_where_names_the_line_of_the_definition(capsys, thing, name):
    where(thing)
    place, _, printed = capsys.readouterr().out.strip().partition("  ")
    assert printed.strip() == name
    file, number = place.split(":")
    line = (ROOT / file).read_text().splitlines()[int(number) - 1]
    if inspect.ismodule(thing):
        assert (ROOT / file).samefile(thing.__file__) and number == "1"
    else:
        assert re.search(rf"\b(def|class) {name.split()[1].rsplit('.')[-1]}\b", line), line


def test_where_finds_every_public_function_and_class(capsys):
    names = [name for name in dir(mt) if not name.startswith("_")]
    things = [thing for name in names if inspect.isroutine(thing := getattr(mt, name))]
    things += [thing for name in names if inspect.isclass(thing := getattr(mt, name))]
    assert len(things) > 200
    own = [t for t in things if (t.__module__ or "").startswith("minitorch_attn")]
    where(*own)
    assert len(capsys.readouterr().out.splitlines()) == len(own)


@pytest.mark.parametrize("thing", [3, Path, pytest, len, "softmax", mt.float32])
def test_where_refuses_what_is_not_ours(thing):
    with pytest.raises(ArgumentError, match="not defined in minitorch_attn"):
        where(thing)


def test_where_refuses_what_stands_beside_the_package():
    with pytest.raises(ArgumentError, match="not defined in minitorch_attn"):
        where(test_where_refuses_what_is_not_ours)


# fails


def test_fails_prints_the_message(capsys):
    with fails(ValueError):
        mt.ones(2, 3) @ mt.ones(2, 3)
    assert capsys.readouterr().out.startswith("ShapeError: matmul(a, b): ")


def test_fails_complains_when_nothing_is_raised():
    with pytest.raises(AssertionError, match="must raise ShapeError or KeyError"):
        with fails((ShapeError, KeyError)):
            pass


def test_another_error_passes_through():
    with pytest.raises(KeyError):
        with fails(ShapeError):
            {}["x"]


# show


def as_lesson(name="09_scale.py"):
    """A `show` whose caller seems to be in this file."""
    call = types.FunctionType(
        (lambda figure, caption: show(figure, caption)).__code__, {"show": show, "__file__": name}
    )
    return call


def test_a_script_leaves_numbered_files(capsys, tmp_path):
    draw = as_lesson()
    draw(new_figure(2, 2), "one")
    draw(new_figure(2, 2), "two")
    as_lesson("/some/where/11_heads.py")(new_figure(2, 2), "three")
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.png"))
    parts = [("09", 1), ("09", 2), ("11", 1)]
    assert found == [str(Path("runs", "lessons", a, f"figure-{b}.png")) for a, b in parts]
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"[Figure 9.2: two] {Path('runs', 'lessons', '09', 'figure-2.png')}"


def test_a_script_leaves_no_figure_open():
    from matplotlib import pyplot

    figure, _ = pyplot.subplots()
    as_lesson()(figure, "one")
    assert not pyplot.fignum_exists(figure.number)


def test_sphinx_gallery_finds_it_among_the_open_figures(capsys, monkeypatch, tmp_path):
    from matplotlib import pyplot

    monkeypatch.setitem(sys.modules, "sphinx_gallery.gen_rst", types.ModuleType("gen_rst"))
    pyplot.close("all")
    outside, inside = new_figure(2, 2), pyplot.figure()
    for figure in (outside, inside):
        as_lesson()(figure, "to be seen")
    assert [pyplot.figure(number) for number in pyplot.get_fignums()] == [inside, outside]
    assert capsys.readouterr().out == "Figure 9.1: to be seen\nFigure 9.2: to be seen\n"
    assert not list(tmp_path.rglob("*.png"))
    pyplot.close("all")
    assert pyplot.get_fignums() == []


def test_a_notebook_displays_it(capsys, monkeypatch, tmp_path):
    from matplotlib import pyplot

    figure, _ = pyplot.subplots()  # before IPython seems to be there
    shown = []
    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=None)
    display.Image = lambda data, alt: (data, alt)
    display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    as_lesson()(figure, "to be seen")
    assert not pyplot.fignum_exists(figure.number)  # it would be shown again at the cell's end
    ((data, alt),) = shown
    assert data.startswith(b"\x89PNG") and alt == "to be seen"
    assert capsys.readouterr().out == "Figure 9.1: to be seen\n"
    assert not list(tmp_path.rglob("*.png"))
    as_lesson()(figure, "something else")
    as_lesson()(figure, "to be seen")  # the cell runs again
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["Figure 9.2: something else", "Figure 9.1: to be seen"]


def test_a_figure_of_another_file_is_numbered_without_a_lesson(capsys):
    as_lesson("scale.py")(new_figure(2, 2), "one")
    assert capsys.readouterr().out.startswith("[Figure 1: one]")


def test_the_package_does_not_import_the_course():
    import subprocess

    code = "import sys, minitorch_attn; sys.exit('minitorch_attn.course' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
