"""Words from Python's help topics: sentences for language models, and words with two meanings.

Many Python keywords are also English words. `for` starts a loop or is a preposition. `class` starts
a definition or is a noun. The help topics use both meanings. The meaning of each occurrence is
determined by a rule about the text, not by neighboring words; see `HelpWords`.
"""

import ast
import keyword
import re
import textwrap
from collections import defaultdict

import numpy as np

from .text import default_text

__all__ = ["ENGLISH", "KEYWORD", "HelpWords", "is_code"]

ENGLISH, KEYWORD = 0, 1  # meanings
_TOKEN = re.compile(r"\w+(?:[’']\w+)?|[^\w\s]")
_QUOTED = re.compile(r'"[^"]*"|“[^”]*”')
_COMMENT_OR_STRING = re.compile(r"#.*|\"[^\"\n]*\"|'[^'\n]*'")
_OUTPUT = re.compile(r"^(?!\s*(?:>>>|\.\.\.)(?: |$)).*$", re.M)  # a line without a prompt


class HelpWords:
    """Sentences from Python's help topics, and labeled occurrences of words with two meanings.

    A sentence is a paragraph, or part of one, between "<S>" and "</S>". Paragraphs that are longer
    than `longest` are cut into parts of equal length. Tokens are words in lower case and single
    punctuation marks. Repeated paragraphs are used once. Every tenth group of five paragraphs is
    for validation.

    A word has the meaning `KEYWORD` if it occurs in a paragraph that Python's parser accepts,
    or after the prompt of an interactive session, but not in a comment or a string. It has the
    meaning `ENGLISH` if its paragraph is not code and ends with a period or a colon, and the
    word is not in quotes. Other occurrences are not labeled.

    Parameters
    ----------
    text : str, optional
        Defaults to `default_text()`.
    longest : int, default 60
        Maximum number of tokens of a sentence, not counting the "<S>" and "</S>" marks.
    fewest : int, default 6
        Minimum number of occurrences in each meaning. Keywords that occur less often are not used.

    Attributes
    ----------
    sentences : list of list of str
    paragraphs : int array of shape (sentence,)
        Index of each sentence's paragraph.
    is_validation : bool array of shape (sentence,)
    occurrences : dict of str to list of (int, int, int)
        For each keyword, its occurrences as (index of the sentence, position in the sentence,
        meaning). Both meanings occur the same number of times: only a fixed random sample of
        the more frequent one is kept.

    Examples
    --------
    >>> words = HelpWords("Use it for loops.\\n\\nfor i in x:\\n    print(i)", fewest=1)
    >>> words.occurrences
    {'for': [(0, 3, 0), (1, 1, 1)]}
    >>> words.sentences[1][:6]
    ['<S>', 'for', 'i', 'in', 'x', ':']
    """

    def __init__(self, text=None, longest=60, fewest=6):
        found = re.split(r"\n[ \t]*\n", default_text() if text is None else text)
        found = [part for part in dict.fromkeys(p.strip("\n") for p in found) if part.strip()]
        self.sentences, paragraphs, labelled = [], [], defaultdict(list)
        for number, paragraph in enumerate(found):
            tokens = list(_tokens(paragraph))
            parts = max(-(-len(tokens) // longest), 1)
            size = -(-len(tokens) // parts)
            for start in range(0, len(tokens), max(size, 1)):
                part = tokens[start : start + size]
                for place, (word, meaning) in enumerate(part, 1):
                    if meaning is not None and keyword.iskeyword(word):
                        labelled[word].append((len(self.sentences), place, meaning))
                self.sentences.append(["<S>", *(word for word, _ in part), "</S>"])
                paragraphs.append(number)
        self.paragraphs = np.array(paragraphs)
        self.is_validation = self.paragraphs // 5 % 10 == 9
        self.occurrences = {}
        for word in sorted(labelled):
            chosen = _balanced(labelled[word], fewest)
            if chosen:
                self.occurrences[word] = chosen


def is_code(paragraph):
    """Whether a paragraph is Python code: an interactive session, or text that Python can parse.

    Examples
    --------
    >>> is_code("   if x:\\n       y = 1"), is_code("if it is empty, it is false")
    (True, False)
    """
    code = textwrap.dedent(paragraph)
    if _is_session(code):
        return True
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return True


def _is_session(code):
    return any(line.lstrip().startswith(">>> ") for line in code.split("\n"))


def _tokens(paragraph):
    """Yield pairs of a lower-case token and its meaning, which is KEYWORD, ENGLISH or None.

    Lines that contain only punctuation are skipped.
    """
    lines = [line for line in paragraph.split("\n") if re.search(r"\w", line)]
    text = "\n".join(lines)
    meaning, hidden = None, text
    if is_code(text):
        meaning, hidden = KEYWORD, _blank(_COMMENT_OR_STRING, text)
        if _is_session(text):
            hidden = _blank(_OUTPUT, hidden)
    elif text.rstrip().endswith((".", ":")):
        meaning, hidden = ENGLISH, _blank(_QUOTED, text)
    for match in _TOKEN.finditer(text):
        is_visible = hidden[match.start() : match.end()] == match[0]
        yield match[0].lower(), meaning if is_visible else None


def _blank(pattern, text):
    return pattern.sub(lambda match: re.sub(r"\S", " ", match[0]), text)


def _balanced(found, fewest):
    """Keep equal numbers of occurrences of both meanings, or none if either has too few."""
    by_meaning = [[entry for entry in found if entry[2] == meaning] for meaning in (0, 1)]
    count = min(map(len, by_meaning))
    if count < fewest:
        return []
    generator = np.random.default_rng(0)
    kept = [generator.permutation(len(part))[:count] for part in by_meaning]
    return sorted(part[i] for part, places in zip(by_meaning, kept, strict=True) for i in places)
