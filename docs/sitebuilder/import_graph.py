"""Architecture picture: which part of the package imports which.

`python -m sitebuilder.import_graph` in `docs/` draws `docs/images/architecture.svg` with Graphviz's
`dot`. The repository contains the picture, so building the site does not need Graphviz. A test
compares the arrows of the picture with the imports.
"""

import ast
import re
import subprocess
import sys
from functools import cache

from .names import PACKAGE, ROOT

PICTURE = ROOT / "docs" / "images" / "architecture.svg"

# Part -> its contents. Helper modules are not listed, so the picture omits them.
PARTS = {
    "errors": "got / expected / try",
    "backend": "NumPy, CuPy, strict",
    "tensor": "data, grad, operators",
    "autograd": "the engine: graph, backward",
    "ops": "forward and backward, side by side",
    "distributed": "messages between ranks",
    "gradcheck": "finite differences",
    "nn": "layers",
    "optim": "optimizers, schedules",
    "models": "one file per paper",
    "generation": "greedy, beam, sampling",
    "pretrained": "Hugging Face, timm",
    "data": "text, tokens, images",
    "training": "loop, checkpoints, recipes",
    "viz": "figures",
    "memory": "which tensor, how much",
    "profiling": "where time goes",
    "tracing": "every step, the stepper",
    "course": "lessons, exercises",
    "grader": "build, grade, report",
    "cli": "mta ...",
}
# The only circular imports: the operators of Tensor and `backward` need modules that need Tensor.
KNOT = {("tensor", "ops"), ("tensor", "autograd")}


def part_of(parts):
    """Return the part of the package that a module belongs to.

    `parts` is the path or the dotted name of the module, split into a tuple. The part is its first
    folder or file, with two exceptions: `models/pretrained` is a part of its own, and `methods.py`
    belongs to `tensor`.
    """
    if parts[:2] == ("models", "pretrained"):
        return "pretrained"
    first = parts[0].removesuffix(".py")
    return "tensor" if first == "methods" else first  # methods.py adds methods to Tensor


@cache  # reads every file of the package
def edges():
    """Return pairs (importing part, imported part) for all imports, even those in functions."""
    found = set()
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT / PACKAGE).parts
        own = part_of(parts)
        for names in _imports(ast.parse(path.read_text(encoding="utf-8")), parts):
            target = part_of(names) if names else None
            if own in PARTS and target in PARTS and target != own:
                found.add((own, target))
    return frozenset(found)


def _imports(tree, parts):
    """Yield the names that a file imports from the package, each as a tuple split at the dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = tuple((node.module or "").split(".")) if node.module else ()
            if node.level:
                module = parts[: len(parts) - node.level] + module
            elif module[:1] == (PACKAGE,):
                module = module[1:]
            else:
                continue
            for alias in node.names:
                yield (*module, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                names = tuple(alias.name.split("."))
                if names[0] == PACKAGE:
                    yield names[1:]


def drawn_edges():
    """Return the arrows to draw: circular imports, and imports that do not follow from others.

    If a imports b, and b imports c, then an arrow from a to c is not drawn.
    """
    down = edges() - KNOT
    reach = {part: _reached(part, down) for part in PARTS}
    return {
        (a, b)
        for a, b in down
        if not any(b in reach[other] for start, other in down if start == a and other != b)
    } | (KNOT & edges())


def _reached(start, graph):
    seen, pending = set(), [start]
    while pending:
        part = pending.pop()
        following = {b for a, b in graph if a == part} - seen
        seen |= following
        pending += following
    return seen


def dot():
    """Return the picture in DOT, the language of Graphviz."""
    lines = [
        "digraph architecture {",
        '  graph [rankdir=BT, nodesep=0.25, ranksep=0.35, bgcolor="transparent", margin=0]',
        '  node [shape=box, style="rounded,filled", fillcolor="#eef3f8", color="#54708c",'
        ' fontname="sans-serif", fontsize=13, margin="0.14,0.06"]',
        '  edge [color="#54708c", arrowsize=0.7]',
    ]
    for part, text in PARTS.items():
        if any(part in edge for edge in drawn_edges()):
            label = f'<<b>{part}</b><br/><font point-size="10">{text}</font>>'
            lines.append(f"  {part} [label={label}]")
    for a, b in sorted(drawn_edges()):
        knot = " [style=dashed, constraint=false]" if (a, b) in KNOT else ""
        lines.append(f"  {a} -> {b}{knot}")
    return "\n".join([*lines, "}\n"])


def edges_of_picture(svg):
    """Return the arrows of a picture drawn by Graphviz's `dot`, as a set of pairs of names."""
    arrows = re.findall(r"<title>(\w+)&#45;&gt;(\w+)</title>", svg)
    return set(arrows)


def main():
    """Draw the picture."""
    svg = subprocess.run(["dot", "-Tsvg"], input=dot(), capture_output=True, text=True, check=True)
    text = svg.stdout[svg.stdout.index("<svg") :]
    PICTURE.write_text(re.sub(r"<!--.*?-->\n?", "", text, flags=re.S), encoding="utf-8")
    print(PICTURE)


if __name__ == "__main__":
    sys.exit(main())
