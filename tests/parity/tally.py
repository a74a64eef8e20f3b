"""Count the random cases compared for each operation."""

from collections import Counter

__all__ = ["DEFAULT_DRAWS", "compared", "refused", "second"]

DEFAULT_DRAWS = 15  # calls for each operation

compared = Counter()  # values, shapes and dtypes were compared
second = Counter()  # second derivatives, too
refused = Counter()  # wrong calls that both libraries refused: nothing was compared
