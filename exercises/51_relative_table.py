"""Relative positions of a query and a key.

In MViTv2, the score of query i and key j has a second term: the product of the query with a row of
a table R. The distance i - j selects the row:

    score[i, j] = q_i k_j / sqrt(d) + q_i R[i - j + n - 1]

Row 0 of R belongs to the first query and the last key, and the last row to the last query and the
first key. The gradient check passes, and a model trains well. But a table from another library
gives wrong scores. Read which properties fail, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def relative_scores(query, key, table):
    """Return scores of shape (batch, query, key)."""
    # query, key: (batch, n, d)   table: (2 n - 1, d)
    n, d = query.shape[1:]
    place = mt.arange(n)
    rows = table[place - place.unsqueeze(1) + n - 1]  # (query, key, d)
    return query @ key.transpose(1, 2) / d**0.5 + (query.unsqueeze(2) * rows).sum(-1)


if __name__ == "__main__":
    query, key = (mt.randn(2, 5, 3, dtype=mt.float64, requires_grad=True) for _ in range(2))
    table = mt.randn(9, 3, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(relative_scores, (query, key, table)).facts())
    print("\nscores of a table with 1 for queries that are two places after the key, else 0:")
    two_after = (mt.arange(9) == 5 - 1 + 2).to(mt.float64).unsqueeze(1)
    ones = mt.ones(1, 5, 1, dtype=mt.float64)
    print(relative_scores(ones, 0 * ones, two_after)[0])
