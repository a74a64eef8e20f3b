"""ViLT with the Hugging Face interface; the model itself is in `models/vilt.py`."""

from ...errors import ArgumentError
from ..bert import TokenPrediction
from ..initialize import draw_normal
from ..vilt import ViLT
from .activations import activation
from .base import PretrainedModel
from .decoder import collecting, embeddings_of, result
from .losses import token_loss
from .names import Ignored, NameTable, Same
from .vit_names import file_block_names

__all__ = ["ViltForMaskedLM", "ViltModel"]


class ViltPreTrainedModel(PretrainedModel):
    """Base class of the ViLT models.

    Attributes
    ----------
    predicts : bool
        Whether the model has a head that predicts words.
    """

    model_type = "vilt"
    base_prefix = "vilt"
    defaults = dict(
        vocab_size=30522, type_vocab_size=2, modality_type_vocab_size=2,
        max_position_embeddings=40, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
        intermediate_size=3072, hidden_act="gelu", hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, initializer_range=0.02, layer_norm_eps=1e-12,
        image_size=384, patch_size=32, num_channels=3, qkv_bias=True, max_image_length=-1,
        tie_word_embeddings=True, num_images=-1, pad_token_id=None,
    )  # fmt: skip
    old_names = {"mlm_score.bias": "mlm_score.decoder.bias"}  # older files
    pools = True
    predicts = False

    def build(self, config):
        config.refuse(type(self).__name__, tie_word_embeddings=True)
        self.vilt = ViLT(
            config.vocab_size, config.image_size, config.patch_size, config.hidden_size,
            config.num_attention_heads, config.num_hidden_layers, config.intermediate_size,
            config.num_channels, config.max_position_embeddings, config.type_vocab_size,
            config.modality_type_vocab_size, config.hidden_dropout_prob,
            config.attention_probs_dropout_prob, activation(config.hidden_act), config.qkv_bias,
            config.layer_norm_eps, config.pad_token_id, config.max_image_length,
        )  # fmt: skip
        if not self.pools:
            self.vilt.pooler = None
        if self.predicts:
            self.head = TokenPrediction(self.vilt)
        draw_normal(self, config.initializer_range)

    def names(self):
        p = "" if self.is_base else "vilt."
        table, text = p + "embeddings.", p + "embeddings.text_embeddings."
        return NameTable(
            Same(text + "word_embeddings", "vilt.token_embedding"),
            Same(text + "position_embeddings", "vilt.embeddings.position_embedding"),
            Same(text + "token_type_embeddings", "vilt.embeddings.segment_embedding"),
            Same(text + "LayerNorm", "vilt.embeddings.norm"),
            Same(table + "patch_embeddings.projection", "vilt.patch_embedding.projection"),
            Same(table + "cls_token", "vilt.class_token"),
            Same(table + "position_embeddings", "vilt.positions"),
            Same(table + "token_type_embeddings", "vilt.modality_embedding"),
            *file_block_names(p + "encoder.layer.{}.", "vilt.blocks.{}."),
            Same(p + "layernorm", "vilt.norm"),
            Same(p + "pooler.dense", "vilt.pooler"),
            Same("mlm_score.transform.dense", "head.dense"),
            Same("mlm_score.transform.LayerNorm", "head.norm"),
            Same("mlm_score.decoder", "head.decoder"),
            Ignored("*text_embeddings.position_ids", "*text_embeddings.token_type_ids"),
        )

    def tied(self):
        words = "vilt.embeddings.text_embeddings.word_embeddings.weight"
        return {"mlm_score.decoder.weight": words} if self.predicts else {}

    def run(
        self, input_ids=None, attention_mask=None, token_type_ids=None, pixel_values=None,
        pixel_mask=None, inputs_embeds=None, image_embeds=None, image_token_type_idx=None,
        output_attentions=None, output_hidden_states=None,
    ):  # fmt: skip
        """Run the encoder. Return (vectors of words and patches, dict of the other outputs)."""
        if (pixel_values is None) == (image_embeds is None):
            raise ArgumentError(
                f"{type(self).__name__}: exactly one of pixel_values and image_embeds must be "
                "given",
                got="neither" if pixel_values is None else "both",
            )
        vilt = self.vilt
        words = embeddings_of(vilt.token_embedding, input_ids, inputs_embeds)
        words = vilt.embed_words(words, token_type_ids)  # (batch, word, embed)
        if image_embeds is None:
            pixels = pixel_values.to(dtype=vilt.positions.dtype)
            patches, real = vilt.embed_images(pixels, pixel_mask)
        else:
            patches, real = image_embeds, None if pixel_mask is None else pixel_mask.flatten(1)
        modality = 1 if image_token_type_idx is None else image_token_type_idx
        x, mask = vilt.join(words, patches, attention_mask, real, modality)
        blocks = vilt.blocks
        flags = output_attentions, output_hidden_states
        with collecting(self.config, blocks, list(blocks), *flags) as found:
            last = vilt.encode(x, mask)
        if found.hidden_states is not None:
            found.hidden_states = (x, *found.hidden_states)
        return vilt.norm(last), vars(found)


class ViltModel(ViltPreTrainedModel):
    """ViLT without a head: returns the vectors of the words, the class token and the patches.

    Parameters
    ----------
    config : Config or dict
    add_pooling_layer : bool, default True
        Whether the model has a pooler.

    Notes
    -----
    Hugging Face shuffles the patches. Here, the patches are in raster order. The order does not
    change the vectors of the words.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = ViltModel({"vocab_size": 11, "image_size": 8, "patch_size": 4, "hidden_size": 6,
    ...     "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 12})
    >>> output = model(mt.tensor([[1, 4, 2]]), pixel_values=mt.zeros(1, 3, 8, 8))
    >>> output.last_hidden_state.shape, output.pooler_output.shape
    ((1, 8, 6), (1, 6))
    """

    is_base = True

    def __init__(self, config, add_pooling_layer=True):
        self.pools = add_pooling_layer
        super().__init__(config)

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, pixel_values=None,
        pixel_mask=None, inputs_embeds=None, image_embeds=None, image_token_type_idx=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the vectors of words and patches and the other outputs, as in Hugging Face.

        Parameters
        ----------
        input_ids : int64 Tensor of shape (batch, word)
        attention_mask : Tensor of shape (batch, word), optional
            1 for words, 0 for padding.
        token_type_ids : int64 Tensor of shape (batch, word), optional
        pixel_values : Tensor of shape (batch, channel, height, width), optional
        pixel_mask : Tensor of shape (batch, height, width), optional
            1 for pixels of the image, 0 for padding. With `image_embeds`, the mask has one entry
            for each embedding.
        inputs_embeds : Tensor of shape (batch, word, embed), optional
            Embeddings to use instead of `input_ids`.
        image_embeds : Tensor of shape (batch, patch, embed), optional
            Embeddings to use instead of `pixel_values`.
        image_token_type_idx : int, default 1
            Row of the modality embedding to add to the image's patches.
        output_attentions, output_hidden_states, return_dict : bool, optional
            Default: the value in the configuration.

        Returns
        -------
        Output
        """
        x, more = self.run(
            input_ids, attention_mask, token_type_ids, pixel_values, pixel_mask, inputs_embeds,
            image_embeds, image_token_type_idx, output_attentions, output_hidden_states,
        )  # fmt: skip
        pooled = self.vilt.pool(x) if self.pools else None
        return result(
            _wanted(self.config, return_dict), last_hidden_state=x, pooler_output=pooled,
            hidden_states=more["hidden_states"], attentions=more["attentions"],
        )  # fmt: skip


class ViltForMaskedLM(ViltPreTrainedModel):
    """ViLT with a masked-language-model head: predicts the masked words.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = ViltForMaskedLM({"vocab_size": 11, "image_size": 8, "patch_size": 4,
    ...     "hidden_size": 6, "num_attention_heads": 2, "num_hidden_layers": 1,
    ...     "intermediate_size": 12})
    >>> model(mt.tensor([[1, 4, 2]]), pixel_values=mt.zeros(1, 3, 8, 8)).logits.shape
    (1, 3, 11)
    """

    predicts = True

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, pixel_values=None,
        pixel_mask=None, inputs_embeds=None, image_embeds=None, labels=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the logits of the words and, with labels, the loss. See `ViltModel.forward`.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, word), optional
            -100 marks positions to ignore.
        """
        x, more = self.run(
            input_ids, attention_mask, token_type_ids, pixel_values, pixel_mask, inputs_embeds,
            image_embeds, None, output_attentions, output_hidden_states,
        )  # fmt: skip
        words = (inputs_embeds if input_ids is None else input_ids).shape[1]
        logits = self.head(x[:, :words])
        loss = None if labels is None else token_loss(logits, labels)
        return result(
            _wanted(self.config, return_dict), loss=loss, logits=logits,
            hidden_states=more["hidden_states"], attentions=more["attentions"],
        )  # fmt: skip


def _wanted(config, return_dict):
    return config.get("return_dict", True) if return_dict is None else return_dict
