"""GPT: a stack of decoder blocks that predicts the next token.

Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training" (GPT), and
Radford et al. 2019, "Language Models are Unsupervised Multitask Learners" (GPT-2). What GPT-2
changed is its section 2.3: layer norm moves to the input of each sub-block, one more stands after
the last block, and residual projections start smaller, by 1/sqrt(number of residual layers).
"""

import math

from .. import nn
from ..errors import ArgumentError, ShapeError
from ..nn import masks
from ..ops import arange

__all__ = ["GPT"]


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)).

    Pre-norm: the residual path from the first embedding to the logits is a plain sum (Xiong et
    al. 2020, arXiv:2002.04745v2, Figure 1b; GPT-2, section 2.3).

    Parameters
    ----------
    embed_dim, num_heads, ff_dim : int
    dropout : float
    bias : bool
    """

    def __init__(self, embed_dim, num_heads, ff_dim, dropout=0.0, bias=True):
        super().__init__()
        self.norm1 = nn.LayerNorm(embed_dim, bias=bias)
        self.attention = nn.MultiheadAttention(
            embed_dim, num_heads, dropout=dropout, bias=bias, batch_first=True
        )
        self.norm2 = nn.LayerNorm(embed_dim, bias=bias)
        # Hendrycks and Gimpel 2016, arXiv:1606.08415v5, section 2: GELU by a tanh.
        self.feed_forward = nn.FeedForward(embed_dim, ff_dim, activation="gelu_tanh", bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        # x: (batch, token, embed)   mask: (token, token)
        y = self.norm1(x)
        attended, _ = self.attention(y, y, y, attn_mask=mask, need_weights=False)
        x = x + self.dropout(attended)
        return x + self.dropout(self.feed_forward(self.norm2(x)))


class GPT(nn.Module):
    """The language model: token ids in, logits of the next token out, at every position.

    Parameters
    ----------
    vocab_size : int
    context_length : int
        The most tokens it can look at; there is one learned position for each.
    embed_dim, num_heads, num_layers : int
    mlp_ratio : float, default 4
        Width of the feed-forward layer, in multiples of `embed_dim`.
    ff_dim : int, optional
        The same width as a number, instead of `mlp_ratio`.
    dropout : float, default 0
        After the embeddings, on the attention weights, and before each residual sum.
    bias : bool, default True
        Whether linear layers and layer norms have a bias.
    tie_weights : bool, default True
        One matrix for reading and for predicting tokens (Press and Wolf 2017,
        arXiv:1608.05859v3).

    Notes
    -----
    GPT-2 has vocab_size=50257, context_length=1024 and, from small to XL, embed_dim 768, 1024,
    1280, 1600 with 12, 24, 36, 48 layers of 64-wide heads (section 2.3, Table 2). Its output
    projection has no bias, and neither has this one. LayerNorm's eps is 1e-5, as in GPT-2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = GPT(vocab_size=65, context_length=16, embed_dim=32, num_heads=4, num_layers=2)
    >>> model(mt.tensor([[1, 2, 3]])).shape
    (1, 3, 65)
    """

    def __init__(
        self,
        vocab_size,
        context_length,
        embed_dim,
        num_heads,
        num_layers,
        mlp_ratio=4.0,
        ff_dim=None,
        dropout=0.0,
        bias=True,
        tie_weights=True,
    ):
        super().__init__()
        if embed_dim % num_heads:
            raise ArgumentError(
                "GPT: every head gets an equal share of the embedding.",
                got=f"embed_dim={embed_dim} and num_heads={num_heads}",
                expected="embed_dim to be a multiple of num_heads",
            )
        ff_dim = round(mlp_ratio * embed_dim) if ff_dim is None else ff_dim
        self.context_length = context_length
        self.token_embedding = nn.Embedding(vocab_size, embed_dim)
        self.position_embedding = nn.Embedding(context_length, embed_dim)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            [Block(embed_dim, num_heads, ff_dim, dropout, bias) for _ in range(num_layers)]
        )
        self.norm = nn.LayerNorm(embed_dim, bias=bias)
        self.head = nn.Linear(embed_dim, vocab_size, bias=False)
        self.apply(_initialise)
        for block in self.blocks:
            # Every block adds two terms to the residual path, 2 * num_layers in all.
            for projection in (block.attention.out_proj, block.feed_forward.linear2):
                nn.init.normal_(projection.weight, std=0.02 / math.sqrt(2 * num_layers))
        if tie_weights:
            self.head.weight = self.token_embedding.weight

    def forward(self, ids):
        """Logits of the next token.

        Parameters
        ----------
        ids : int64 Tensor of shape (batch, token)
            At most `context_length` tokens.

        Returns
        -------
        Tensor of shape (batch, token, vocabulary)
            Position t has seen the tokens 0 to t.
        """
        # ids: (batch, token)
        length = ids.shape[-1]
        if ids.ndim != 2 or length > self.context_length:
            raise ShapeError(
                "GPT(ids): these are not token ids of a batch.",
                got=f"shape {ids.shape}",
                expected=f"(batch, token) with at most {self.context_length} tokens",
                hint="ids[:, -model.context_length:] keeps the last ones",
            )
        positions = arange(length, device=ids.device)
        mask = masks.causal(length, device=ids.device)
        x = self.token_embedding(ids) + self.position_embedding(positions)  # (batch, token, embed)
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))  # (batch, token, vocabulary)


def _initialise(module):
    """Normal with standard deviation 0.02, biases zero (GPT, section 4.1; GPT-2's code)."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.MultiheadAttention):
        nn.init.normal_(module.in_proj_weight, std=0.02)
        if module.in_proj_bias is not None:
            nn.init.zeros_(module.in_proj_bias)
