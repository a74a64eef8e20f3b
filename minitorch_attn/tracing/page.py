"""HTML page for a recording: one self-contained file that does not use the network."""

import base64
import hashlib
import html
import json
from importlib import resources

__all__ = ["diff_page", "frame", "page"]

# Files, in the order in which they are concatenated into one script.
_SHARED = ("model.js", "colours.js", "heatmap.js", "cards.js", "parts.js")
_STEPPER = (*_SHARED, "tree.js", "windows.js", "attention.js", "panels.js", "stepper.js")
_DIFF = (*_SHARED, "diff.js")


def page(document):
    """Create the page that steps through a recording.

    Parameters
    ----------
    document : dict
        JSON document of a recording, version 1 or 2.

    Returns
    -------
    str
        HTML with the document, one style sheet and one script. The Content-Security-Policy allows
        only this style sheet and this script, by their hashes, and forbids connections.
    """
    return _fill(
        "stepper.html", style=_asset("stepper.css"), script=_joined(_STEPPER),
        data=_without_repetition(document), title=document["title"], made_by=document["made_by"],
        message=document.get("message") or "",
    )  # fmt: skip


def diff_page(difference):
    """Create the page that shows where two recordings differ.

    Parameters
    ----------
    difference : dict
        JSON document of a `Difference`, version 1 or 2.

    Returns
    -------
    str
        Self-contained HTML, as from `page`.
    """
    mine, reference = difference["mine"], difference["reference"]
    return _fill(
        "diff.html",
        style=_asset("stepper.css") + _asset("diff.css"),
        script=_joined(_DIFF),
        data={
            **difference,
            "mine": _without_repetition(mine),
            "reference": _without_repetition(reference),
        },
        title=difference["title"],
        made_by=mine["made_by"],
    )


def frame(text, height=680):
    """Return an HTML frame that contains the whole page, for display in a notebook.

    Parameters
    ----------
    text : str
        Page, from `page` or `diff_page`.
    height : int
        Height in pixels.

    Returns
    -------
    str
    """
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(text)}" '
        f'style="width: 100%; height: {height}px; border: 1px solid #8888"></iframe>'
    )


def _fill(template, *, style, script, data, **texts):
    """Insert a style sheet, a script, data and a content security policy into a template.

    The content security policy allows only this style sheet and this script.
    `{{name}}` in the template is replaced by the part with this name. The `texts` are HTML-escaped.
    """
    parts = {name: html.escape(text) for name, text in texts.items()}
    parts["policy"] = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    parts["style"], parts["script"] = style, script
    # A "<" could end the element that contains the data; \u003c is equivalent in JSON.
    parts["data"] = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    pieces = _asset(template).replace("}}", "{{").split("{{")  # [text, name, text, name, ..., text]
    pieces[1::2] = [parts[name] for name in pieces[1::2]]
    return "".join(pieces)


def _joined(names):
    return "\n".join(_asset(name) for name in names)


def _asset(name):
    """Read a file in `web/`."""
    return (resources.files(__package__) / "web" / name).read_text(encoding="utf-8")


def _without_repetition(document):
    """Replace values by `{"same_as": id}` if an earlier tensor has the same values.

    Reshaped tensors and views repeat values exactly. A gradient with a single contribution
    repeats that contribution. In a Transformer, about half of all tensors are such repetitions.
    """
    first, tensors = {}, []
    for tensor in document["tensors"]:
        values = tensor.get("values")
        if values is not None and len(values) > 4:
            earlier = first.setdefault(json.dumps(values), tensor["id"])
            if earlier != tensor["id"]:
                tensor = {**tensor, "values": {"same_as": earlier}}
        tensors.append(tensor)
    return {**document, "tensors": tensors}


def _hash(text):
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
