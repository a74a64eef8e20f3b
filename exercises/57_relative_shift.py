"""The relative shift.

In Transformer-XL and the Conformer, a score depends on the distance i - j between query i and key
j. One matrix product multiplies all n queries by the encodings of all 2n - 1 distances, from n - 1
down to -(n - 1):

    s[i, c] = q_i r_c / sqrt(d),   column c = n - 1 - (i - j)

Query i needs the columns n - 1 - i to 2n - 2 - i of its row. So in each row, the columns needed
start one column further left than in the row above. Padding and two reshapes shift the rows without
a loop. The gradient check passes, but the scores belong to other distances. Read which properties
fail, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def relative_scores(query, table):
    """Return scores of shape (batch, query, key)."""
    # query: (batch, n, d)   table: (2 n - 1, d), from distance n - 1 to -(n - 1)
    batch, n, d = query.shape
    scores = query @ table.T / d**0.5  # (batch, n, 2 n - 1)
    column = mt.zeros(batch, n, 1, dtype=scores.dtype)
    padded = mt.cat([scores, column], 2)  # (batch, n, 2 n)
    rows = padded.reshape(batch, 2 * n, n)[:, 1:]  # without the first n entries
    return rows.reshape(batch, n, 2 * n - 1)[:, :, :n]


if __name__ == "__main__":
    query = mt.randn(2, 4, 3, dtype=mt.float64, requires_grad=True)
    table = mt.randn(7, 3, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(relative_scores, (query, table)).facts())
    print("\nthe distance of each score, if table row c contains its distance n - 1 - c:")
    distances = mt.arange(3, -4, -1).to(mt.float64).unsqueeze(1)
    print(relative_scores(mt.ones(1, 4, 1, dtype=mt.float64), distances)[0])
