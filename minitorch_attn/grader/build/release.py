"""Release an assignment: write the package, the task, the public checks and `reward.py`."""

import json
import shutil
import textwrap
import zipfile
from pathlib import Path

import numpy as np

from ...course.lesson_list import Lesson
from ...course.notebooks import MissingPackage, notebook, write_notebook
from ...errors import ArgumentError
from ...schema import read_utf8
from ..grade import judge as judging
from .assignment import student_folder
from .blank import functions
from .markers import released_notebook, released_text
from .package import starter_files, write_package

__all__ = ["write_release", "write_zip"]

PUBLIC_SEED = 7
LARGEST_PART = 300_000  # in bytes; checks with larger arrays run only in the grader
_OWN = ("assignment.toml", "prose.md", "checks.py", "reward.py")


def write_release(assignment, folder, seed=PUBLIC_SEED):
    """Write the release of an assignment: the folder that students get.

    Parameters
    ----------
    assignment : Assignment
    folder : path
        Folder to create. If it already exists, it must be empty.
    seed : int
        Random seed for the public checks' inputs.

    Returns
    -------
    list of str
        Names of omitted files, each with the reason.
    """
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise ArgumentError(
            "the release folder is not empty", got=f"{folder}", hint="choose a new folder"
        )
    write_package(assignment, folder)
    for name in ("check.py", "training.py", "workbook.py"):
        shutil.copyfile(student_folder() / name, folder / name)
    shutil.copyfile(judging.__file__, folder / "judging.py")
    shutil.copyfile(assignment.folder / "reward.py", folder / "reward.py")
    _write_public(assignment, folder / "public", seed)
    write_zip(folder / "minitorch_attn", folder / "public" / "package.zip")
    _write_extras(assignment, folder)
    source = folder / f"{assignment.name}.py"
    source.write_text(percent(assignment), encoding="utf-8")
    left_out = []
    try:
        write_notebook(notebook(Lesson(source)), folder / f"{assignment.name}.ipynb")
    except MissingPackage as error:
        left_out.append(f"{assignment.name}.ipynb: {error}")
    text = readme(assignment, with_notebook=not left_out)
    (folder / "README.md").write_text(text, encoding="utf-8")
    return left_out


def _write_public(assignment, folder, seed):
    """Write the public checks, their inputs and expected values to JSON and .npz files."""
    folder.mkdir()
    entries = {entry.name: entry for entry in assignment.checks}
    functions_of = {blank.name: str(blank.target) for blank in assignment.blanks}
    table = []
    for name, checks in assignment.checks_by_name(seed, hidden=False).items():
        parts = []
        for number, check in enumerate(checks):
            arrays = (*check.inputs.values(), *check.expected.values())
            if sum(np.asarray(array).nbytes for array in arrays) > LARGEST_PART:
                continue
            file = f"{len(table):02d}-{number}.npz"
            arrays = {f"in {key}": array for key, array in check.inputs.items()}
            arrays |= {f"out {key}": np.asarray(a) for key, a in check.expected.items()}
            np.savez_compressed(folder / file, **arrays)
            parts.append({
                "name": check.name, "file": file, "driver": check.source,
                "settings": check.settings, "rtol": check.rtol,
            })  # fmt: skip
        entry = entries[name]
        table.append({
            "name": name, "of": entry.of, "function": functions_of[entry.of],
            "points": entry.points, "what": entry.what, "parts": parts,
        })  # fmt: skip
    (folder / "files.json").write_text(json.dumps(assignment.files) + "\n", encoding="utf-8")
    text = json.dumps(table, indent=1, default=_plain)
    (folder / "checks.json").write_text(text + "\n", encoding="utf-8")


def _plain(value):
    return value.item() if isinstance(value, np.generic) else list(value)


def _write_extras(assignment, folder):
    """Copy the instructor's extra files, without the text between their solution markers."""
    for path in sorted(assignment.folder.iterdir()):
        if path.name in _OWN or not path.is_file() or path.name.startswith("."):
            continue
        if path.suffix == ".py":
            text = released_text(read_utf8(path), path.name)
        elif path.suffix == ".ipynb":
            text = released_notebook(read_utf8(path), path.name)
        else:
            shutil.copyfile(path, folder / path.name)
            continue
        (folder / path.name).write_text(text, encoding="utf-8")


def readme(assignment, with_notebook=True):
    """Return the README in Markdown: the task, the functions and their points, and the workflow."""
    rows = [
        f"| {blank.order} | `{blank.target.name}` | `{blank.target.path}` | {blank.points} |"
        for blank in assignment.blanks
    ]
    hidden = sum(entry.points for entry in assignment.checks if entry.hidden)
    files = "\n".join(f"    {path}" for path in assignment.files)
    public = "\n".join(
        f"* **{entry.name}** ({entry.points}): {entry.what}"
        for entry in assignment.checks if not entry.hidden
    )  # fmt: skip
    return _README.format(
        title=assignment.title, prose=assignment.prose.strip(), rows="\n".join(rows),
        points=assignment.points, hidden=hidden, files=files, public=public,
        cells=(_NOTEBOOK if with_notebook else _CELLS).format(name=assignment.name),
    )  # fmt: skip


_NOTEBOOK = "You can also open `{name}.ipynb` in Jupyter. Its cells write functions into the files."
_CELLS = (
    "You can also work in `{name}.py`, in an editor that runs the cells between lines of `# %%`.\n"
    "Each cell writes a function into its file."
)
_README = """# {title}

{prose}

## What to write

| | function | file | points |
| --- | --- | --- | --- |
{rows}

{points} points. Replace the `raise NotYetWritten(...)` in each function. The signature and the
docstring describe the inputs and outputs. The comments below them give the shapes of intermediate
results. You may read and call the rest of the library. The bodies of functions that would give away
the answer are removed, too. These functions raise the same error: leave them unchanged.

## How to work

You need Python 3.11 or newer with NumPy. Run these commands in this folder:

    python check.py             # run the public checks; add a word to select some of them
    python reward.py            # run a model that uses your code

If a result is wrong, `with mt.trace() as t:` records each step of the code in the block, forward
and backward, with its values. `print(t.table())` lists the steps, `t.save_html("trace.html")`
writes a page in which you can step through them, and `print(mt.trace_diff(t, another))` names the
first step that differs between two versions of your code.

{cells}

{public}

{hidden} of the points are for hidden checks, which use other inputs and larger sizes, and test
properties. Derive each gradient on paper first: a gradient found by trial and error rarely passes
these checks. Write derivatives as formulas. Do not differentiate numerically with complex numbers:
the grader reports code that uses complex numbers, and a person decides about its points.

`check.py` is as strict as the grader. Besides this package, your code can import only NumPy and the
standard library. Change only the files listed below: changes to other files have no effect.

## What to submit

Submit these files in a folder or an archive, at these paths. Everything else is ignored:

{files}
"""


def percent(assignment):
    """Return the notebook as a Python file in the percent format (cells start with `# %%`)."""
    starters = starter_files(assignment)
    cells = [
        _markdown(f"# {assignment.title}\n\n{assignment.prose.strip()}"),
        _markdown(
            "Each cell below writes one function into its file of the package. Run the cell of "
            "a function after each change, then the check below it."
        ),
        "# %%\nfrom workbook import check, into, reward\n",
    ]
    for blank in assignment.blanks:
        target = blank.target
        cells.append(_markdown(f"## {blank.order}. {target.name} ({blank.points} points)"))
        body = _function_text(starters[target.path], target.name)
        cells.append(f'# %%\n@into("{target}")\n{body}\n')
        public = any(e.of == blank.name and not e.hidden for e in assignment.checks)
        cells.append(f'# %%\ncheck("{blank.name}")\n' if public else "# %%\ncheck()\n")
    cells.append(_markdown("## The reward\n\nThe cell below runs a model that uses your code."))
    cells.append("# %%\nreward()\n")
    return "\n".join(cells)


def _markdown(text):
    lines = [f"# {line}".rstrip() for line in text.splitlines()]
    return "# %% [markdown]\n" + "\n".join(lines) + "\n"


def _function_text(source, name):
    """Return a function's source text without decorators or indentation."""
    node = functions(source)[name]
    lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
    return textwrap.dedent("\n".join(lines))


def write_zip(folder, path):
    """Write a folder to a zip archive. Identical files always give an identical archive.

    Parameters
    ----------
    folder, path : path
    """
    folder = Path(folder)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            name = f"{folder.name}/{file.relative_to(folder).as_posix()}"
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, file.read_bytes())
