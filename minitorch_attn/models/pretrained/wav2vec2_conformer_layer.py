"""One layer of Wav2Vec2-Conformer, with Hugging Face's interface and parameter names."""

from ..conformer import ConformerBlock
from ..wav2vec2_conformer import make_attention
from .activations import activation
from .base import PretrainedModel
from .encoder import encoder_mask
from .names import NameTable, Same

__all__ = ["DEFAULTS", "Wav2Vec2ConformerEncoderLayer", "block_names"]

DEFAULTS = dict(
    vocab_size=None, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
    intermediate_size=3072, hidden_act="gelu", hidden_dropout=0.1, activation_dropout=0.1,
    attention_dropout=0.1, feat_proj_dropout=0.0, final_dropout=0.1, layerdrop=0.1,
    initializer_range=0.02, layer_norm_eps=1e-5, feat_extract_norm="group",
    feat_extract_activation="gelu", conv_dim=[512] * 7, conv_stride=[5, 2, 2, 2, 2, 2, 2],
    conv_kernel=[10, 3, 3, 3, 3, 2, 2], conv_bias=False, num_conv_pos_embeddings=128,
    num_conv_pos_embedding_groups=16, apply_spec_augment=True, mask_time_prob=0.05,
    mask_time_length=10, mask_time_min_masks=2, mask_feature_prob=0.0, mask_feature_length=10,
    mask_feature_min_masks=0, ctc_loss_reduction="sum", ctc_zero_infinity=False,
    use_weighted_layer_sum=False, classifier_proj_size=256, pad_token_id=0, add_adapter=False,
    adapter_kernel_size=3, adapter_stride=2, num_adapter_layers=3, output_hidden_size=None,
    position_embeddings_type="relative", rotary_embedding_base=10000,
    conv_depthwise_kernel_size=31, conformer_conv_dropout=0.1,
)  # fmt: skip


def block_names(stored, ours):
    """Return the `NameTable` entries that map a Conformer block's stored names to our names.

    Parameters
    ----------
    stored, ours : str
        Prefixes of the block's names in files and in this library.
    """
    names = {
        "ffn{}_layer_norm": "feed_forward{}.norm",
        "ffn{}.intermediate_dense": "feed_forward{}.linear1",
        "ffn{}.output_dense": "feed_forward{}.linear2",
    }
    pairs = [(a.format(i), b.format(i)) for a, b in names.items() for i in (1, 2)]
    pairs += [("self_attn_layer_norm", "attention_norm"), ("final_layer_norm", "norm")]
    attention = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "out": "out_proj"}
    attention["pos"] = "position_proj"
    pairs += [(f"self_attn.linear_{a}", f"attention.{b}") for a, b in attention.items()]
    pairs += [(f"self_attn.pos_bias_{a}", f"attention.{a}") for a in "uv"]
    convolution = {
        "layer_norm": "norm", "pointwise_conv1": "pointwise1", "depthwise_conv": "depthwise",
        "pointwise_conv2": "pointwise2", "batch_norm": "batch_norm",
    }  # fmt: skip
    pairs += [(f"conv_module.{a}", f"convolution.{b}") for a, b in convolution.items()]
    return [Same(stored + a, ours + b) for a, b in pairs]


class Wav2Vec2ConformerEncoderLayer(PretrainedModel):
    """One Conformer block with the parameter names and arguments of Hugging Face's layer."""

    model_type = "wav2vec2-conformer"
    defaults = DEFAULTS

    def build(self, config):
        width, heads, rate = (
            config.hidden_size, config.num_attention_heads, config.attention_dropout
        )  # fmt: skip
        self.block = ConformerBlock(
            width, heads, config.conv_depthwise_kernel_size, dropout=config.hidden_dropout,
            activation=activation(config.hidden_act), inner_dropout=config.activation_dropout,
            attention_dropout=rate, convolution_dropout=config.conformer_conv_dropout,
            hidden_dim=config.intermediate_size, bias=False,
            attention=make_attention(config.position_embeddings_type, width, heads, rate),
        )  # fmt: skip

    def names(self):
        return NameTable(*block_names("", "block."))

    def forward(self, hidden_states, attention_mask=None, relative_position_embeddings=None):
        """Return (output of the block, attention weights).

        Parameters
        ----------
        hidden_states : Tensor of shape (batch, frame, embed)
        attention_mask : Tensor, optional
            Mask of shape (batch, frame), 1 for frames and 0 for padding, or a mask with four axes.
        relative_position_embeddings : Tensor, optional
            Encodings of the distances between frames, of shape (1 or batch, 2 * frame - 1, embed).
            For rotary positions: cosines and sines of shape (2, frame, 1, 1, head_dim).
        """
        positions = relative_position_embeddings
        if self.config.position_embeddings_type == "rotary":
            cos, sin = positions[:, : hidden_states.shape[1], 0, 0, : positions.shape[-1] // 2]
            positions = cos, sin
        mask = encoder_mask(attention_mask, *hidden_states.shape[:2])
        return self.block(hidden_states, mask=mask, positions=positions)
