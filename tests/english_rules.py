"""English rules for docstrings, comments, messages and pages: from text to complaints.

`python tests/english_rules.py [FILE_OR_FOLDER ...]` prints one line per complaint, as
`file:line: rule: text`; without arguments it reads the whole repository.
"""

import ast
import bisect
import functools
import io
import itertools
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "minitorch_attn"
# Files whose prose is checked for unusual phrases.
PROSE = (
    PACKAGE, "lessons", "exercises", "assignments", "my_gpt", "docs", "README.md",
    "CONTRIBUTING.md",
)  # fmt: skip
PROSE_SUFFIXES = {".py", ".md", ".toml"}

# The largest number of complaints that each rule may have: none.
BUDGET = {
    "title": 0,
    "phrase": 0,
    "headline": 0,
    "full stop": 0,
    "parameter": 0,
    "sentence": 0,
}

# What to write instead of each unusual phrase. The text is on one line, with single spaces.
PHRASES = {
    r"\bpeers?\b(?! : )": "Hugging Face, timm or PyTorch, by name",
    r"\btheirs\b": "the name of the library or the person",
    r"(?<!hugging )\bfaces?\b": "the Hugging Face interface",
    r"\btwins?\b": "composed version, or reference implementation",
    r"\brightly\b": "correctly",
    r"\bequally many\b": "the same number of",
    r"\bas many as there are\b": "the number of",
    r"\bnormal distribution function\b": "Gaussian CDF",
    r"\bslope factors?\b|\bsteepness": "slope, or derivative",
    r"(?<!there )\b(?:is|are) no (?!(?:longer|more|less|worse|matter|one|different|\w+er)\b)":
        "is not ..., or is not a ...",
    r"\bnot to be had\b": "unavailable",
    r"\brefused by name\b": "rejected with an error",
    r"\b(?:leaves?|leaving|left) with (?:exit )?(?:status|code)\b": "exit with status",
    r"\banew\b": "again",
    r"\bin one go\b": "at once",
    r"\bin the open\b": "step by step",
    r"\bapart\b(?! from\b)": "separate, separately, or one by one",
    r"\bfurnish(?:e[sd]|ing)?\b": "populate",
    r"(?<!no )\brooms?\b(?! (?:for|to|is|left)\b)": "sandbox folder",
    r"\banswer is none\b": "malformed answer",
    r"\bbeside its place\b": "a temporary file",
    r"\bbrought to the disk\b": "flushed to disk",
    r"\bwhat is held out\b": "hold-out, or test set",
    r"\bthrown\b(?! away| out| by)": "sampled, or drawn",
    r"\bhouse rules?\b|\bthe house's\b": "default, or this library's",
    r"\bleaves the result unchanged and keeps exp\b": "for numerical stability",
    r"\bmeanwhile\b": "while this runs",
    r"\bshall\b": "must, or will",
}  # fmt: skip
_PHRASES = [(re.compile(p, re.IGNORECASE), better) for p, better in PHRASES.items()]
# "tell the two apart", "far apart" and "1e-6 apart" are everyday English.
_APART = re.compile(
    r"\b(?:tell|tells|telling|told|far|farther|further|\S*\d\S*|one|two|three|drift\w*)\b[^.;:]{0,40}$"
    r"|\b(?:steps?|entries|elements|tokens|pixels|positions)\W+$",
    re.IGNORECASE,
)

# One word of the field for another, where a file has the one and its title may have the other.
SYNONYMS = {
    "adamw": {"adam"},
    "api": {"interface"},
    "argmax": {"maximum", "largest"},
    "bmm": {"matrix"},
    "bpe": {"byte", "pair"},
    "cli": {"command"},
    "cumsum": {"cumulative"},
    "dtype": {"type"},
    "embedding": {"lookup"},
    "gemm": {"matrix"},
    "html": {"page"},
    "init": {"initialization"},
    "json": {"dictionary"},
    "linalg": {"algebra"},
    "lr": {"rate"},
    "lse": {"logarithm"},
    "main": {"command"},
    "matmul": {"matrix"},
    "mlp": {"feed"},
    "nn": {"layers", "neural"},
    "norm": {"normalization"},
    "ops": {"operations"},
    "optim": {"optimizers"},
    "philox": {"random"},
    "pow": {"powers"},
    "rnn": {"recurrent"},
    "rope": {"rotary"},
    "sgd": {"gradient"},
    "std": {"standard"},
    "vit": {"vision"},
    "viz": {"pictures", "figures", "plots", "visualization", "visualizations"},
}
STOP_WORDS = {
    "all", "and", "any", "are", "but", "can", "each", "for", "from", "has", "have", "how", "its",
    "not", "one", "that", "the", "them", "then", "they", "this", "two", "was", "what", "when",
    "where", "which", "who", "with", "without",
}  # fmt: skip
_LONG_ENDINGS = "izations ization ations ation ings ing ions ion ers ors er or ed al ly".split()
_SHORT_ENDINGS = ("ies", "es", "s", "e", "y")


def stem(word):
    """The part of a word that its forms share: "decode" and "decoding" -> "decod"."""
    for endings, shortest in ((_LONG_ENDINGS, 4), (_SHORT_ENDINGS, 3)):
        for ending in endings:
            if word.endswith(ending) and len(word) - len(ending) >= shortest:
                return word[: -len(ending)]
    return word


def same_word(a, b):
    """Whether two lower-case words are forms of one: the shorter one's stem starts the longer."""
    if a == b:
        return True
    if a in STOP_WORDS or b in STOP_WORDS:
        return False
    short, long = sorted((a, b), key=len)
    return len(short) >= 3 and long.startswith((short, stem(short)))


def words(text):
    """The lower-case words of a text: underscores and hyphens separate, CamelCase does too."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text) + " " + text
    return set(re.findall(r"[a-z]+", text.lower()))


def title_complaints(tree, path):
    """A module's title must share a word with its file's name (a package's: its folder's)."""
    path = Path(path)
    name = path.parent.name if path.stem in ("__init__", "__main__") else path.stem
    lines = (ast.get_docstring(tree) or "").splitlines()
    if not lines:
        yield 1, "title", "the module does not have a docstring"
        return
    own = words(name)
    own |= {other for word in own for other in SYNONYMS.get(word, ())}
    own |= {name.replace("_", "").lower()}
    if not any(same_word(a, b) for a in own for b in words(lines[0])):
        yield 1, "title", f"the title does not share a word with {name!r}: {lines[0]}"


@functools.lru_cache(maxsize=1)
def parsed(source):
    """The syntax tree of a program, for the rules that look at it one after the other."""
    return ast.parse(source)


@functools.lru_cache(maxsize=1)
def nodes(tree):
    """All nodes of a syntax tree."""
    return list(ast.walk(tree))


def strings(tree):
    """(line, text) of every string of a syntax tree; braces stand for the parts of an f-string."""
    inside = set()
    for node in nodes(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(child) for child in ast.walk(node)} - {id(node)}
            # A string within the braces of an f-string is a string of its own.
            for value in node.values:
                if isinstance(value, ast.FormattedValue):
                    inside -= {id(child) for child in ast.walk(value.value)}
    for node in nodes(tree):
        if id(node) not in inside and (text := literal(node)) is not None:
            yield node.lineno, text


def literal(node):
    """The text of a string, an f-string or a sum of them; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
    return None


def comments(source):
    """(line, text) of every block of comments; the lines of a block are joined, with their `#`."""
    block, start, last = [], 0, -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        alone = not token.line[: token.start[1]].strip()
        if block and alone and line == last + 1:
            block.append(token.string)
        else:
            if block:
                yield start, "\n".join(block)
            block, start = [token.string], line
        last = line if alone else -1
    if block:
        yield start, "\n".join(block)


def phrase_complaints(text, first_line=1):
    """The unusual phrases of a text, each with what to write instead."""
    lines = [re.sub(r"^[\s#>*]+", "", line).rstrip() for line in text.split("\n")]
    starts = list(itertools.accumulate((len(line) + 1 for line in lines), initial=0))
    text = " ".join(lines)
    for pattern, better in _PHRASES:
        for found in pattern.finditer(text):
            if "apart" in pattern.pattern and _APART.search(text[: found.start()]):
                continue
            line = first_line + bisect.bisect_right(starts, found.start()) - 1
            yield line, "phrase", f"{found.group().strip()!r}: write {better}"


def prose_complaints(source, suffix):
    """The unusual phrases of a file: all of a page, the strings and comments of a program."""
    if suffix != ".py":
        yield from phrase_complaints(source)
        return
    for line, text in [*strings(parsed(source)), *comments(source)]:
        yield from phrase_complaints(text, line)


@functools.cache
def error_classes():
    """The package's error classes: those of errors.py and the classes made from them."""
    names = {"CheckFailed", "StrictError", "MissingPackage", "GradcheckError"}
    tree = ast.parse((ROOT / PACKAGE / "errors.py").read_text(encoding="utf-8"))
    return names | {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def headlines(tree, classes):
    """(line, text) of the first argument of every call of an error class, where it is a string."""
    for node in nodes(tree):
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "id", getattr(node.func, "attr", None))
            if name in classes and name != "NotYetWritten":
                parts = [node.args[0]]
                while parts and isinstance(parts[0], ast.BinOp):
                    parts[:1] = [parts[0].left, parts[0].right]
                for part in parts:
                    options = (part.body, part.orelse) if isinstance(part, ast.IfExp) else (part,)
                    for text in map(literal, options):
                        if text is not None:
                            yield node.lineno, text


# "p is a probability.", "function: labels are integers": a rule, not what is wrong.
_MORAL = re.compile(
    r"^(?:[^:]*: )?(?:every |each |a |an |the |its )?(?:[\w.{}'`\[\]]+ ){1,3}?"
    r"(?:is an? [\w' -]+|are (?:[\w-]+ )?(?:integers|numbers|tensors|sizes|probabilities))\.?$",
    re.IGNORECASE,
)


def headline_complaints(tree, classes):
    """An error's headline says what is wrong at that moment, and does not end with a full stop."""
    for line, text in headlines(tree, classes):
        moral = _MORAL.match(text) and "there is" not in text
        if moral and not re.search(r"\b(?:not|must|but|already|only|neither)\b", text):
            yield line, "headline", f"write what is wrong, for instance `must be`: {text}"
        if text.rstrip().endswith(".") and not text.rstrip().endswith("..."):
            yield line, "full stop", f"a headline ends without a full stop: {text}"


def docstrings(tree):
    """(line, text) of every docstring, indentation removed."""
    for node in nodes(tree):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text


_TABLES = {"Parameters", "Other Parameters", "Attributes", "Returns", "Yields"}
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)


_INDENTED_NAME = re.compile(r"^    (\*{0,2}[a-z_]\w*(?:, \*{0,2}[a-z_]\w*)* : \S.*)$", re.M)


def parameter_complaints(text, first_line=1):
    """A description must stand alone (no Of or On at its start), and no name stand inside one."""
    marks = list(_SECTION.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=False):
        if mark.group(1) not in _TABLES:
            continue
        for found in re.finditer(r"^(\S.*)\n[ \t]+((?:Of|On)\b.*)", text[mark.end() : end], re.M):
            line = first_line + text[: mark.end() + found.start(2)].count("\n")
            text_found = f"{found.group(1)}: the description is a fragment: {found.group(2)}"
            yield line, "parameter", text_found
        for found in re.finditer(_INDENTED_NAME, text[mark.end() : end]):
            line = first_line + text[: mark.end() + found.start(1)].count("\n")
            yield line, "parameter", f"a parameter is indented like a description: {found.group(1)}"


def sentence_complaints(text, first_line=1):
    """No sentence may begin with "Of"."""
    for found in re.finditer(r"(?:\A|[.!?:;][ \n]\s*|\n\n\s*)(Of\s[^.\n]*)", text):
        line = first_line + text[: found.start(1)].count("\n")
        yield line, "sentence", f"a sentence begins with Of: {found.group(1)}"


def complaints(path):
    """(line, rule, text) of everything that the rules find in one file."""
    path = Path(path).resolve()
    source = path.read_text(encoding="utf-8")
    found = list(prose_complaints(source, path.suffix))
    if path.suffix == ".py" and PACKAGE in path.parts:
        tree = parsed(source)
        found += title_complaints(tree, path)
        found += headline_complaints(tree, error_classes())
        for line, text in docstrings(tree):
            found += [*parameter_complaints(text, line), *sentence_complaints(text, line)]
    return sorted(set(found))


def files(names=()):
    """The files to check in `names`, or in the whole repository, where `docs` means its pages."""
    for name in names or [ROOT / part for part in PROSE]:
        path = Path(name)
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in inside:
            generated = "_build" in file.parts or "__pycache__" in file.parts
            program_of_docs = file.resolve().is_relative_to(ROOT / "docs") and file.suffix == ".py"
            if file.suffix in PROSE_SUFFIXES and file.is_file() and not generated:
                if not (path.is_dir() and program_of_docs):
                    yield file


def report(names=()):
    """(file, line, rule, text) of every complaint in `names`, or in the whole repository."""
    return [(file, *complaint) for file in files(names) for complaint in complaints(file)]


def main(names):
    found = report(names)
    for file, line, rule, text in found:
        print(f"{file}:{line}: {rule}: {text}")
    counts = {rule: sum(complaint[2] == rule for complaint in found) for rule in BUDGET}
    print(", ".join(f"{rule} {count}" for rule, count in counts.items()), file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
