"""A recording as one HTML file: opens by double click, needs no network, and may not use one."""

import base64
import hashlib
import html
import json
from importlib import resources

__all__ = ["diff_page", "page"]

# In the order in which they are joined to one script.
_SHARED = ("model.js", "colours.js", "heatmap.js", "cards.js", "parts.js")
_STEPPER = (*_SHARED, "tree.js", "windows.js", "attention.js", "panels.js", "stepper.js")
_DIFF = (*_SHARED, "diff.js")


def page(document):
    """The page that steps through a recording.

    Parameters
    ----------
    document : dict
        The JSON document of a recording, version 1.

    Returns
    -------
    str
        HTML. It holds the document, one style sheet and one script; its Content-Security-Policy
        allows just these two, by their hashes, and no connection of any kind.
    """
    return _fill(
        "stepper.html",
        style=_asset("stepper.css"),
        script=_joined(_STEPPER),
        data=_without_repetition(document),
        title=document["title"],
        made_by=document["made_by"],
        message=document.get("message") or "",
    )


def diff_page(difference):
    """The page that shows where two recordings differ.

    Parameters
    ----------
    difference : dict
        The JSON document of a `Difference`, version 1.

    Returns
    -------
    str
        HTML, as self-contained as that of `page`.
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


def _fill(template, *, style, script, data, **texts):
    """Put a style sheet, a script and data into a page whose policy allows nothing else.

    `{{name}}` in the template stands for what is put in; the plain texts are escaped.
    """
    parts = {name: html.escape(text) for name, text in texts.items()}
    parts["policy"] = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    parts["style"], parts["script"] = style, script
    # A "<" could end the element that holds the data; as \u003c it means the same in JSON.
    parts["data"] = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    pieces = _asset(template).replace("}}", "{{").split("{{")  # text, name, text, name, ..., text
    pieces[1::2] = [parts[name] for name in pieces[1::2]]
    return "".join(pieces)


def _joined(names):
    return "\n".join(_asset(name) for name in names)


def _asset(name):
    """The text of a file of `web/`."""
    return (resources.files(__package__) / "web" / name).read_text(encoding="utf-8")


def _without_repetition(document):
    """The document with `{"same_as": id}` for values that an earlier tensor has already.

    Reshaped tensors, views, and a gradient after its first contribution repeat values exactly;
    in a Transformer that is about half of them.
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
