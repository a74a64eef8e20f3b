"""BERT's layers as those of a decoder: causal, with a cache, and with attention to an encoder.

Rothe et al. 2019, "Leveraging Pre-trained Checkpoints for Sequence Generation Tasks",
arXiv:1907.12461v2, section 2: the weights of BERT start a decoder, which gets a second attention.
"""

from ... import nn
from ...errors import ArgumentError
from ..bert import EncoderLayer
from .activations import activation
from .encoder import encoder_mask

__all__ = ["DecoderLayer", "decode"]


class DecoderLayer(EncoderLayer):
    """BERT's layer, blind to later tokens, with attention to an encoder in between if wanted.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        embed_dim, num_heads = config.hidden_size, config.num_attention_heads
        attention_dropout = config.attention_probs_dropout_prob
        super().__init__(
            embed_dim, num_heads, config.intermediate_size, config.hidden_dropout_prob,
            attention_dropout, activation(config.hidden_act), config.layer_norm_eps,
        )  # fmt: skip
        self.cross_attention = self.cross_norm = None
        if config.add_cross_attention:
            self.cross_attention = nn.Attention(embed_dim, num_heads, dropout=attention_dropout)
            self.cross_norm = nn.LayerNorm(embed_dim, config.layer_norm_eps)

    def forward(self, x, mask=None, memory=None, memory_mask=None, cache=None, cross=None):
        # x: (batch, token, embed)   memory: (batch, key, embed)
        y = self.attention(x, mask=mask, is_causal=True, cache=cache)
        x = self.norm1(x + self.dropout(y))
        if memory is not None:
            y = self.cross_attention(x, memory, mask=memory_mask, cache=cross)
            x = self.cross_norm(x + self.dropout(y))
        return self.norm2(x + self.dropout(self.feed_forward(x)))


def decode(layers, x, mask, memory, memory_mask, cache):
    """The layers of a decoder, one after the other.

    Parameters
    ----------
    layers : ModuleList of DecoderLayer
    x : Tensor of shape (batch, token, embed)
    mask : bool Tensor, optional
        Beside the causal one.
    memory : Tensor of shape (batch, key, embed), optional
        The encoder's output.
    memory_mask : Tensor, optional
        Its attention mask.
    cache : KVCache, optional
    """
    if memory is not None:
        if layers[0].cross_attention is None:
            raise ArgumentError(
                "encoder_hidden_states: the decoder has no attention to an encoder.",
                hint="config.add_cross_attention=True gives it one",
            )
        memory_mask = encoder_mask(
            memory_mask, memory.shape[0], memory.shape[1], "encoder_attention_mask"
        )
    for i, layer in enumerate(layers):
        held, cross = (None, None) if cache is None else (cache.layer(i), cache.cross(i))
        x = layer(x, mask, memory, memory_mask, held, cross)
    return x
