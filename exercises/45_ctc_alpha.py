"""The forward variables of CTC.

CTC sums over all alignments of the labels with the frames. l' is the label sequence with a blank
(class 0) before, between and after the labels. p_t(k) is the probability of class k in frame t.
alpha_t(s) is the probability of all alignments of l'_1 .. l'_s with the first t frames:

    alpha_t(s) = (alpha_{t-1}(s) + alpha_{t-1}(s-1) + alpha_{t-1}(s-2)) p_t(l'_s)

The last term skips a blank. This is allowed only between two different labels. The gradient check
passes, but the probabilities are wrong. Read which properties fail, then find and fix the one
mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report

NEVER = -1e9  # in place of log 0, which is -inf


def shifted(alpha, places):
    """Return alpha(s - places) at each place s, and NEVER where s < places."""
    return mt.cat([alpha[:, :places] * 0 + NEVER, alpha[:, :-places]], 1)


def ctc(scores, labels):
    """Return -log p of the labels, of shape (batch,)."""
    # scores: (frame, batch, class)   labels: (batch, label)
    blank = labels.unsqueeze(2) * 0
    path = mt.cat([blank, labels.unsqueeze(2)], 2).flatten(1)
    path = mt.cat([path, blank[:, 0]], 1)  # l': (batch, 2 * label + 1)
    same = mt.cat([path[:, :2], path[:, :-2]], 1) == path  # l'_s = l'_{s-2}
    gate = same.to(scores.dtype) * NEVER
    log_p = scores.log_softmax(-1).gather(2, path.expand(len(scores), *path.shape))
    alpha = mt.cat([log_p[0, :, :2], log_p[0, :, 2:] * 0 + NEVER], 1)
    for frame in log_p[1:]:
        ways = [alpha, shifted(alpha, 1), shifted(alpha, 1) + gate]
        alpha = mt.logsumexp(mt.stack(ways, 0), 0) + frame
    return -mt.logsumexp(alpha[:, -2:], 1)


if __name__ == "__main__":
    scores = mt.randn(8, 2, 4, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(ctc, (scores, mt.tensor([[1, 2, 3], [2, 2, 1]]))).facts())
