"""The loss of CLIP for one direction.

Row i of the logits belongs to image i, column j to text j, and image i and text i are a pair. The
loss of CLIP asks two questions: which text belongs to image i, and which image belongs to text j?
Both answers count:

    loss = (mean of -log p_ii + mean of -log q_ii) / 2,
    p = softmax of each row,   q = softmax of each column

The gradient check passes. In training, every image finds its text, but some texts find the wrong
image. Read which properties fail, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report
from minitorch_attn.nn import functional as F


def pair_loss(logits):
    """Compute the mean loss of all pairs in both directions, of shape ()."""
    # logits: (image, text)
    pairs = mt.arange(len(logits))
    by_image = F.cross_entropy(logits, pairs)
    by_text = F.cross_entropy(logits, pairs)
    return (by_image + by_text) / 2


if __name__ == "__main__":
    logits = mt.randn(3, 3, dtype=mt.float64, requires_grad=True)
    print(gradcheck_report(pair_loss, (logits,)).facts())
    print("\nThe logits of one image grow for all texts, so this image is found for every text:")
    for more in (0.0, 1.0, 10.0):
        louder = logits.detach() + more * (mt.arange(3) == 1).to(mt.float64).unsqueeze(1)
        print(f"{more:4} more: loss {pair_loss(louder).item():.4f}; the last should be large")
