"""Lesson pages: convert lessons for sphinx-gallery, with their Markdown as reStructuredText.

Readers download the lesson itself and the notebook that Jupytext makes from it.
"""

import shutil
import zipfile
from pathlib import Path

from minitorch_attn.course.lesson_list import lessons
from minitorch_attn.course.notebooks import notebook, write_notebook

from .restructured import plain, to_rst

HEADER = """\
Lessons
=======

Each lesson starts with a question, answers it with minimal code and a figure, and shows what goes
wrong if you leave out the lesson's idea. Read the pages here, or download the script or the
notebook at the end of a page and change it.
"""


def gallery_script(lesson):
    """Convert a lesson to the text of a script in sphinx-gallery's format."""
    first, *cells = lesson.cells
    _, _, opening = first.text.partition("\n")
    title = f"{int(lesson.number)}. {plain(lesson.title)}"
    header = f"{title}\n{'=' * len(title)}\n\n{to_rst(opening)}"
    parts = ['r"""\n' + header.replace('"""', '"\\""') + '\n"""\n']
    for cell in cells:
        if cell.kind == "code":
            parts.append(f"# %%\n\n{cell.text}\n")  # with the empty line, comments remain code
        elif "answers" in cell.tags:
            parts.append(_comment(_folded(cell.text)))
        else:
            parts.append(_comment(to_rst(cell.text)))
    return "\n".join(parts)


def _folded(markdown):
    """The answers, hidden until the reader clicks on the heading."""
    heading, _, text = markdown.partition("\n")
    summary = heading.lstrip("# ")
    start = f".. raw:: html\n\n   <details class='answers'><summary>{summary}</summary>\n\n"
    return start + to_rst(text) + "\n\n.. raw:: html\n\n   </details>"


def _comment(rst):
    lines = [f"# {line}".rstrip() for line in rst.split("\n")]
    return "# %%\n" + "\n".join(lines) + "\n"


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
    """Replace sphinx-gallery's downloads with the lessons and their notebooks."""
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
    """Write the scripts before sphinx-gallery runs, and replace its downloads afterwards."""
    source = Path(app.srcdir)
    written, gallery = source.parent / "lessons", source / "lessons"

    def before(app):
        remove_old_pages(written, gallery)
        write_scripts(written, source / "_build" / "lessons")

    def after(app):
        replace_downloads(written, gallery)

    app.connect("builder-inited", before, priority=100)
    app.connect("builder-inited", after, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
