"""Repeated labels in CTC.

An alignment is a walk through the states l'_1 .. l'_S: the labels, with a blank (class 0) before,
between and after them. In each frame, the walk stays in its state, moves to the next state, or
skips the blank between two labels:

    alpha_t(r) = p_t(l'_r) * (sum of alpha_{t-1}(s) over the states s that lead to r)

Here p_t(k) is the probability of class k in frame t, and alpha_t(r) is the probability of all walks
that are in state r at frame t. Frames with equal classes are read as one label. So the blank
between two equal labels must not be skipped: "five five" without a blank would be read as "five".
The gradient check passes, but some losses are too small. Read which properties fail, then find and
fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report

NEVER = -1e9  # in place of log 0, which is -inf


def moves(states):
    """Return 0 where state s leads to state r and NEVER elsewhere, shape (batch, s, r)."""
    place = mt.arange(states.shape[1])
    step = place - place.unsqueeze(1)  # (s, r): r - s
    new_label = states.unsqueeze(1) != mt.roll(states, 1, 1).unsqueeze(2)  # (batch, s, r)
    no_blank = (states != 0).unsqueeze(1)  # of the state r
    allowed = (step == 0) | (step == 1) | ((step == 2) & new_label & no_blank)
    return mt.where(allowed, 0.0, NEVER)


def ctc(scores, labels):
    """Return -log p of the labels, of shape (batch,)."""
    # scores: (frame, batch, class)   labels: (batch, label)
    batch, size = labels.shape
    states = mt.zeros(batch, 2 * size + 1, dtype=labels.dtype)
    states[:, 1::2] = labels
    log_p = scores.log_softmax(-1).gather(2, states.expand(len(scores), *states.shape))
    lead = moves(states).to(scores.dtype)
    alpha = mt.cat([log_p[0, :, :2], log_p[0, :, 2:] * 0 + NEVER], 1)
    for frame in log_p[1:]:
        alpha = mt.logsumexp(alpha.unsqueeze(2) + lead, 1) + frame  # (batch, r)
    return -mt.logsumexp(alpha[:, -2:], 1)


if __name__ == "__main__":
    scores = mt.randn(8, 2, 4, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(ctc, (scores, mt.tensor([[1, 2, 3], [2, 2, 1]]))).facts())
