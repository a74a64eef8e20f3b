r"""Math as plain text: convert LaTeX such as `$\sqrt{d_k}$` to Unicode such as √(dₖ)."""

import re
import unicodedata

__all__ = ["markdown_for_terminal", "unicode_math"]

_TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|\s+|.", re.S)
_SYMBOLS = {
    "cdot": "·", "times": "×", "div": "÷", "pm": "±", "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥",
    "ne": "≠", "neq": "≠", "approx": "≈", "equiv": "≡", "sim": "∼", "propto": "∝", "ll": "≪",
    "gg": "≫", "in": "∈", "notin": "∉", "subset": "⊂", "cup": "∪", "cap": "∩", "forall": "∀",
    "exists": "∃", "infty": "∞", "partial": "∂", "nabla": "∇", "sum": "∑", "prod": "∏", "int": "∫",
    "to": "→", "rightarrow": "→", "leftarrow": "←", "gets": "←", "mapsto": "↦", "Rightarrow": "⇒",
    "Leftrightarrow": "⇔", "iff": "⇔", "implies": "⇒", "odot": "⊙", "otimes": "⊗", "oplus": "⊕",
    "circ": "∘", "top": "⊤", "dots": "…", "ldots": "…", "cdots": "⋯", "vdots": "⋮", "ddots": "⋱",
    "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "langle": "⟨", "rangle": "⟩",
    "mid": "|", "vert": "|", "lvert": "|", "rvert": "|", "Vert": "‖", "lVert": "‖", "rVert": "‖",
    "ell": "ℓ", "prime": "′", "quad": "\u2003", "qquad": "\u2003", "varepsilon": "ε",
    "epsilon": "ε", "varphi": "φ", "lbrace": "{", "rbrace": "}", "setminus": "∖",
    "star": "⋆", "ast": "∗",
}  # fmt: skip
_PUNCTUATION = {",": " ", ";": " ", ":": " ", " ": " ", "!": "", "\\": "\n", "|": "‖"}
_DROPPED = {
    "left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "bigg", "Bigg", "biggl",
    "biggr", "displaystyle", "limits", "nolimits", "nonumber", "middle",
}  # fmt: skip
_ACCENTS = {
    "hat": "\u0302", "widehat": "\u0302", "tilde": "\u0303", "bar": "\u0304", "dot": "\u0307",
    "overline": "\u0304", "vec": "\u20d7",
}  # fmt: skip
_PLAIN = {
    "mathrm", "text", "mathbf", "mathit", "mathsf", "mathtt", "mathcal", "operatorname", "textbf",
    "boldsymbol", "textit", "texttt", "operatorname*", "underbrace", "mathop", "bm",
}  # fmt: skip
_BLACKBOARD = {"R": "ℝ", "N": "ℕ", "Z": "ℤ", "E": "𝔼", "C": "ℂ", "Q": "ℚ"}
_SUPER = dict(
    zip(
        "0123456789+-=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVW′⊤−",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂ′ᵀ⁻",
        strict=True,
    )
)
_SUB = dict(
    zip("0123456789+-=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True)
)
_MATH = re.compile(r"\$\$(?P<block>.+?)\$\$|(?<![\\$\w])\$(?P<line>[^$\n][^$]*?)\$(?!\d)", re.S)
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.S)


def unicode_math(latex):
    r"""Convert a LaTeX formula to Unicode text.

    Exponents and indices that do not exist in Unicode keep `^` or `_`. Unknown commands keep their
    names.

    Parameters
    ----------
    latex : str, without dollar signs

    Returns
    -------
    str

    Examples
    --------
    >>> print(unicode_math(r"y_i = \frac{e^{x_i}}{\sum_j e^{x_j}}"))
    yᵢ = e^(xᵢ)/(∑ⱼ e^(xⱼ))
    >>> print(unicode_math(r"W^Q \in \mathbb{R}^{d \times d_k},\quad \hat x \le \sqrt{d_k}"))
    W^Q ∈ ℝ^(d × dₖ),   x̂ ≤ √(dₖ)
    """
    text = _Reader(_TOKEN.findall(latex.strip())).group(None)
    text = re.sub(" *\u2003[ \u2003]*", "   ", re.sub(" +", " ", text))
    lines = (line.strip() for line in text.split("\n"))
    return unicodedata.normalize("NFC", "\n".join(lines))


def markdown_for_terminal(text):
    r"""Convert formulas in Markdown: inline formulas to code, displayed formulas to code blocks.

    Parameters
    ----------
    text : str

    Returns
    -------
    str

    Examples
    --------
    >>> print(markdown_for_terminal(r"The sum $\sum_i x_i$, and `$HOME`."))
    The sum `∑ᵢ xᵢ`, and `$HOME`.
    """
    code = [(m.start(), m.end()) for m in _CODE.finditer(text)]

    def replaced(found):
        if any(start <= found.start() < end for start, end in code):
            return found[0]
        if found["block"] is None:
            return "`" + unicode_math(found["line"]).replace("\n", " ") + "`"
        return "\n```text\n" + unicode_math(found["block"]) + "\n```\n"

    return _MATH.sub(replaced, text)


class _Reader:
    """Recursive-descent parser for LaTeX tokens."""

    def __init__(self, tokens):
        self.tokens, self.at = tokens, 0

    def group(self, end):
        """Convert all tokens up to the token `end` to text, and skip `end`."""
        parts = []
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            if token == end:
                break
            if token in ("^", "_"):
                if parts and parts[-1].isspace():
                    parts.pop()
                parts.append(_script(self.argument(), token))
            else:
                parts.append(self.one(token))
        return "".join(parts)

    def one(self, token):
        """Convert one LaTeX token (a character or a command) and its arguments to text."""
        if token == "{":
            return self.group("}")
        if token.isspace():
            return " "
        if token in ("&", "~"):
            return " " if token == "~" else ""
        if not token.startswith("\\"):
            return "′" if token == "'" else token
        return self.command(token[1:])

    def command(self, name):
        """Convert a command and its arguments to text."""
        if name in _SYMBOLS:
            if name in ("partial", "nabla"):
                self.skip_space()
            return _SYMBOLS[name]
        if name in _PUNCTUATION:
            return _PUNCTUATION[name]
        if name in _DROPPED:
            return self.delimiter()
        if name in _PLAIN:
            return self.argument()
        if name == "mathbb":
            letters = self.argument()
            return "".join(_BLACKBOARD.get(letter, letter) for letter in letters)
        if name in _ACCENTS:
            letter = self.argument()
            return letter + _ACCENTS[name] if len(letter) == 1 else f"{name}({letter})"
        if name in ("frac", "tfrac", "dfrac"):
            return f"{_grouped(self.argument())}/{_grouped(self.argument())}"
        if name == "sqrt":
            root = self.option()
            return f"{_script(root, '^') if root else ''}√{_grouped(self.argument(), 1)}"
        if name in ("begin", "end"):
            return self.environment(name)
        letter = _greek(name)
        following = "".join(self.tokens[self.at : self.at + 1])
        return letter if letter != name or following in ("", "(", "_", "^", "}") else name + " "

    def argument(self):
        """Convert the next argument (a group in braces, or a single token) to text."""
        self.skip_space()
        if self.at == len(self.tokens):
            return ""
        self.at += 1
        return self.one(self.tokens[self.at - 1]).strip()

    def skip_space(self):
        """Skip spaces, which LaTeX ignores after a command."""
        while self.at < len(self.tokens) and self.tokens[self.at].isspace():
            self.at += 1

    def option(self):
        """Convert an optional argument in square brackets to text; return "" if there is none."""
        if self.tokens[self.at : self.at + 1] == ["["]:
            self.at += 1
            return self.group("]")
        return ""

    def delimiter(self):
        r"""Skip the dot after \left and similar commands, which stands for an invisible bracket."""
        if self.tokens[self.at : self.at + 1] == ["."]:
            self.at += 1
        return ""

    def environment(self, which):
        """Return the opening or closing bracket of an environment such as pmatrix, or ""."""
        name = self.argument()
        brackets = {"pmatrix": "()", "bmatrix": "[]", "vmatrix": "||", "cases": "{ "}
        return brackets.get(name, "  ")[which == "end"].strip()


def _greek(name):
    """Return the Greek letter called `name`, or `name` itself if there is none (such as `log`)."""
    kind = "CAPITAL" if name[:1].isupper() else "SMALL"
    spelling = {"lambda": "LAMDA"}.get(name.lower(), name.upper())
    try:
        return unicodedata.lookup(f"GREEK {kind} LETTER {spelling}")
    except KeyError:
        return name


def _script(text, sign):
    """Convert `text` to superscript or subscript letters, if all of them exist in Unicode."""
    letters = _SUPER if sign == "^" else _SUB
    if text and all(letter in letters for letter in text):
        return "".join(letters[letter] for letter in text)
    plain = len(text) <= 1 or (text.isascii() and text.isalnum())
    return sign + (text if plain else f"({text})")


def _grouped(text, longest=None):
    """Add brackets to `text` if it has several terms or is longer than `longest`."""
    if longest is not None:
        return text if len(text) <= longest or text.isdigit() else f"({text})"
    outside = text
    while (inside_out := re.sub(r"\([^()]*\)", "", outside)) != outside:
        outside = inside_out
    return f"({text})" if re.search(r"[\s+\-·×/=<>,∑∏∂]", outside) else text
