"""`feedback.html`: a self-contained feedback page for one student, without scripts."""

import html

from ..grade.document import hidden_part
from .grades import follows_text, number
from .steps import step_entry, step_words

__all__ = ["feedback"]

_MARKS = {"passed": "✓", "not run": "–"}
_WORDS = {
    "passed": "passed", "failed": "wrong result", "error": "error", "timeout": "too slow",
    "crashed": "crashed", "misbehaved": "no valid answer", "not run": "not run",
}  # fmt: skip
LEVELS = {
    3: "in a sandbox without access to the network or other files",
    2: "as another user in a closed root folder, with limits",
    1: "in a separate process, which protects only against accidents",
}


def feedback(document):
    """Create the feedback page of one submission.

    Parameters
    ----------
    document : dict

    Returns
    -------
    str
        HTML page in which all text from the submission is escaped and scripts cannot run.
    """
    title = document["assignment"]["title"]
    name = document["submission"]["name"]
    return _PAGE.format(
        title=_safe(f"{title}: {name}"), style=_STYLE, heading=_safe(title), name=_safe(name),
        score=number(document["score"]), points=number(document["max_score"]),
        width=_share(document), notes=_notes(document), table=_table(document),
        entries="\n".join(
            _entry(place, line)
            for place, line in enumerate(document["checks"], 1)
            if line["status"] != "passed"
        ),
        files=_files(document), foot=_foot(document),
    )  # fmt: skip


def _safe(text):
    return html.escape(str(text), quote=True)


def _share(document):
    points = document["max_score"]
    return f"{100 * document['score'] / points:.1f}" if points else "0"


def _notes(document):
    said = [f"Problem with your files: {text}." for text in document["submission"]["problems"]]
    if document["status"] == "not graded":
        said = ["The grader itself failed. This is not a grade. Tell your instructor."]
    return "".join(f'<p class="note">{_safe(text)}</p>' for text in said)


def _table(document):
    rows = []
    for place, line in enumerate(document["checks"], 1):
        status, points = line["status"], f"{number(line['points'])} / {number(line['max_points'])}"
        name = _safe(line["name"])
        if status != "passed":
            name = f'<a href="#e{place}">{name}</a>'
        rows.append(
            f'<tr class="{_kind(status)}"><td>{name}</td>'
            f"<td>{_MARKS.get(status, '✗')} {_WORDS.get(status, _safe(status))}</td>"
            f'<td class="number">{points}</td></tr>'
        )
    return "\n".join(rows)


def _kind(status):
    return "good" if status == "passed" else "none" if status == "not run" else "bad"


def _entry(place, line):
    """Create the section for a check that did not pass. A hidden check shows only its status."""
    shown, status = hidden_part(line), line["status"]
    points = f"{number(line['points'])} of {number(line['max_points'])}"
    parts = [
        f'<section id="e{place}" class="{_kind(status)}"><h2>{_safe(line["name"])}</h2>',
        f'<p class="verdict">{_MARKS.get(status, "✗")} {_WORDS.get(status, _safe(status))}, '
        f"{points} points</p>",
        f"<p>{_safe(line['what'])}</p>" if line["what"] else "",
    ]
    if line["of"]:
        names = ", ".join(f"<code>{_breakable(name)}</code>" for name in line["of"])
        parts.append(f'<p class="of">In {names}</p>')
    if line["hidden"]:
        parts.append('<p class="note">This check is hidden. Its details are not shown.</p>')
    if shown.get("same_as"):
        parts.append(f"<p>The same error as in {_safe(shown['same_as'])}.</p>")
    elif shown["message"]:
        parts.append(f'<pre class="said">{_safe(shown["message"])}</pre>')
    if shown.get("follows"):
        parts.append(f'<p class="note">{_safe(follows_text(shown))}</p>')
    if shown.get("first_step"):
        parts.append(_step(shown["first_step"]))
    elif shown.get("first_difference"):
        parts.append(_difference(shown["first_difference"]))
    if shown.get("gradcheck"):
        text = _safe(shown["gradcheck"])
        parts.append(f'<h3>The gradients</h3><pre tabindex="0">{text}</pre>')
    return "\n".join(part for part in parts if part) + "</section>"


def _breakable(name):
    """Allow a line break after each part of a dotted name or a path."""
    text = _safe(name)
    return text.replace(".", ".<wbr>").replace(":", ":<wbr>").replace("/", "/<wbr>")


def _difference(first):
    place = ", ".join(map(str, first.get("index", ())))
    rows = (
        ("entry", f"{first.get('array')}[{place}]" if place else first.get("array")),
        ("yours", first.get("got")), ("expected", first.get("expected")),
    )  # fmt: skip
    return f"<h3>Entry with the largest difference</h3>{_list(rows)}"


def _step(step):
    """Describe the first step that differs from the solution: the line, and what is wrong."""
    words = " ".join(step_words(step))
    return (
        "<h3>First step that differs</h3>"
        f'<p class="of"><code>{_breakable(step["file"])}</code>, line {step["line"]}</p>'
        f'<pre tabindex="0">{_safe(step["text"])}</pre><p>{_safe(words)}</p>'
        f"{_list(step_entry(step))}"
    )


def _list(rows):
    body = "".join(f"<dt>{_safe(name)}</dt><dd>{_safe(value)}</dd>" for name, value in rows)
    return f"<dl>{body}</dl>"


def _files(document):
    rows = [
        f"<li><code>{_breakable(file['path'])}</code>, {file['bytes']:,} bytes, "
        f"SHA-256 <code>{_safe(file['sha256'][:16])}…</code></li>"
        for file in document["submission"]["files"]
    ]
    return f"<h2>What was graded</h2><ul>{''.join(rows)}</ul>" if rows else ""


def _foot(document):
    grader = document["grader"]
    level = grader["sandbox"]
    return _safe(
        f"Graded {grader['time'].replace('T', ' ')[:16]} UTC by minitorch_attn "
        f"{grader['version']}, sandbox level {level} of 3: {LEVELS.get(level, '')}."
    )


_STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --soft: #57606a; --paper: #ffffff;
  --box: #f4f6f8; --line: #d4d9de; --good: #0f6b3c; --bad: #a8321f; --none: #57606a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --soft: #a2abb4; --paper: #14181c; --box: #1e2429; --line: #3a424a;
    --good: #6bd49a; --bad: #ff9d8a; --none: #a2abb4; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 52rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; }
h2 { font-size: 1.1rem; margin: 0 0 .25rem; }
h3 { font-size: .9rem; margin: 1rem 0 .25rem; color: var(--soft); }
p { margin: .25rem 0; }
.name, .of, footer { color: var(--soft); }
.of { font-size: .85rem; }
.score { font-size: 2rem; font-weight: 600; margin: 1rem 0 .25rem; }
.score small { font-size: 1rem; font-weight: 400; color: var(--soft); }
.bar { height: .5rem; border: 1px solid var(--line); border-radius: .25rem; overflow: hidden; }
.bar div { height: 100%; background: var(--good); }
.note { padding: .5rem .75rem; border-left: 4px solid var(--bad); background: var(--box); }
table { width: 100%; border-collapse: collapse; margin: 1.25rem 0 2rem; }
th, td { text-align: left; padding: .3rem .5rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { font-size: .85rem; color: var(--soft); font-weight: 400; }
.number { text-align: right; white-space: nowrap; padding-right: 0; }
td a { color: inherit; }
tr.good td:nth-child(2), .good .verdict { color: var(--good); }
tr.bad td:nth-child(2), .bad .verdict { color: var(--bad); }
tr.none td:nth-child(2), .none .verdict { color: var(--none); }
section { margin: 0 0 1.25rem; padding: .75rem 1rem; border: 1px solid var(--line);
  border-radius: .5rem; border-left-width: 5px; }
section.good { border-left-color: var(--good); }
section.bad { border-left-color: var(--bad); }
pre { margin: .5rem 0; padding: .6rem .75rem; background: var(--box); overflow-x: auto;
  font: .8rem/1.45 ui-monospace, monospace; overflow-wrap: normal; }
pre.said { white-space: pre-wrap; overflow-wrap: anywhere; }
code { font: .9em ui-monospace, monospace; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem .75rem; margin: 0;
  font: .85rem/1.5 ui-monospace, monospace; }
dt { color: var(--soft); }
dd { margin: 0; }
footer { margin-top: 2rem; font-size: .85rem; }
@media (max-width: 30rem) { body { padding: 1rem .75rem 2rem; } section { padding: .6rem .7rem; } }
@media print { section { break-inside: avoid; } pre { white-space: pre-wrap; } }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{heading}</h1>
<p class="name">{name}</p>
<p class="score">{score} <small>of {points} points</small></p>
<div class="bar" aria-hidden="true"><div style="width: {width}%"></div></div>
{notes}
<table>
<thead><tr><th>Check</th><th>Result</th><th class="number">Points</th></tr></thead>
<tbody>
{table}
</tbody>
</table>
{entries}
{files}
<footer>{foot}</footer>
</body>
</html>
"""
