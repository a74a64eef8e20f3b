"""BertPreTrainedModel, base class for BERT models: configuration, parameter names, forward pass."""

from ... import nn
from ...errors import ArgumentError
from ..bert import BERT, TokenPrediction
from ..initialize import draw_normal
from .activations import activation
from .base import PretrainedModel
from .bert_decoder import DecoderLayer, decode
from .decoder import cache_of, collecting, embeddings_of, positions_of, result
from .encoder import decoder_mask, encoder_mask
from .names import Ignored, NameTable, Same

__all__ = ["DEFAULTS", "BertPreTrainedModel"]

DEFAULTS = dict(
    vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
    intermediate_size=3072, hidden_act="gelu", hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1, max_position_embeddings=512, type_vocab_size=2,
    initializer_range=0.02, layer_norm_eps=1e-12, pad_token_id=0, use_cache=True,
    classifier_dropout=None, is_decoder=False, add_cross_attention=False, bos_token_id=None,
    eos_token_id=None, tie_word_embeddings=True,
)  # fmt: skip


class BertPreTrainedModel(PretrainedModel):
    """Base class of BERT models with Hugging Face's parameter names.

    Attributes
    ----------
    pools : bool
        Whether the model has a pooler, which reads the first token's vector.
    predicts : bool
        Whether the model has a head that predicts tokens.
    """

    model_type = "bert"
    base_prefix = "bert"
    defaults = DEFAULTS
    old_names = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
    pools = True
    predicts = False

    def build(self, config):
        name = type(self).__name__
        config.refuse(name, position_embedding_type="absolute", tie_encoder_decoder=False)
        if config.get("pruned_heads"):
            config.refuse(name, pruned_heads={})
        self.bert = self.make_encoder(config)
        if config.is_decoder:
            self.bert.layers = nn.ModuleList(
                [DecoderLayer(config) for _ in range(config.num_hidden_layers)]
            )
        elif config.add_cross_attention:
            config.refuse(name, add_cross_attention=False)  # decoders only
        if not self.pools:
            self.bert.pooler = None
        if self.predicts:
            self.head = TokenPrediction(self.bert, config.tie_word_embeddings)
            if not config.tie_word_embeddings:  # not used, but Hugging Face saves it
                self.unused_bias = nn.Parameter(self.head.decoder.bias.detach().clone())
        self.build_head(config)
        draw_normal(self, config.initializer_range)

    def make_encoder(self, config):
        """Create the `BERT` model, or a subclass of it, for a configuration."""
        return BERT(
            config.vocab_size, config.hidden_size, config.num_attention_heads,
            config.num_hidden_layers, config.intermediate_size, config.max_position_embeddings,
            config.type_vocab_size, config.hidden_dropout_prob,
            config.attention_probs_dropout_prob, activation(config.hidden_act),
            config.layer_norm_eps, config.pad_token_id,
        )  # fmt: skip

    def build_head(self, config):
        """Create the head on top of the encoder. The base model does not have a head."""

    def names(self):
        p = "" if self.is_base else self.base_prefix + "."
        return NameTable(
            *_encoder_names(p, p + "encoder.layer.{}.", "bert.layers.{}."),
            *self.more_names(p),
            Same(p + "pooler.dense", "bert.pooler"),
            Same("cls.predictions.transform.dense", "head.dense"),
            Same("cls.predictions.transform.LayerNorm", "head.norm"),
            Same("cls.predictions.bias", "unused_bias"),
            *self._decoder_names(),
            Same("cls.seq_relationship", "next_sentence"),
            Ignored("*embeddings.position_ids", "*embeddings.token_type_ids"),
            Ignored(*([] if self.pools else ["bert.pooler.*", "cls.seq_relationship.*"])),
        )

    def more_names(self, prefix):
        """Return the `NameTable` entries of embeddings that a subclass adds."""
        return []

    def _decoder_names(self):
        """Yield the `NameTable` entries of the output layer. A tied matrix is stored once."""
        if self.config.tie_word_embeddings:
            yield Same("cls.predictions.bias", "head.decoder.bias")
        yield Same("cls.predictions.decoder", "head.decoder")

    def tied(self):
        if not (self.predicts and self.config.tie_word_embeddings):
            return {}
        return {
            "cls.predictions.decoder.weight": (
                f"{self.base_prefix}.embeddings.word_embeddings.weight"
            ),
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        }

    def run(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, encoder_hidden_states=None, encoder_attention_mask=None,
        past_key_values=None, use_cache=None, output_attentions=None, output_hidden_states=None,
    ):  # fmt: skip
        """Run the model. Return (token vectors, dict of the other outputs)."""
        bert, config = self.bert, self.config
        x = embeddings_of(bert.token_embedding, input_ids, inputs_embeds)  # (batch, token, embed)
        cache, wanted = None, False
        if config.is_decoder:
            cache, wanted = cache_of(config, past_key_values, use_cache)
        elif past_key_values is not None or encoder_hidden_states is not None:
            raise ArgumentError(
                f"{type(self).__name__}: an encoder does not support past_key_values or "
                "encoder_hidden_states",
                got="past_key_values" if past_key_values is not None else "encoder_hidden_states",
                hint="set config.is_decoder=True to make the model a decoder",
            )
        past = 0 if cache is None else cache.length
        if past or position_ids is not None:
            position_ids = positions_of(position_ids, x, past)
        read_mask = decoder_mask if config.is_decoder else encoder_mask
        mask = read_mask(attention_mask, x.shape[0], past + x.shape[1])
        states = [bert.embeddings, *bert.layers]
        with collecting(config, bert, states, output_attentions, output_hidden_states) as found:
            x = bert.embeddings(x, token_type_ids, position_ids)
            if config.is_decoder:
                memory = (encoder_hidden_states, encoder_attention_mask)
                x = decode(bert.layers, x, mask, *memory, cache)
            else:
                x = bert.encode(x, mask)
        more = {"past_key_values": cache if wanted else None, **vars(found)}
        return x, _without_cross(more, config, encoder_hidden_states)

    def result(self, return_dict, **results):
        """Return the results as an Output, or as a tuple if `return_dict` is false."""
        wanted = self.config.get("return_dict", True) if return_dict is None else return_dict
        return result(wanted, **results)


def _encoder_names(prefix, stored, ours):
    """Yield the `NameTable` entries of the embeddings and layers."""
    table, norm = prefix + "embeddings.", "LayerNorm"
    yield Same(table + "word_embeddings", "bert.token_embedding")
    yield Same(table + "position_embeddings", "bert.embeddings.position_embedding")
    yield Same(table + "token_type_embeddings", "bert.embeddings.segment_embedding")
    yield Same(table + norm, "bert.embeddings.norm")
    both = {"attention": "norm1", "crossattention": "cross_norm"}
    for part, own_norm in both.items():
        own = part.replace("cross", "cross_")
        for name in ("query", "key", "value"):
            yield Same(f"{stored}{part}.self.{name}", f"{ours}{own}.{name[0]}_proj")
        yield Same(f"{stored}{part}.output.dense", f"{ours}{own}.out_proj")
        yield Same(f"{stored}{part}.output.{norm}", ours + own_norm)
    yield Same(stored + "intermediate.dense", ours + "feed_forward.linear1")
    yield Same(stored + "output.dense", ours + "feed_forward.linear2")
    yield Same(stored + "output." + norm, ours + "norm2")


def _without_cross(more, config, memory):
    """Separate a decoder's self-attention weights from its cross-attention weights.

    The weights in `more["attentions"]` alternate between the two. Without an encoder's output
    `memory`, there is no cross-attention, and `more` is returned unchanged.
    """
    if more["attentions"] is not None and config.is_decoder and memory is not None:
        weights = more["attentions"]
        more["attentions"], more["cross_attentions"] = weights[::2], weights[1::2]
    return more
