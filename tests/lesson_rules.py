"""Rules for lessons: functions that take a Lesson and yield complaints; see tests/lessons."""

import ast
import re

from minitorch_attn.course.turns import find_turns, is_predict
from minitorch_attn.errors import DataError

SECTIONS = (
    "What goes wrong",
    "In the library",
    "Exercise",
    "Three questions",
    "Answers",
)
LONGEST_CELL = 50
_HTML = re.compile(r"</?[a-zA-Z][^>\n]*>")
_ENCODING = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*[-\w.]")  # as Python reads it
_VERBATIM = re.compile(r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$", re.S)
_FORMULA = re.compile(r"\$\$.*?\$\$", re.S)
_ITEM = re.compile(r"\n\s*([-+*]|\d+[.)])\s")
FORBIDDEN_CALLS = {"input", "exit", "quit", "breakpoint", "get_ipython"}


def headings(lesson):
    """(index of the cell, heading) of every line that starts with `## `.

    "What goes wrong" stands for every longer heading, such as "What goes wrong without a mask".
    """
    for index, cell in enumerate(lesson.cells):
        if cell.kind == "markdown":
            for line in _VERBATIM.sub("", cell.text).splitlines():
                if line.startswith("## "):
                    heading = line.removeprefix("## ").strip()
                    is_failure = heading.startswith(SECTIONS[0] + " ")
                    yield index, SECTIONS[0] if is_failure else heading


def section(lesson, heading):
    """The cells from a heading to the next one of `SECTIONS`."""
    starts = {text: index for index, text in headings(lesson) if text in SECTIONS}
    if heading not in starts:
        return []
    later = [index for index in starts.values() if index > starts[heading]]
    return lesson.cells[starts[heading] : min(later, default=None)]


def code(cells):
    """The syntax tree of the code in some cells."""
    return ast.parse("\n".join(cell.text for cell in cells if cell.kind == "code"))


def text(cells):
    """The Markdown of some cells."""
    return "\n\n".join(cell.text for cell in cells if cell.kind == "markdown")


def calls(tree):
    """The names of all called functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield getattr(node.func, "id", getattr(node.func, "attr", None))


def has_assert(tree):
    """Whether the code asserts something or requires an exception."""
    return any(isinstance(node, ast.Assert) for node in ast.walk(tree)) or "fails" in calls(tree)


def opening(lesson):
    """The first cell has a title, a question, and prerequisites, which are earlier lessons."""
    if not lesson.question:
        yield "the first cell has no question"
    if not re.search(r"\bprerequisites\b", lesson.cells[0].text, re.I):
        yield "the first cell does not name its prerequisites"
    prerequisites = lesson.cells[0].text.partition("*Prerequisites:*")[2].split("\n\n")[0]
    for named in re.findall(r"\blessons?\s+((?:\d+(?:,\s+|\s+and\s+)?)+)", prerequisites):
        for number in re.findall(r"\d+", named):
            if int(number) >= int(lesson.number):
                yield f"lesson {number} is a prerequisite, but does not come before"


def order(lesson):
    """The closing sections appear once each and in order; the answers are a separate cell."""
    found = [heading for _, heading in headings(lesson) if heading in SECTIONS]
    if found != list(SECTIONS):
        yield f"sections {found} instead of {list(SECTIONS)}"
    last = lesson.cells[-1]
    if "answers" not in last.tags or not last.text.startswith("## Answers"):
        yield 'the last cell is not `# %% [markdown] tags=["answers"]` with `## Answers`'


def claims(lesson):
    """The main claim and the counter-example are asserted."""
    broken = section(lesson, SECTIONS[0])
    first = lesson.cells.index(broken[0]) if broken else None
    if not has_assert(code(lesson.cells[:first])):
        yield "no assertion before the counter-example"
    if not has_assert(code(broken)):
        yield "no assertion in the counter-example"


def place(lesson):
    """The lesson says where the library implements the idea."""
    if "where" not in calls(code(section(lesson, SECTIONS[1]))):
        yield "`In the library` does not call where(...)"


def exercise(lesson):
    """The exercise describes a task."""
    if len(text(section(lesson, SECTIONS[2])).split()) < 15:
        yield "the exercise is missing or has fewer than 15 words"


def questions(lesson):
    """There are three questions with answers."""
    for heading in SECTIONS[3:]:
        numbers = re.findall(r"^(\d+)\. ", text(section(lesson, heading)), re.M)
        if numbers != ["1", "2", "3"]:
            yield f"{heading}: numbered {numbers} instead of 1, 2, 3"
        entries = re.split(r"^\d+\.", text(section(lesson, heading)), flags=re.M)[1:]
        for number, entry in enumerate(entries, 1):
            if not re.search(r"\w", entry):
                yield f"{heading}: {number} is empty"
    asked = text(section(lesson, SECTIONS[3]))
    if asked.count("?") < 3:
        yield "fewer than three question marks in the questions"


def look(lesson):
    """The lesson prints something and shows a figure."""
    called = set(calls(code(lesson.cells)))
    for name in ("print", "show"):
        if name not in called:
            yield f"nothing calls {name}(...)"


def plainness(lesson):
    """The lesson runs as a script, in a notebook and in a page, without input or its own path."""
    tree = code(lesson.cells)
    for name in sorted(FORBIDDEN_CALLS & set(calls(tree))):
        yield f"calls {name}()"
    source = lesson.path.read_text(encoding="utf-8")
    for number, line in enumerate(source.splitlines()[:2], 1):
        if _ENCODING.match(line):
            yield f"line {number}: Python reads this as a declaration of the encoding"
    for word in ("__main__", "argparse", "__file__", "plt.show("):
        if word in source:
            yield f"contains {word}"
    for cell in lesson.cells:
        if cell.kind == "markdown":
            for tag in _HTML.findall(_VERBATIM.sub("", cell.text)):
                yield f"line {cell.line}: HTML {tag}"
            for formula in _FORMULA.findall(cell.text):
                if _ITEM.search(formula):
                    yield f"line {cell.line}: Markdown reads a line of the formula as a list"
        elif len(cell.text.splitlines()) > LONGEST_CELL:
            yield f"line {cell.line}: a cell of more than {LONGEST_CELL} lines"


def steadiness(lesson):
    """The numbers are the same in every run."""
    source = lesson.path.read_text(encoding="utf-8")
    for name in ("time.time(", "np.random.rand", "np.random.seed", "default_rng()"):
        if name in source:
            yield f"uses {name}: its numbers differ from run to run"


def body_lines(answer):
    """The number of lines of code below the docstring of a function."""
    (function,) = ast.parse(answer).body
    lines = answer.splitlines()[function.body[0].end_lineno :]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)


def turns(lesson):
    """The learner writes two to four functions, each with a check, before the closing sections."""
    try:
        found = find_turns(lesson)
    except DataError as error:
        yield str(error)
        return
    if not 2 <= len(found) <= 4:
        yield f"{len(found)} functions to write, instead of two to four"
    library = next((index for index, text in headings(lesson) if text == SECTIONS[1]), 0)
    for turn in found:
        check = ast.parse(lesson.cells[turn.at + 2].text).body
        one = [node for node in check if isinstance(node, ast.Expr) and "check" in calls(node)]
        if len(check) != 1 or len(one) != 1:
            yield f"{turn.name}: its check is not one call of check(...)"
        elif ast.unparse(one[0].value.args[0]) != turn.name:
            yield f"{turn.name}: its check checks another function"
        if not 2 <= body_lines(turn.answer) <= 10:
            yield f"{turn.name}: {body_lines(turn.answer)} lines to write, instead of 2 to 10"
        if turn.at > library:
            yield f"{turn.name} follows `{SECTIONS[1]}`"
        rest = [*lesson.cells[: turn.at], *lesson.cells[turn.at + 3 :]]
        names = {node.id for node in ast.walk(code(rest)) if isinstance(node, ast.Name)}
        functions = {n.name for n in ast.walk(code(rest)) if isinstance(n, ast.FunctionDef)}
        if turn.name in names | functions:
            yield f"{turn.name} is used or defined by other cells of the lesson"


def predict(lesson):
    """One cell asks for a guess; the next cell prints the result, and the one after explains it."""
    places = [i for i, cell in enumerate(lesson.cells) if "predict" in cell.tags]
    if len(places) != 1:
        yield f"{len(places)} cells with the tag predict, instead of one"
        return
    asked, shown, explained = lesson.cells[places[0] : places[0] + 3]
    if not is_predict(asked) or not asked.text.startswith("## Predict, then run"):
        yield "the cell with the tag predict does not start with `## Predict, then run`"
    if shown.kind != "code" or not {"print", "show", "check", "fails"} & set(calls(code([shown]))):
        yield "the cell after the prediction prints nothing"
    if "plot" in explained.tags:
        explained = lesson.cells[places[0] + 3]
    if explained.kind != "markdown":
        yield "no text explains the result of the prediction"


def plots(lesson):
    """Cells that draw are tagged, so that their code can be folded."""
    for cell in lesson.cells:
        draws = cell.kind == "code" and "show" in calls(ast.parse(cell.text))
        if draws != ("plot" in cell.tags):
            rule = "cells that call show, and only those, have the tag plot"
            yield f"line {cell.line}: {rule}"


RULES = (
    opening, order, claims, place, exercise, questions, look, plainness, steadiness, turns,
    predict, plots,
)  # fmt: skip
