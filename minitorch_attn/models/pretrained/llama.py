"""Llama with the Hugging Face interface; the model itself is in `models/llama.py`."""

from ... import nn
from ..llama import Llama
from .activations import activation
from .decoder import attention_mask_of, cache_of, collecting, embeddings_of, positions_of
from .decoder_heads import DecoderModel, NextToken, Span, TextClasses, TokenClasses, TokenVectors
from .names import Ignored, NameTable, Same

__all__ = [
    "LlamaForCausalLM", "LlamaForQuestionAnswering", "LlamaForSequenceClassification",
    "LlamaForTokenClassification", "LlamaModel",
]  # fmt: skip

_DEFAULTS = dict(
    vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32,
    num_attention_heads=32, num_key_value_heads=None, hidden_act="silu",
    max_position_embeddings=2048, initializer_range=0.02, rms_norm_eps=1e-6, use_cache=True,
    pad_token_id=None, bos_token_id=1, eos_token_id=2, pretraining_tp=1,
    tie_word_embeddings=False, rope_parameters=None, rope_scaling=None, rope_theta=10000.0,
    attention_bias=False, attention_dropout=0.0, mlp_bias=False, head_dim=None,
)  # fmt: skip


class LlamaPreTrainedModel(DecoderModel):
    """Base class for the Llama models: configuration, parameter names and the forward pass."""

    model_type = "llama"
    base_prefix = "model"
    defaults = _DEFAULTS

    def build(self, config):
        base, scaling = rotary_settings(config, type(self).__name__)
        self.body = body = Llama(
            config.vocab_size, config.hidden_size, config.num_attention_heads,
            config.num_hidden_layers, config.intermediate_size, config.num_key_value_heads,
            config.head_dim, config.max_position_embeddings, base, scaling, config.rms_norm_eps,
            activation(config.hidden_act), config.attention_bias, config.mlp_bias,
            config.attention_dropout or 0.0, config.tie_word_embeddings,
        )  # fmt: skip
        if not self.predicts:
            body.head = nn.Identity()
        if config.initializer_range != 0.02:
            body.initialize(config.initializer_range)
        if config.pad_token_id is not None:  # the padding embedding receives a zero gradient
            body.token_embedding.padding_idx = config.pad_token_id % config.vocab_size

    def names(self):
        p = "" if self.is_base else f"{self.base_prefix}."
        stored, ours = p + "layers.{}.", "body.blocks.{}."
        return NameTable(
            Same(p + "embed_tokens", "body.token_embedding"),
            Same(p + "norm", "body.norm"),
            Same(stored + "input_layernorm", ours + "norm1"),
            Same(stored + "post_attention_layernorm", ours + "norm2"),
            *(Same(f"{stored}self_attn.{x}_proj", f"{ours}attention.{x}_proj") for x in "qkv"),
            Same(stored + "self_attn.o_proj", ours + "attention.out_proj"),
            *(
                Same(f"{stored}mlp.{x}_proj", f"{ours}feed_forward.{x}")
                for x in ("gate", "up", "down")
            ),
            Same("lm_head", "body.head"),
            Ignored("*.rotary_emb.inv_freq"),
        )

    def tied(self):
        tied = self.predicts and self.config.tie_word_embeddings
        return {"lm_head.weight": f"{self.base_prefix}.embed_tokens.weight"} if tied else {}

    def run(
        self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache,
        output_attentions, output_hidden_states,
    ):  # fmt: skip
        """Run the model. Return (token vectors, dict of the other outputs)."""
        body, config = self.body, self.config
        x = embeddings_of(body.token_embedding, input_ids, inputs_embeds)  # (batch, token, embed)
        cache, wanted = cache_of(config, past_key_values, use_cache)
        past = None if cache is None else cache.length
        mask = attention_mask_of(attention_mask, position_ids, x, past)
        positions = positions_of(position_ids, x, past)
        states = [*body.blocks[:-1], body.norm]
        flags = output_attentions, output_hidden_states
        with collecting(config, body.blocks, states, *flags) as found:
            y = body.decode(x, positions, mask, cache)
        if found.hidden_states is not None:
            found.hidden_states = (x, *found.hidden_states)
        return y, {"past_key_values": cache if wanted else None, **vars(found)}


def rotary_settings(config, model):
    """Return (base, scaling) of the rotary embedding.

    Configurations of transformers 5 contain `rope_parameters`. Older ones contain `rope_theta` and
    `rope_scaling`.
    """
    given = dict(config.rope_scaling or config.rope_parameters or {})
    base = given.pop("rope_theta", None) or config.rope_theta
    old_name = given.pop("type", "default")
    kind = given.setdefault("rope_type", old_name)
    if given.pop("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)) != 1.0:
        config.refuse(model, partial_rotary_factor=1.0)
    if kind in ("llama3", "yarn"):
        trained = config.get("original_max_position_embeddings")
        if trained is not None:
            given["original_max_position_embeddings"] = trained
        given.setdefault("original_max_position_embeddings", config.max_position_embeddings)
    return base, given


class LlamaModel(TokenVectors, LlamaPreTrainedModel):
    """Llama without a head: returns the token vectors.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> config = {"vocab_size": 11, "hidden_size": 8, "intermediate_size": 12}
    >>> config |= {"num_hidden_layers": 1, "num_attention_heads": 2}
    >>> model = LlamaModel(config).eval()
    >>> model(mt.tensor([[1, 2, 3]])).last_hidden_state.shape
    (1, 3, 8)
    """


class LlamaForCausalLM(NextToken, LlamaPreTrainedModel):
    """Llama language model: returns the logits of the next token."""


class LlamaForSequenceClassification(TextClasses, LlamaPreTrainedModel):
    """Llama for text classification or regression. The head reads the last token's vector."""


class LlamaForTokenClassification(TokenClasses, LlamaPreTrainedModel):
    """Llama for token classification."""

    def build(self, config):
        super().build(config, config.get("token_classification_bias", True))


class LlamaForQuestionAnswering(Span, LlamaPreTrainedModel):
    """Llama for extractive question answering: start and end logits of the answer."""

    base_prefix = "transformer"  # Hugging Face's prefix, in this class only
