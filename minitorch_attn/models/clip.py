"""CLIP: image and text towers, trained to give an image and its text similar vectors.

Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision",
arXiv:2103.00020v1. Figure 3 gives the method as pseudocode: `CLIP.forward` computes its logits, and
`contrastive_loss` computes its loss. Section 2.4 describes the towers, and section 3.1 describes
zero-shot classification.
"""

import math

from .. import nn, ops
from ..autograd.modes import no_grad
from ..computes import computes
from ..errors import ShapeError
from ..named_errors import names_arguments
from ..nn import init
from ..nn.checks import check_layers
from ..nn.functional import cross_entropy, normalize
from .gpt import Block
from .vit import PatchEmbedding, VisionTransformer

__all__ = ["CLIP", "ImageTower", "TextTower", "contrastive_loss", "similarity"]

LARGEST_SCALE = 100.0  # upper limit of the logits' scale factor (section 2.5)


@names_arguments
@computes("similarity of pairs")
def similarity(image_vectors, text_vectors, logit_scale):
    """Return the scaled cosine similarity of every image and every text (Figure 3).

    Parameters
    ----------
    image_vectors : Tensor of shape (image, output)
        Unit vectors.
    text_vectors : Tensor of shape (text, output)
        Unit vectors.
    logit_scale : Tensor of shape ()
        Logarithm of the scale factor, which is 1/temperature.

    Returns
    -------
    Tensor of shape (image, text)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> unit = mt.eye(2)
    >>> similarity(unit, unit[:1], mt.tensor(math.log(5.0))).round(decimals=3)
    tensor([[5.],
            [0.]])
    """
    # (image, output) @ (output, text) -> (image, text)
    return image_vectors @ text_vectors.T * logit_scale.exp()


@names_arguments
@computes("contrastive loss of pairs")
def contrastive_loss(logits):
    """Return the symmetric loss of a batch of pairs (Figure 3).

    Row i contains the logits of image i for all texts, and column i contains the logits of text i
    for all images. Each row and each column is a classification problem: the correct class of row i
    and of column i is i. The loss is the mean of all their cross-entropies.

    Parameters
    ----------
    logits : Tensor of shape (pair, pair)
        Entry (i, j) is the logit of image i and text j. Image i and text i are a pair.

    Returns
    -------
    Tensor of shape ()

    Raises
    ------
    ShapeError
        If `logits` is not square.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> contrastive_loss(mt.zeros(5, 5)).item() == mt.tensor(5.0).log().item()
    True
    """
    if logits.ndim != 2 or logits.shape[0] != logits.shape[1]:
        raise ShapeError(
            "contrastive_loss: logits must be a square matrix",
            got=f"shape {logits.shape}", expected="(pair, pair)",
            hint="pass the same number of images and texts; text i describes image i",
        )  # fmt: skip
    pairs = ops.arange(logits.shape[0], device=logits.device)
    return (cross_entropy(logits, pairs) + cross_entropy(logits.T, pairs)) / 2


class ImageTower(VisionTransformer):
    """Vision Transformer of CLIP: maps images to vectors.

    Unlike ViT, it has a layer norm before the blocks (section 2.4). The patch embedding does
    not have a bias, and the last norm and the projection are applied only to the class token.

    Parameters
    ----------
    image_size, patch_size : int or (int, int)
    embed_dim, num_layers, num_heads, mlp_dim : int
    output_dim : int, default 512
        Size of the projected vectors, the same in both towers. 0: no projection.
    in_channels : int, default 3
    attention_dropout : float, default 0
    activation : str or callable, default "quick_gelu"
        "quick_gelu" is x sigmoid(1.702 x), which the published models use.
    eps : float, default 1e-5

    Attributes
    ----------
    pre_norm : LayerNorm
    head : Linear or Identity
        The projection.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> tower = ImageTower(8, 2, embed_dim=6, num_layers=1, num_heads=3, mlp_dim=7, output_dim=5)
    >>> tower(mt.zeros(2, 3, 8, 8)).shape
    (2, 5)
    """

    def __init__(
        self, image_size=224, patch_size=32, embed_dim=768, num_layers=12, num_heads=12,
        mlp_dim=3072, output_dim=512, *, in_channels=3, attention_dropout=0.0,
        activation="quick_gelu", eps=1e-5,
    ):  # fmt: skip
        super().__init__(
            image_size, patch_size, 0, embed_dim, num_layers, num_heads, mlp_dim,
            in_channels=in_channels, attention_dropout=attention_dropout, activation=activation,
            eps=eps,
        )  # fmt: skip
        self.patch_embedding = PatchEmbedding(patch_size, in_channels, embed_dim, bias=False)
        self.pre_norm = nn.LayerNorm(embed_dim, eps=eps)
        self.head = _projection(embed_dim, output_dim)
        self.initialize()

    def initialize(self, factor=1.0):
        """Draw new values for all matrices; `factor` scales their standard deviations."""
        width = self.norm.weight.shape[0]
        init.normal_(self.class_token, std=factor * width**-0.5)
        init.normal_(self.positions.weight, std=factor * 0.02)
        init.normal_(self.patch_embedding.projection.weight, std=factor * 0.02)
        _initialize(self, width, factor)

    @computes("patches with positions")
    def embed(self, images):
        """Embed images and apply the first norm. Returns shape (batch, token, embed)."""
        return self.pre_norm(super().embed(images))

    @computes("stack of layers")
    def encode(self, tokens, mask=None):
        """Run all blocks on tokens of shape (batch, token, embed), without the last norm."""
        for block in self.blocks:
            tokens = block(tokens, mask)
        return tokens

    def pool(self, tokens):
        """Return the class token after the last norm: (batch, token, embed) -> (batch, embed)."""
        return self.norm(tokens[:, 0])


class TextTower(nn.Module):
    """Text Transformer of CLIP: maps texts to vectors, with GPT blocks.

    The output for the end token is projected to the vector of the text. Attention is causal
    (section 2.4), so only the end token attends to the whole text.

    Parameters
    ----------
    vocab_size : int, default 49408
    context_length : int, default 77
        Maximum number of tokens, including the start and end tokens.
    embed_dim, num_layers, num_heads, mlp_dim : int
    output_dim : int, default 512
        Size of the projected vectors, the same in both towers. 0: no projection.
    end_id : int, optional
        Id of the end token. Default: the largest id in each text, as in the published code.
    attention_dropout : float, default 0
    activation : str or callable, default "quick_gelu"
    eps : float, default 1e-5

    Attributes
    ----------
    blocks : ModuleList of Block
    head : Linear or Identity
        The projection.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> tower = TextTower(11, 7, embed_dim=6, num_layers=1, num_heads=3, mlp_dim=5, output_dim=5)
    >>> ids = mt.tensor([[1, 4, 10, 0], [1, 4, 2, 10]])  # 1 starts and 10 ends a text
    >>> tower(ids).shape, tower.end_of(ids)
    ((2, 5), tensor([2, 3]))
    """

    def __init__(
        self, vocab_size=49408, context_length=77, embed_dim=512, num_layers=12, num_heads=8,
        mlp_dim=2048, output_dim=512, *, end_id=None, attention_dropout=0.0,
        activation="quick_gelu", eps=1e-5,
    ):  # fmt: skip
        super().__init__()
        self.end_id = end_id
        self.token_embedding = nn.Embedding(vocab_size, embed_dim)
        self.position_embedding = nn.Embedding(context_length, embed_dim)
        check_layers("TextTower", num_layers=num_layers)
        self.blocks = nn.ModuleList(
            Block(embed_dim, num_heads, mlp_dim, activation=activation, norm_eps=eps)
            for _ in range(num_layers)
        )
        for block in self.blocks:
            block.attention.dropout = attention_dropout
        self.norm = nn.LayerNorm(embed_dim, eps)
        self.head = _projection(embed_dim, output_dim)
        self.initialize()

    def initialize(self, factor=1.0):
        """Draw new values for all matrices; `factor` scales their standard deviations."""
        init.normal_(self.token_embedding.weight, std=factor * 0.02)
        init.normal_(self.position_embedding.weight, std=factor * 0.01)
        _initialize(self, self.norm.weight.shape[0], factor)

    def forward(self, ids, mask=None):
        """Compute one vector for each text.

        Parameters
        ----------
        ids : int64 Tensor of shape (batch, token)
        mask : Mask or bool Tensor, optional
            True where attention is allowed, in addition to the causal mask; broadcasts to
            (batch, heads, query, key). Padding after the end token does not need a mask.

        Returns
        -------
        Tensor of shape (batch, output)
        """
        tokens = self.norm(self.encode(self.embed(ids), mask))
        return self.head(self.pool(tokens, ids))

    def embed(self, ids, positions=None):
        """Return token plus position embeddings, shape (batch, token, embed)."""
        return self.with_positions(self.token_embedding(ids), positions)

    def with_positions(self, tokens, positions=None):
        """Add the position embeddings to token embeddings of shape (batch, token, embed)."""
        length, longest = tokens.shape[1], self.position_embedding.num_embeddings
        if length > longest:
            raise ShapeError(
                "TextTower: the text has more tokens than the model has positions",
                got=f"{length} tokens", expected=f"at most {longest}",
                hint="truncate the text, and keep its end token",
            )  # fmt: skip
        if positions is None:
            positions = ops.arange(length, device=tokens.device)
        return tokens + self.position_embedding(positions)

    @computes("stack of layers")
    def encode(self, tokens, mask=None):
        """Run all blocks on tokens of shape (batch, token, embed), without the last norm."""
        for block in self.blocks:
            tokens = block(tokens, mask)
        return tokens

    def end_of(self, ids):
        """Return the position of the first end token in each row of `ids`, shape (batch,)."""
        if self.end_id is None:
            return ids.argmax(-1)  # the end token has the largest id
        return (ids == self.end_id).to(dtype="int64").argmax(-1)

    @computes("end token")
    def pool(self, tokens, ids):
        """Return the vectors of the end tokens: (batch, token, embed) -> (batch, embed)."""
        return tokens[ops.arange(ids.shape[0], device=ids.device), self.end_of(ids)]


class CLIP(nn.Module):
    """CLIP: an image tower, a text tower and a learned temperature.

    Parameters
    ----------
    vision : Module
        Maps images to vectors, such as `ImageTower`.
    text : Module
        Maps ids to vectors of the same size, such as `TextTower`.
    temperature : float, default 0.07
        Initial temperature (section 2.5).

    Attributes
    ----------
    logit_scale : Parameter of shape ()
        log(1/temperature), which is learned. The scale factor 1/temperature is therefore always
        positive.

    References
    ----------
    .. [1] Radford et al. 2021, arXiv:2103.00020v1, Figure 3 and sections 2.4 and 2.5.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> vision = ImageTower(8, 2, embed_dim=6, num_layers=1, num_heads=3, mlp_dim=7, output_dim=5)
    >>> text = TextTower(11, 7, embed_dim=6, num_layers=1, num_heads=3, mlp_dim=5, output_dim=5)
    >>> model = CLIP(vision, text)
    >>> images, ids = mt.randn(2, 3, 8, 8), mt.tensor([[1, 4, 10, 0], [1, 4, 2, 10]])
    >>> logits = model(images, ids)
    >>> logits.shape, contrastive_loss(logits).shape
    ((2, 2), ())

    Zero-shot classification with two prompts for each of three classes:

    >>> prompts = mt.tensor([[[1, k, 10], [1, k, 2]] for k in (3, 4, 5)])
    >>> classes = model.class_vectors(prompts)
    >>> classes.shape, model.classify(images, classes).shape
    ((3, 5), (2, 3))
    """

    named_methods = None  # all public methods

    def __init__(self, vision, text, temperature=0.07):
        super().__init__()
        self.vision, self.text = vision, text
        self.logit_scale = nn.Parameter(ops.full((), math.log(1 / temperature)))

    @computes("similarity of images and texts")
    def forward(self, images, ids, mask=None):
        """Compute the logits of all images for all texts.

        Parameters
        ----------
        images : Tensor of shape (image, channel, height, width)
        ids : int64 Tensor of shape (text, token)
        mask : Mask or bool Tensor, optional
            See `TextTower.forward`.

        Returns
        -------
        Tensor of shape (image, text)
        """
        return similarity(
            self.image_vectors(images), self.text_vectors(ids, mask), self.logit_scale
        )

    def image_vectors(self, images):
        """Return unit vectors of images, shape (image, output)."""
        return normalize(self.vision(images), dim=-1)

    def text_vectors(self, ids, mask=None):
        """Return unit vectors of texts, shape (text, output)."""
        return normalize(self.text(ids, mask), dim=-1)

    @computes("class vectors of prompts")
    def class_vectors(self, prompts):
        """Return one unit vector for each class, computed from its prompts (section 3.1.4).

        The prompts of a class are texts that name the class. Their unit vectors are averaged, and
        the mean is normalized again. Once the class vectors are known, classification with
        several prompts per class takes no longer than with one.

        Parameters
        ----------
        prompts : int64 Tensor of shape (class, prompt, token)

        Returns
        -------
        Tensor of shape (class, output)
        """
        classes, each, length = prompts.shape
        vectors = self.text_vectors(prompts.reshape(classes * each, length))
        return normalize(vectors.reshape(classes, each, -1).mean(1), dim=-1)

    def classify(self, images, class_vectors):
        """Return the logits (image, class) of the zero-shot classifier of section 3.1.2.

        `class_vectors` come from the method of the same name. No weights are trained for the
        classes.
        """
        return similarity(self.image_vectors(images), class_vectors, self.logit_scale)

    def limit_scale(self, largest=LARGEST_SCALE):
        """Clip the logits' scale in place. Call this after every training step (section 2.5)."""
        with no_grad():
            self.logit_scale.clamp_(max=math.log(largest))


def _projection(embed_dim, output_dim):
    return nn.Linear(embed_dim, output_dim, bias=False) if output_dim else nn.Identity()


def _initialize(tower, width, factor):
    """Initialize the projection and the blocks of a tower, as in the published code."""
    deep = (2 * max(len(tower.blocks), 1)) ** -0.5  # each block adds two terms to the residual path
    for block in tower.blocks:
        attention, hidden = block.attention, block.feed_forward
        for layer in (attention.q_proj, attention.k_proj, attention.v_proj):
            init.normal_(layer.weight, std=factor * width**-0.5)
        init.normal_(attention.out_proj.weight, std=factor * width**-0.5 * deep)
        init.normal_(hidden.linear1.weight, std=factor * (2 * width) ** -0.5)
        init.normal_(hidden.linear2.weight, std=factor * width**-0.5 * deep)
        for layer in (*attention.children(), hidden.linear1, hidden.linear2):
            init.zeros_(layer.bias)
    if isinstance(tower.head, nn.Linear):
        init.normal_(tower.head.weight, std=factor * width**-0.5)
