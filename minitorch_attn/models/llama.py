"""Llama: GPT with rotary positions, RMS norms, SwiGLU and grouped-query attention.

Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models", arXiv:2302.13971v1.
Section 2.2 lists the changes to GPT: RMS norms (Zhang and Sennrich 2019), SwiGLU (Shazeer 2020) and
rotary positions (Su et al. 2021) at every layer. There are no biases. Llama 2 adds grouped-query
attention (arXiv:2307.09288v2, section 2.2; Ainslie et al. 2023, arXiv:2305.13245v3).
"""

from .. import nn
from ..computes import computes
from ..errors import ShapeError
from ..nn.checks import check_layers
from ..ops import arange
from .initialize import draw_normal
from .rotary import Rotary

__all__ = [
    "Llama", "llama2_70b", "llama3_8b", "llama_7b", "llama_13b", "llama_33b", "llama_65b",
]  # fmt: skip


class Block(nn.Module):
    """Pre-norm block: `x + attention(norm(x))`, then `x + feed_forward(norm(x))`.

    Parameters
    ----------
    embed_dim, num_heads, num_kv_heads, head_dim, ff_dim : int
    norm_eps : float
    activation : str or callable
    attention_bias, ff_bias : bool
    dropout : float
        Dropout probability of the attention weights.
    """

    def __init__(
        self, embed_dim, num_heads, num_kv_heads, head_dim, ff_dim, norm_eps=1e-6,
        activation="silu", attention_bias=False, ff_bias=False, dropout=0.0,
    ):  # fmt: skip
        super().__init__()
        self.norm1 = nn.RMSNorm(embed_dim, norm_eps)
        self.attention = nn.Attention(
            embed_dim, num_heads, num_kv_heads=num_kv_heads, head_dim=head_dim,
            bias=attention_bias, dropout=dropout,
        )  # fmt: skip
        self.norm2 = nn.RMSNorm(embed_dim, norm_eps)
        self.feed_forward = nn.GatedFeedForward(embed_dim, ff_dim, activation, bias=ff_bias)

    @computes("pre-norm block")
    def forward(self, x, rotary, mask=None, cache=None):
        # x: (batch, token, embed)   mask: (batch, heads, token, key), besides the causal mask
        x = x + self.attention(self.norm1(x), mask=mask, is_causal=True, rotary=rotary, cache=cache)
        return x + self.feed_forward(self.norm2(x))


class Llama(nn.Module):
    """Llama language model: logits of the next token at every position.

    Parameters
    ----------
    vocab_size : int
    embed_dim, num_heads, num_layers : int
    ff_dim : int
        Hidden size of the gated feed-forward layers. In the paper it is 8/3 * embed_dim, rounded
        up.
    num_kv_heads : int, optional
        Number of key and value heads, each shared by a group of query heads. Default: `num_heads`.
    head_dim : int, optional
        Size of a head. Default: embed_dim / num_heads.
    context_length : int, default 2048
        Largest number of tokens in a training sequence. For longer texts, see `rope_scaling`.
    rope_base : float, default 10000
        Base of the rotary frequencies.
    rope_scaling : dict, optional
        Scaling of the rotary frequencies. See `Rotary`.
    norm_eps : float, default 1e-6
    activation : str or callable, default "silu"
    attention_bias, ff_bias : bool, default False
    dropout : float, default 0
        Dropout probability of the attention weights.
    tie_weights : bool, default False
        Whether the token embedding and the output layer share one matrix.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = Llama(vocab_size=65, embed_dim=32, num_heads=4, num_layers=2, ff_dim=88)
    >>> model(mt.tensor([[1, 2, 3]])).shape
    (1, 3, 65)
    """

    named_methods = None  # all public methods

    def __init__(
        self, vocab_size, embed_dim, num_heads, num_layers, ff_dim, num_kv_heads=None,
        head_dim=None, context_length=2048, rope_base=10000.0, rope_scaling=None, norm_eps=1e-6,
        activation="silu", attention_bias=False, ff_bias=False, dropout=0.0, tie_weights=False,
    ):  # fmt: skip
        super().__init__()
        head_dim = embed_dim // num_heads if head_dim is None else head_dim
        sizes = (embed_dim, num_heads, num_kv_heads, head_dim, ff_dim)
        settings = (norm_eps, activation, attention_bias, ff_bias, dropout)
        self.token_embedding = nn.Embedding(vocab_size, embed_dim)
        self.rotary = Rotary(head_dim, context_length, rope_base, rope_scaling)
        check_layers("Llama", num_layers=num_layers)
        self.blocks = nn.ModuleList([Block(*sizes, *settings) for _ in range(num_layers)])
        self.norm = nn.RMSNorm(embed_dim, norm_eps)
        self.head = nn.Linear(embed_dim, vocab_size, bias=False)
        self.initialize()
        if tie_weights:
            self.head.weight = self.token_embedding.weight

    def initialize(self, std=0.02):
        """Draw weights from N(0, std^2) and set biases to 0.

        The paper does not specify the initial values.
        """
        draw_normal(self, std)

    def forward(self, ids, cache=None):
        """Compute the logits of the next token.

        Parameters
        ----------
        ids : int64 Tensor of shape (batch, token)
        cache : KVCache, optional
            Keys and values of the tokens before `ids`. The call appends the new keys and values.

        Returns
        -------
        Tensor of shape (batch, token, vocabulary)
            Logits at position t depend on tokens 0 to t.
        """
        # ids: (batch, token)
        if ids.ndim != 2:
            raise ShapeError(
                "Llama: ids must have shape (batch, token)",
                got=f"shape {ids.shape}",
                hint="pass ids.unsqueeze(0) for one text",
            )
        start = 0 if cache is None else cache.length
        positions = arange(start, start + ids.shape[1], device=ids.device).unsqueeze(0)
        x = self.decode(self.token_embedding(ids), positions, cache=cache)
        return self.head(x)  # (batch, token, vocabulary)

    def decode(self, x, positions, mask=None, cache=None):
        """Run the blocks and the last norm.

        Parameters
        ----------
        x : Tensor of shape (batch, token, embed)
        positions : int64 Tensor of shape (1 or batch, token)
        mask : Mask or bool Tensor, optional
            Mask in addition to the causal mask, such as a padding mask. True where attention is
            allowed. Broadcasts to (batch, heads, token, key).
        cache : KVCache, optional

        Returns
        -------
        Tensor of shape (batch, token, embed)
        """
        rotary = self.rotary(positions, x.dtype)
        for i, block in enumerate(self.blocks):
            x = block(x, rotary, mask, None if cache is None else cache.layer(i))
        return self.norm(x)


def _published(embed_dim, num_heads, num_layers, ff_dim, settings, **more):
    sizes = {"vocab_size": 32000, "embed_dim": embed_dim, "num_heads": num_heads}
    return Llama(**{**sizes, "num_layers": num_layers, "ff_dim": ff_dim, **more, **settings})


def llama_7b(**settings):
    """LLaMA 7B: 6,738,415,616 parameters (arXiv:2302.13971v1, Table 2).

    Parameters
    ----------
    **settings
        Arguments of `Llama` to override.

    Notes
    -----
    Inside `nn.init.skip_init()`, parameters are not initialized, and their memory (27 GB in
    float32) stays unused until weights are loaded.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> with mt.nn.init.skip_init():
    ...     model = llama_7b(num_layers=1, vocab_size=100)
    >>> sum(p.numel() for p in model.blocks[0].parameters())
    202383360
    """
    return _published(4096, 32, 32, 11008, settings)


def llama_13b(**settings):
    """LLaMA 13B: 13,015,864,320 parameters. See `llama_7b`."""
    return _published(5120, 40, 40, 13824, settings)


def llama_33b(**settings):
    """LLaMA 33B: 32,528,943,616 parameters. See `llama_7b`."""
    return _published(6656, 52, 60, 17920, settings)


def llama_65b(**settings):
    """LLaMA 65B: 65,285,660,672 parameters. See `llama_7b`."""
    return _published(8192, 64, 80, 22016, settings)


def llama2_70b(**settings):
    """Llama 2 70B: 68,976,648,192 parameters, 64 query and 8 key-value heads; see `llama_7b`."""
    more = {"num_kv_heads": 8, "context_length": 4096, "norm_eps": 1e-5}
    return _published(8192, 64, 80, 28672, settings, **more)


def llama3_8b(**settings):
    """Llama 3 8B: 8,030,261,248 parameters, 32 query and 8 key-value heads; see `llama_7b`."""
    more = {"vocab_size": 128256, "num_kv_heads": 8, "context_length": 8192, "norm_eps": 1e-5}
    return _published(4096, 32, 32, 14336, settings, rope_base=500000.0, **more)
