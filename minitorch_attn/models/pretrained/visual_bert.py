"""VisualBERT with the Hugging Face interface; the model itself is in `models/visual_bert.py`."""

from ... import nn, ops
from ...autograd.modes import no_grad
from ..visual_bert import VisualBERT
from .activations import activation
from .bert_model import DEFAULTS, BertPreTrainedModel
from .decoder import collecting, embeddings_of, positions_of
from .encoder import encoder_mask
from .losses import token_loss
from .names import Same

__all__ = ["VisualBertForPreTraining", "VisualBertModel"]


class VisualBertPreTrainedModel(BertPreTrainedModel):
    """Base class for the VisualBERT models: BERT with embeddings of image regions."""

    model_type = "visual_bert"
    base_prefix = "visual_bert"
    defaults = dict(
        DEFAULTS, visual_embedding_dim=512, bypass_transformer=False,
        special_visual_initialize=True, pad_token_id=1, bos_token_id=0, eos_token_id=2,
    )  # fmt: skip

    def build(self, config):
        # Hugging Face's own code fails with bypass_transformer=True: it indexes a one-row mask
        config.refuse(type(self).__name__, bypass_transformer=False, is_decoder=False)
        super().build(config)
        if config.special_visual_initialize:
            self._copy_tables(self.bert.embeddings)

    def make_encoder(self, config):
        return VisualBERT(
            config.vocab_size, config.visual_embedding_dim, config.hidden_size,
            config.num_attention_heads, config.num_hidden_layers, ff_dim=config.intermediate_size,
            max_positions=config.max_position_embeddings, num_segments=config.type_vocab_size,
            dropout=config.hidden_dropout_prob,
            attention_dropout=config.attention_probs_dropout_prob,
            activation=activation(config.hidden_act), eps=config.layer_norm_eps,
            padding_idx=config.pad_token_id,
        )  # fmt: skip

    def _copy_tables(self, tables):
        """Copy the segment and position embeddings of the words to those of the image regions."""
        with no_grad():
            for part in ("segment", "position"):
                source = getattr(tables, f"{part}_embedding").weight
                getattr(tables, f"region_{part}_embedding").weight.copy_(source)

    def more_names(self, prefix):
        """Return the `NameTable` entries of the embeddings of image regions."""
        stored, ours = prefix + "embeddings.visual_", "bert.embeddings.region_"
        return [
            Same(stored + "projection", ours + "projection"),
            Same(stored + "token_type_embeddings", ours + "segment_embedding"),
            Same(stored + "position_embeddings", ours + "position_embedding"),
        ]

    def run(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, visual_embeds=None, visual_attention_mask=None,
        visual_token_type_ids=None, image_text_alignment=None, output_attentions=None,
        output_hidden_states=None,
    ):  # fmt: skip
        """Run the encoder. Return (vectors of words and regions, dict of the other outputs)."""
        bert = self.bert
        x = embeddings_of(bert.token_embedding, input_ids, inputs_embeds)  # (batch, word, embed)
        if position_ids is not None:
            position_ids = positions_of(position_ids, x, 0)
        regions = () if visual_embeds is None else (visual_embeds, visual_attention_mask)
        mask = _joined_mask(x, attention_mask, *regions)
        states = [bert.embeddings, *bert.layers]
        with collecting(self.config, bert, states, output_attentions, output_hidden_states) as got:
            x = bert.embeddings(
                x, token_type_ids, position_ids, visual_embeds, visual_token_type_ids,
                image_text_alignment,
            )  # fmt: skip
            x = bert.encode(x, mask)
        return x, {"hidden_states": got.hidden_states, "attentions": got.attentions}


def _joined_mask(words, attention_mask, regions=None, region_mask=None):
    """Return the key mask: the mask of the words, followed by the mask of the regions."""
    if regions is None:
        return encoder_mask(attention_mask, *words.shape[:2])
    if attention_mask is None and region_mask is None:
        return None
    parts = (
        ("attention_mask", words, attention_mask),
        ("visual_attention_mask", regions, region_mask),
    )
    masks = []
    for name, x, mask in parts:
        if mask is None:
            mask = ops.ones(x.shape[:2], dtype="int64", device=x.device)
        masks.append(encoder_mask(mask, *x.shape[:2], name))  # (batch, 1, 1, key)
    return ops.cat(masks, -1)


class VisualBertModel(VisualBertPreTrainedModel):
    """VisualBERT without a head: returns the vectors of words and image regions.

    Parameters
    ----------
    config : Config or dict
    add_pooling_layer : bool, default True
        Whether the model has a pooler.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> size = {"hidden_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2}
    >>> config = {"vocab_size": 11, "intermediate_size": 8, "visual_embedding_dim": 5, **size}
    >>> output = VisualBertModel(config)(mt.tensor([[4, 2, 3]]), visual_embeds=mt.zeros(1, 2, 5))
    >>> output.last_hidden_state.shape, output.pooler_output.shape
    ((1, 5, 6), (1, 6))
    """

    is_base = True

    def __init__(self, config, add_pooling_layer=True):
        self.pools = add_pooling_layer
        super().__init__(config)

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, visual_embeds=None, visual_attention_mask=None,
        visual_token_type_ids=None, image_text_alignment=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the vectors of words and image regions, and the other outputs, as in Hugging Face.

        Parameters
        ----------
        input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds
            See `BertModel.forward`.
        visual_embeds : Tensor of shape (batch, region, visual_embedding_dim), optional
            Features of the image regions.
        visual_attention_mask : Tensor of shape (batch, region), optional
            1 for regions, 0 for padding.
        visual_token_type_ids : int64 Tensor of shape (batch, region), optional
            Segment ids. Default: 1.
        image_text_alignment : int64 Tensor of shape (batch, region, aligned), optional
            Positions of the words that belong to each region, padded with -1.
        output_attentions, output_hidden_states, return_dict : bool, optional
            Default: the value in the configuration.

        Returns
        -------
        Output
        """
        x, more = self.run(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, visual_embeds,
            visual_attention_mask, visual_token_type_ids, image_text_alignment, output_attentions,
            output_hidden_states,
        )  # fmt: skip
        pooled = self.bert.pool(x) if self.pools else None
        return self.result(return_dict, last_hidden_state=x, pooler_output=pooled, **more)


class VisualBertForPreTraining(VisualBertPreTrainedModel):
    """VisualBERT with both pre-training heads: masked words and image-text matching."""

    predicts = True

    def build_head(self, config):
        self.next_sentence = nn.Linear(config.hidden_size, 2)

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, visual_embeds=None, visual_attention_mask=None,
        visual_token_type_ids=None, image_text_alignment=None, output_attentions=None,
        output_hidden_states=None, return_dict=None, labels=None, sentence_image_labels=None,
    ):  # fmt: skip
        """Return both heads' logits and, with `labels`, the loss. See `VisualBertModel.forward`.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, word + region), optional
            -100 marks positions to ignore.
        sentence_image_labels : int64 Tensor of shape (batch,), optional
            0 if the text matches the image, 1 if it does not.
        """
        x, more = self.run(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, visual_embeds,
            visual_attention_mask, visual_token_type_ids, image_text_alignment, output_attentions,
            output_hidden_states,
        )  # fmt: skip
        logits, related = self.head(x), self.next_sentence(self.bert.pool(x))
        loss = None
        if labels is not None:
            loss = token_loss(logits, labels)
            if sentence_image_labels is not None:
                loss = loss + token_loss(related, sentence_image_labels)
        results = {"loss": loss, "prediction_logits": logits, "seq_relationship_logits": related}
        return self.result(return_dict, **results, **more)
