"""Text tasks: four small text-to-text tasks, selected by a prefix and generated from a seed."""

import string

import numpy as np

__all__ = ["PREFIXES", "TextTasks"]

PREFIXES = ("reverse", "sort", "vowels", "add")
_LETTERS = string.ascii_lowercase


class TextTasks:
    """Examples of four tasks, with some inputs held out.

    * "reverse: train" -> "niart"
    * "sort: train" -> "ainrt"
    * "vowels: train" -> "ai", "vowels: rhythm" -> "none"
    * "add: 37 + 58" -> "95", for numbers from 0 to 99

    The words consist of random letters. A held-out input never occurs in training. If "37 + 58" is
    held out, "58 + 37" does not occur in training either.

    Parameters
    ----------
    shortest, longest : int
        Minimum and maximum number of letters in a word.
    held_out : int, default 500
        Number of inputs to hold out for each task.
    seed : int, default 0
        Random seed for the held-out inputs.

    Attributes
    ----------
    held_out : dict of str to list of (source, target)
        Held-out pairs for each prefix.

    Examples
    --------
    >>> tasks = TextTasks(3, 8)
    >>> tasks.answer("sort", "train"), tasks.answer("add", "37 + 58")
    ('ainrt', '95')
    >>> source, target = tasks.draw(np.random.default_rng(0))
    >>> source.partition(": ")[0] in PREFIXES
    True
    """

    def __init__(self, shortest, longest, held_out=500, seed=0):
        self.shortest, self.longest = shortest, longest
        generator = np.random.default_rng([seed, 4])
        self.held_out, self._withheld = {}, set()
        for prefix in PREFIXES:
            found = {}
            while len(found) < held_out:
                given = self._input(prefix, generator)
                found.setdefault(_key(prefix, given), given)
            self._withheld |= set(found)
            self.held_out[prefix] = [self._pair(prefix, given) for given in found.values()]

    @property
    def characters(self):
        """Every character that occurs in sources and targets."""
        return "".join(sorted(_LETTERS + string.digits + " +:"))

    def _input(self, prefix, generator):
        if prefix == "add":
            first, second = generator.integers(100, size=2)
            return f"{first} + {second}"
        length = generator.integers(self.shortest, self.longest + 1)
        return "".join(_LETTERS[i] for i in generator.integers(26, size=length))

    @staticmethod
    def answer(prefix, given):
        """Return the correct target for an input.

        Parameters
        ----------
        prefix : str
            One of `PREFIXES`.
        given : str
            Input without the prefix.

        Returns
        -------
        str
        """
        if prefix == "add":
            return str(sum(int(number) for number in given.split(" + ")))
        if prefix == "vowels":
            return "".join(letter for letter in given if letter in "aeiou") or "none"
        return given[::-1] if prefix == "reverse" else "".join(sorted(given))

    def _pair(self, prefix, given):
        return f"{prefix}: {given}", self.answer(prefix, given)

    def draw(self, generator):
        """Draw a training example for a random task.

        Parameters
        ----------
        generator : numpy.random.Generator

        Returns
        -------
        source, target : str
        """
        prefix = PREFIXES[generator.integers(len(PREFIXES))]
        while True:
            given = self._input(prefix, generator)
            if _key(prefix, given) not in self._withheld:
                return self._pair(prefix, given)


def _key(prefix, given):
    """Return a normal form of an input. Inputs with the same form are held out together."""
    if prefix == "add":
        given = " + ".join(sorted(given.split(" + ")))
    return f"{prefix}: {given}"
