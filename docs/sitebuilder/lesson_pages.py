"""Lesson pages: convert lessons to scripts for sphinx-gallery, and Markdown to reStructuredText.

Readers do not download these scripts. They download the lesson itself or its notebook. In the
notebook, the functions of "Your turn" are empty.
"""

import re
import shutil
import zipfile
from pathlib import Path

from minitorch_attn.course.exercises.load import exercises
from minitorch_attn.course.lesson_list import lessons
from minitorch_attn.course.notebooks import notebook, write_notebook
from minitorch_attn.course.turns import is_predict

from .exercise_page import with_links
from .lesson_folds import fold, marker
from .restructured import plain, to_rst

HEADER = """\
Lessons
=======

Each lesson starts with a question, answers it with minimal code and a figure, and shows what goes
wrong without the lesson's idea. You can read the pages here, or download the script or the notebook
at the end of a page and change it. Many lessons end with :doc:`exercises </exercises>`.
Eight of them are :doc:`the path to a GPT of your own </path>`.
"""


def gallery_script(lesson):
    """Convert a lesson to the text of a script in sphinx-gallery's format.

    The script contains the answers. On the page, answers, hints, checks and the code of figures are
    folded. An output that the reader is asked to predict is hidden until a click on "Run". The
    markers in the script tell `lesson_folds.py` what to fold.
    """
    first, *cells = lesson.cells
    _, _, opening = first.text.partition("\n")
    title = f"{int(lesson.number)}. {plain(lesson.title)}"
    header = f"{title}\n{'=' * len(title)}\n\n{to_rst(opening)}"
    parts = ['r"""\n' + header.replace('"""', '"\\""') + '\n"""\n']
    turns = {turn.at: turn for turn in lesson.turns}
    known = exercises()
    to_run = False  # whether the reader is to predict the next cell's output
    is_open = False  # whether the explanation of that output is still to come
    for at, cell in enumerate(cells, 1):
        if cell.kind == "code":
            if is_open and "plot" not in cell.tags:
                parts.append(_comment(marker("end", "")))
                is_open = False
            if "plot" in cell.tags:
                parts.append(_comment(marker("code", "Code of the figure")))
            elif at - 1 in turns:
                parts.append(_comment(marker("code", "Answer")))
            elif at - 2 in turns:
                parts.append(_comment(marker("code", "Check")))
            elif to_run:
                parts.append(_comment(marker("output", "Run")))
                is_open = True
            to_run = False
            parts.append(f"# %%\n\n{cell.text}\n")  # an empty line keeps comments as code
            continue
        text = with_links(cell.text, known)
        if is_open:
            explanation, text = _until_heading(text)
            parts.append(_comment(to_rst(explanation) + "\n\n" + marker("end", "")))
            is_open = False
        if at in turns:
            turn = turns[at]
            code = f"```python\n{turn.unanswered}\n```"
            task = to_rst(f"## Your turn: {turn.title}\n\n{turn.task}\n\n{code}")
            text = task + "\n\n" + _folded(f"## Hint\n{turn.hint}", "hint")
        else:
            text = _folded(text, "answers") if "answers" in cell.tags else to_rst(text)
        if text:
            parts.append(_comment(text))
        to_run = is_predict(cell)
    return "\n".join(parts)


def _until_heading(markdown):
    """Split Markdown before its first heading, and return both parts."""
    lines = markdown.split("\n")
    at = next((i for i, line in enumerate(lines) if line.startswith("#")), len(lines))
    return "\n".join(lines[:at]).strip(), "\n".join(lines[at:])


def _folded(markdown, kind):
    """Convert Markdown to a collapsed section that opens when its heading is clicked."""
    heading, _, text = markdown.partition("\n")
    summary = heading.lstrip("# ")
    start = f".. raw:: html\n\n   <details class='{kind}'><summary>{summary}</summary>\n\n"
    return start + to_rst(text) + "\n\n.. raw:: html\n\n   </details>"


def _comment(rst):
    lines = [f"# {line}".rstrip() for line in rst.split("\n")]
    return "# %%\n" + "\n".join(lines) + "\n"


def path_page(readme):
    """Return the page "The path to a GPT", made from that section of lessons/README.md."""
    start = readme.index("## The path to")
    section = readme[start + 1 : readme.index("\n## ", start)]  # its heading is the page's title
    section = section.replace("[docs/build.md](../docs/build.md)", "[the guide](build.html)")
    section = section.replace("../docs/build.md", "build.html")
    return re.sub(r"<(\d\d_\w+)>`", r"<lessons/\1>`", to_rst(section)) + "\n"


def write_scripts(source, folder):
    """Write the scripts of all lessons, and remove scripts of lessons that no longer exist."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"GALLERY_HEADER.rst": HEADER}
    texts |= {lesson.path.name: gallery_script(lesson) for lesson in lessons(source)}
    for path in folder.glob("[0-9][0-9]_*.py"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def replace_downloads(source, gallery):
    """Replace sphinx-gallery's files for download with the lessons and their notebooks."""
    for lesson in lessons(source):
        script = gallery / lesson.path.name
        book = script.with_suffix(".ipynb")
        shutil.copyfile(lesson.path, script)
        write_notebook(notebook(lesson), book)
        with zipfile.ZipFile(script.with_suffix(".zip"), "w") as both:
            both.write(script, script.name)
            both.write(book, book.name)


def remove_old_pages(source, gallery):
    """Remove pages of lessons that no longer exist."""
    stems = {lesson.path.stem for lesson in lessons(source)}
    for path in gallery.glob("[0-9][0-9]_*"):
        if path.name.split(".")[0] not in stems:
            path.unlink()


def setup(app):
    """Write the scripts before sphinx-gallery runs, and replace its download files afterwards."""
    source = Path(app.srcdir)
    written, gallery = source.parent / "lessons", source / "lessons"

    def before(app):
        remove_old_pages(written, gallery)
        write_scripts(written, source / "_build" / "lessons")
        readme = (written / "README.md").read_text(encoding="utf-8")
        (source / "path.rst").write_text(path_page(readme), encoding="utf-8")

    def after(app):
        replace_downloads(written, gallery)

    app.connect("builder-inited", before, priority=100)
    app.connect("builder-inited", after, priority=900)
    app.connect("doctree-read", fold)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
