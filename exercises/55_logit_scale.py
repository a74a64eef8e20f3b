"""The temperature of CLIP.

CLIP multiplies the cosine of an image and a text by a factor, 1/temperature. It learns the
logarithm of this factor. The factor then stays positive, and a step of 0.01 in the logarithm
changes the factor by 1 %, whether it is 2 or 100:

    z = exp(s) cos(image, text),   s = log(1/temperature)

The gradient check passes. After a while, the learned number falls below 0, and the model prefers
the texts that fit worst. Read which properties fail, then find and fix the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report
from minitorch_attn.nn import functional as F


def scaled_similarity(images, texts, log_scale):
    """Compute the logits of all images for all texts, of shape (image, text)."""
    # images: (image, width)   texts: (text, width)   log_scale: (1,)
    images = F.normalize(images, dim=-1)
    texts = F.normalize(texts, dim=-1)
    return images @ texts.T * log_scale


if __name__ == "__main__":
    images = mt.randn(3, 5, dtype=mt.float64, requires_grad=True)
    log_scale = mt.tensor([1.3], dtype=mt.float64, requires_grad=True)
    given = images, images.detach().clone().requires_grad_(), log_scale
    print(gradcheck_report(scaled_similarity, given).facts())
    print("\nThe logit of an image for a text with the same direction:")
    for value in (1.0, 0.0, -1.0):
        logits = scaled_similarity(images, images, mt.tensor([value], dtype=mt.float64))
        print(f"s = {value:4}: {logits[0, 0].item():7.4f}, which should be positive")
