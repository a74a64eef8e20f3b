"""Relevance of patches to a text: attention weights times the gradient of the similarity.

The class token's attention weights do not depend on the text, but the gradient of the similarity
with respect to these weights does. The gradient shows which weights would have to grow to make the
image more similar to a given text. The method is from Chefer et al. 2021, "Generic Attention-model
Explainability for Interpreting Bi-Modal and Encoder-Decoder Transformers", arXiv:2103.15679v1.
"""

from .. import nn, ops
from ..autograd import grad
from ..named_errors import names_arguments

__all__ = ["patch_relevance"]


@names_arguments
def patch_relevance(model, images, text_vectors):
    r"""Return how much each patch contributes to the similarity of an image and a text.

    R = mean over heads of max(0, A * dS/dA)

    S is the similarity, and A contains the class token's attention weights in the last layer.

    Parameters
    ----------
    model : CLIP
        Model in eval mode whose `vision` is an `ImageTower`.
    images : Tensor of shape (image, channel, height, width)
    text_vectors : Tensor of shape (image, output)
        One text vector for each image, such as the vector of one word of a caption.

    Returns
    -------
    Tensor of shape (image, row, column)
        One nonnegative number for each patch. The numbers of an image sum to 1, unless all are 0.

    Notes
    -----
    This is Eq. 5 of arXiv:2103.15679v1 for the last layer alone.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> from minitorch_attn.models.clip import CLIP, ImageTower, TextTower
    >>> vision = ImageTower(8, 2, embed_dim=6, num_layers=1, num_heads=3, mlp_dim=7, output_dim=5)
    >>> model = CLIP(vision, TextTower(11, 7, 6, 1, 3, 5, output_dim=5)).eval()
    >>> patch_relevance(model, mt.randn(2, 3, 8, 8), mt.randn(2, 5)).shape
    (2, 4, 4)
    """
    with nn.collect_attention(model.vision.blocks[-1]) as found:
        vectors = model.image_vectors(images)  # (image, output)
    weights = found[0][1]  # (image, heads, query, key)
    score = (vectors * text_vectors.detach()).sum()  # images do not affect each other
    (gradient,) = grad(score, [weights])
    weighted = ops.relu(weights.detach() * gradient).mean(1)  # (image, query, key)
    patches = weighted[:, 0, 1:]  # query 0 and key 0 are the class token
    total = patches.sum(-1, keepdim=True)
    return (patches / ops.where(total == 0, 1.0, total)).reshape(len(images), *_grid(model, images))


def _grid(model, images):
    return model.vision.patch_embedding.grid(*images.shape[-2:])
