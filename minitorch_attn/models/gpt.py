"""GPT: a stack of decoder blocks that predicts the next token.

Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training" (GPT), and
Radford et al. 2019, "Language Models are Unsupervised Multitask Learners" (GPT-2). GPT-2 has layer
norms at the input of each sub-block and after the last block, and it scales the initial weights of
the residual projections by 1/sqrt(number of residual layers) (section 2.3).
"""

import math

from .. import nn
from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..nn.checks import check_layers
from ..nn.dropout import add_residual
from ..ops import arange
from ..tensor import Tensor
from .initialize import draw_normal

__all__ = ["GPT", "gpt2", "gpt2_large", "gpt2_medium", "gpt2_xl"]


class Block(nn.Module):
    """Pre-norm decoder block: `x + attention(norm(x))`, then `x + feed_forward(norm(x))`.

    The residual path from the embeddings to the last norm contains only additions (Xiong et al.
    2020, arXiv:2002.04745v2, Figure 1b; GPT-2, section 2.3).

    Parameters
    ----------
    embed_dim, num_heads, ff_dim : int
    dropout : float
    bias : bool
    activation : str or callable
    norm_eps : float

    Attributes
    ----------
    is_causal : bool
        Whether a token attends only to itself and to earlier tokens.
    """

    is_causal = True

    def __init__(
        self, embed_dim, num_heads, ff_dim, dropout=0.0, bias=True, activation="gelu_tanh",
        norm_eps=1e-5,
    ):  # fmt: skip
        super().__init__()
        self.norm1 = nn.LayerNorm(embed_dim, norm_eps, bias=bias)
        self.attention = nn.Attention(embed_dim, num_heads, dropout=dropout, bias=bias)
        self.norm2 = nn.LayerNorm(embed_dim, norm_eps, bias=bias)
        self.feed_forward = nn.FeedForward(embed_dim, ff_dim, activation=activation, bias=bias)
        self.dropout = nn.Dropout(dropout)

    @computes("pre-norm block")
    def forward(self, x, mask=None, cache=None):
        # x: (batch, token, embed)   mask: (batch, heads, token, key), besides the causal mask
        normed = self.norm1(x)
        attended = self.attention(normed, mask=mask, is_causal=self.is_causal, cache=cache)
        x = add_residual(x, attended, self.dropout)
        return add_residual(x, self.feed_forward(self.norm2(x)), self.dropout)


class GPT(nn.Module):
    """GPT language model: logits of the next token at every position.

    Parameters
    ----------
    vocab_size : int
    context_length : int
        Maximum number of tokens. Each position has a learned embedding.
    embed_dim, num_heads, num_layers : int
    mlp_ratio : float, default 4
        Hidden size of the feed-forward networks as a multiple of `embed_dim`.
    ff_dim : int, optional
        Hidden size of the feed-forward networks, which overrides `mlp_ratio`.
    dropout : float, default 0
        Dropout probability of the embeddings, of the attention weights and before each residual
        sum.
    bias : bool, default True
        Whether linear layers and layer norms have a bias.
    tie_weights : bool, default True
        Whether the token embedding and the output layer share one matrix (Press and Wolf 2017,
        arXiv:1608.05859v3).
    activation : str or callable, default "gelu_tanh"
        Activation of the feed-forward networks. Default: tanh approximation of GELU (Hendrycks and
        Gimpel 2016, arXiv:1606.08415v5, section 2).
    norm_eps : float, default 1e-5
        Epsilon added to the variance in the layer norms.

    Notes
    -----
    GPT-2 has vocab_size=50257, context_length=1024 and head_dim 64. From small to XL, its four
    sizes have embed_dim 768, 1024, 1280 and 1600, and 12, 24, 36 and 48 layers (section 2.3, Table
    2); see `gpt2`. As in GPT-2, the output layer does not have a bias.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = GPT(vocab_size=65, context_length=16, embed_dim=32, num_heads=4, num_layers=2)
    >>> model(mt.tensor([[1, 2, 3]])).shape
    (1, 3, 65)
    """

    named_methods = None  # all public methods

    def __init__(
        self, vocab_size, context_length, embed_dim, num_heads, num_layers, mlp_ratio=4.0,
        ff_dim=None, dropout=0.0, bias=True, tie_weights=True, activation="gelu_tanh",
        norm_eps=1e-5,
    ):  # fmt: skip
        super().__init__()
        if embed_dim % num_heads:
            raise ArgumentError(
                "GPT: embed_dim is not divisible by num_heads",
                got=f"embed_dim={embed_dim} and num_heads={num_heads}",
                expected="an embed_dim that is a multiple of num_heads",
                hint=f"use embed_dim={-(-embed_dim // num_heads) * num_heads}, the next multiple",
            )
        ff_dim = round(mlp_ratio * embed_dim) if ff_dim is None else ff_dim
        block = (embed_dim, num_heads, ff_dim, dropout, bias, activation, norm_eps)
        self.context_length = context_length
        self.token_embedding = nn.Embedding(vocab_size, embed_dim)
        self.position_embedding = nn.Embedding(context_length, embed_dim)
        self.dropout = nn.Dropout(dropout)
        check_layers("GPT", num_layers=num_layers)
        self.blocks = nn.ModuleList([Block(*block) for _ in range(num_layers)])
        self.norm = nn.LayerNorm(embed_dim, norm_eps, bias=bias)
        self.head = nn.Linear(embed_dim, vocab_size, bias=False)
        self.initialize()
        if tie_weights:
            self.head.weight = self.token_embedding.weight

    def initialize(self, std=0.02):
        """Draw weights from N(0, std^2) and set biases to 0 (GPT, section 4.1; GPT-2's code)."""
        draw_normal(self, std)
        for block in self.blocks:
            # Every block adds two terms to the residual path, 2 * num_layers in total.
            for projection in (block.attention.out_proj, block.feed_forward.linear2):
                nn.init.normal_(projection.weight, std=std / math.sqrt(2 * len(self.blocks)))

    def forward(self, ids, cache=None):
        """Compute the logits of the next token.

        Parameters
        ----------
        ids : int64 Tensor of shape (batch, token)
            Token ids, at most `context_length` including the cached tokens.
        cache : KVCache, optional
            Keys and values of the tokens before `ids`. The call appends the new keys and values.

        Returns
        -------
        Tensor of shape (batch, token, vocabulary)
            Logits at position t depend on tokens 0 to t.
        """
        # ids: (batch, token)
        start = 0 if cache is None else cache.next_position()
        x = self.decode(self.embed(ids, start), cache=cache)  # (batch, token, embed)
        return self.head(x)  # (batch, token, vocabulary)

    def embed(self, ids, start=0):
        """Return the sum of token and position embeddings, with positions counted from `start`."""
        length, on_device = ids.shape[-1], isinstance(start, Tensor)  # in a CUDA graph
        first = 0 if on_device else start
        if ids.ndim != 2 or first + length > self.context_length:
            raise ShapeError(
                "GPT: ids must have two axes and at most context_length tokens",
                got=f"shape {ids.shape}" + (f" after {start} cached tokens" if start else ""),
                expected=f"(batch, token) with at most {self.context_length} tokens",
                hint="pass ids[:, -model.context_length:] to keep the last tokens",
            )
        positions = arange(first, first + length, device=ids.device)
        positions = positions + start if on_device else positions
        return self.token_embedding(ids) + self.position_embedding(positions)

    def decode(self, x, mask=None, cache=None):
        """Run the blocks and the last norm.

        Parameters
        ----------
        x : Tensor of shape (batch, token, embed)
        mask : Mask or bool Tensor, optional
            Mask in addition to the causal mask, such as a padding mask. True where attention is
            allowed. Broadcasts to (batch, heads, token, key).
        cache : KVCache, optional

        Returns
        -------
        Tensor of shape (batch, token, embed)
        """
        x = self.dropout(x)
        for i, block in enumerate(self.blocks):
            x = block(x, mask, None if cache is None else cache.layer(i))
        return self.norm(x)


def _published(embed_dim, num_heads, num_layers, settings):
    sizes = {"vocab_size": 50257, "context_length": 1024, "embed_dim": embed_dim}
    return GPT(**{**sizes, "num_heads": num_heads, "num_layers": num_layers, **settings})


def gpt2(**settings):
    """GPT-2 small: 124,439,808 parameters.

    Parameters
    ----------
    **settings
        Arguments of `GPT` to override, such as dropout=0.1.

    Notes
    -----
    Initialization takes about a second for every 100 million parameters. To skip it, build the
    model inside `nn.init.skip_init()`. `from_pretrained` loads weights from a folder.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> with mt.nn.init.skip_init():
    ...     model = gpt2()
    >>> sum(p.numel() for p in model.parameters())
    124439808
    """
    return _published(768, 12, 12, settings)


def gpt2_medium(**settings):
    """GPT-2 medium: 354,823,168 parameters. See `gpt2`."""
    return _published(1024, 16, 24, settings)


def gpt2_large(**settings):
    """GPT-2 large: 774,030,080 parameters. See `gpt2`."""
    return _published(1280, 20, 36, settings)


def gpt2_xl(**settings):
    """GPT-2 XL: 1,557,611,200 parameters. See `gpt2`."""
    return _published(1600, 25, 48, settings)
