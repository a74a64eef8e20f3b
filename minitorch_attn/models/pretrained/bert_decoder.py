"""BERT as a decoder: causal layers with a cache and optional cross-attention.

The decoder can be initialized with BERT's weights. Only its cross-attention, which BERT does not
have, then starts with random weights. See Rothe et al. 2019, "Leveraging Pre-trained Checkpoints
for Sequence Generation Tasks", arXiv:1907.12461v2, section 2.
"""

from ... import nn
from ...computes import computes
from ...errors import ArgumentError
from ...nn.dropout import add_residual
from ..bert import EncoderLayer
from .activations import activation
from .encoder import encoder_mask

__all__ = ["DecoderLayer", "decode"]


class DecoderLayer(EncoderLayer):
    """BERT layer with a causal mask, and with cross-attention if the configuration enables it.

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

    @computes("decoder layer")
    def forward(self, x, mask=None, memory=None, memory_mask=None, cache=None, cross=None):
        # x: (batch, token, embed)   memory: (batch, key, embed)
        y = self.attention(x, mask=mask, is_causal=True, cache=cache)
        x = self.norm1(add_residual(x, y, self.dropout))
        if memory is not None:
            y = self.cross_attention(x, memory, mask=memory_mask, cache=cross)
            x = self.cross_norm(add_residual(x, y, self.dropout))
        return self.norm2(add_residual(x, self.feed_forward(x), self.dropout))


def decode(layers, x, mask, memory, memory_mask, cache):
    """Run the layers of a decoder in order.

    Parameters
    ----------
    layers : ModuleList of DecoderLayer
    x : Tensor of shape (batch, token, embed)
    mask : bool Tensor, optional
        Attention mask in addition to the causal mask, True where attention is allowed.
    memory : Tensor of shape (batch, key, embed), optional
        The encoder's output.
    memory_mask : Tensor, optional
        Attention mask for the encoder's output.
    cache : KVCache, optional
    """
    if memory is not None:
        if layers[0].cross_attention is None:
            raise ArgumentError(
                "encoder_hidden_states must be None for a decoder without cross-attention",
                hint="set config.add_cross_attention=True",
            )
        memory_mask = encoder_mask(
            memory_mask, memory.shape[0], memory.shape[1], "encoder_attention_mask"
        )
    for i, layer in enumerate(layers):
        held, cross = (None, None) if cache is None else (cache.layer(i), cache.cross(i))
        x = layer(x, mask, memory, memory_mask, held, cross)
    return x
