"""GPT-2 with the Hugging Face interface; the model itself is in `models/gpt.py`."""

import math

from ... import nn
from ...errors import ArgumentError
from ..gpt import GPT
from .activations import activation
from .decoder import (
    attention_mask_of,
    cache_of,
    collecting,
    embeddings_of,
    positions_of,
    result,
)  # fmt: skip
from .decoder_heads import DecoderModel, NextToken, Span, TextClasses, TokenClasses, TokenVectors
from .losses import token_loss
from .names import Ignored, NameTable, Same, Stacked, Transposed

__all__ = [
    "GPT2DoubleHeadsModel", "GPT2ForQuestionAnswering", "GPT2ForSequenceClassification",
    "GPT2ForTokenClassification", "GPT2LMHeadModel", "GPT2Model",
]  # fmt: skip

_DEFAULTS = dict(
    vocab_size=50257, n_positions=1024, n_embd=768, n_layer=12, n_head=12, n_inner=None,
    activation_function="gelu_new", resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1,
    layer_norm_epsilon=1e-5, initializer_range=0.02, summary_type="cls_index",
    summary_use_proj=True, summary_activation=None, summary_proj_to_labels=True,
    summary_first_dropout=0.1, scale_attn_weights=True, use_cache=True, bos_token_id=50256,
    eos_token_id=50256, pad_token_id=None, scale_attn_by_inverse_layer_idx=False,
    reorder_and_upcast_attn=False, add_cross_attention=False, tie_word_embeddings=True,
)  # fmt: skip


class GPT2PreTrainedModel(DecoderModel):
    """Base class for the GPT-2 models: configuration, parameter names and the forward pass."""

    model_type = "gpt2"
    base_prefix = "transformer"
    defaults = _DEFAULTS
    aliases = {
        "hidden_size": "n_embd", "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head", "num_hidden_layers": "n_layer",
    }  # fmt: skip

    def build(self, config):
        config.refuse(type(self).__name__, add_cross_attention=False)
        if config.get("pruned_heads"):
            config.refuse(type(self).__name__, pruned_heads={})
        self.body = self.make_body(config)
        self.body.dropout = nn.Dropout(config.embd_pdrop)
        for i, block in enumerate(self.body.blocks):
            _set_attention(block, config, i)
        if config.initializer_range != 0.02 or config.reorder_and_upcast_attn:
            self.body.initialize(config.initializer_range)

    def make_body(self, config):
        """Create the `GPT` model, or a subclass of it, for a configuration."""
        body = GPT(
            config.vocab_size, config.n_positions, config.n_embd, config.n_head, config.n_layer,
            ff_dim=config.n_inner, dropout=config.resid_pdrop,
            tie_weights=config.tie_word_embeddings,
            activation=activation(config.activation_function), norm_eps=config.layer_norm_epsilon,
        )  # fmt: skip
        if not self.predicts:
            body.head = nn.Identity()
        return body

    def names(self):
        p = "" if self.is_base else "transformer."
        stored, ours = p + "h.{}.", "body.blocks.{}."
        attention = [f"{ours}attention.{name}_proj" for name in "qkv"]
        return NameTable(
            Same(p + "wte", "body.token_embedding"),
            Same(p + "wpe", "body.position_embedding"),
            Same(p + "ln_f", "body.norm"),
            Same(stored + "ln_1", ours + "norm1"),
            Same(stored + "ln_2", ours + "norm2"),
            Stacked(stored + "attn.c_attn", attention, transposed=True),
            Transposed(stored + "attn.c_proj", ours + "attention.out_proj"),
            Transposed(stored + "mlp.c_fc", ours + "feed_forward.linear1"),
            Transposed(stored + "mlp.c_proj", ours + "feed_forward.linear2"),
            Same("lm_head", "body.head"),
            Ignored("*.attn.bias", "*.attn.masked_bias"),  # causal masks of old files
        )

    def tied(self):
        tied = self.predicts and self.config.tie_word_embeddings
        return {"lm_head.weight": "transformer.wte.weight"} if tied else {}

    def run(
        self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache,
        output_attentions, output_hidden_states, token_type_ids=None,
    ):  # fmt: skip
        """Run the model; return the token vectors and a dict of the other outputs."""
        body, config = self.body, self.config
        x = embeddings_of(body.token_embedding, input_ids, inputs_embeds)  # (batch, token, embed)
        cache, wanted = cache_of(config, past_key_values, use_cache)
        past = None if cache is None else cache.length
        mask = self.mask_of(attention_mask, position_ids, x, past)
        x = x + body.position_embedding(positions_of(position_ids, x, past))
        if token_type_ids is not None:
            x = x + body.token_embedding(token_type_ids.reshape(-1, x.shape[1]))
        states = [body.dropout, *body.blocks[:-1], body.norm]
        flags = output_attentions, output_hidden_states
        with collecting(config, body.blocks, states, *flags) as found:
            x = body.decode(x, mask, cache)
        if input_ids is not None:
            x = x.reshape(*input_ids.shape, x.shape[-1])
        if found.hidden_states is not None:
            found.hidden_states = (*found.hidden_states[:-1], x)
        return x, {"past_key_values": cache if wanted else None, **vars(found)}

    def mask_of(self, attention_mask, position_ids, x, past):
        """Return the mask to combine with the causal mask, or None; see `attention_mask_of`."""
        return attention_mask_of(attention_mask, position_ids, x, past)


def _set_attention(block, config, i):
    """Apply the configuration's attention options: upcasting, dropout and scaling of the scores."""
    attention = block.attention
    if config.reorder_and_upcast_attn:
        attention = block.attention = UpcastAttention(config.n_embd, config.n_head)
    attention.dropout = config.attn_pdrop
    attention.scale = 1 / math.sqrt(attention.head_dim) if config.scale_attn_weights else 1.0
    if config.scale_attn_by_inverse_layer_idx:
        attention.scale /= i + 1


class UpcastAttention(nn.Attention):
    """Attention that computes scores and weights in float32 even if the model is in float16."""

    def attend(self, query, key, value, mask=None, bias=None, is_causal=False):
        if query.dtype.itemsize >= 4:
            return super().attend(query, key, value, mask, bias, is_causal)
        inputs = (x.to("float32") for x in (query, key, value))
        return super().attend(*inputs, mask, bias, is_causal).to(query.dtype)


class GPT2TokenVectors(TokenVectors):
    """Base class for GPT-2 without a head, with Hugging Face's order of arguments."""

    def forward(
        self, input_ids=None, past_key_values=None, attention_mask=None, token_type_ids=None,
        position_ids=None, inputs_embeds=None, encoder_hidden_states=None,
        encoder_attention_mask=None, use_cache=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Same as `TokenVectors.forward`, with a different argument order and more arguments.

        Parameters
        ----------
        token_type_ids : int64 Tensor of shape (batch, token), optional
            A second id for each token. The row of the token embedding matrix with this id is added
            to the token's embedding.
        encoder_hidden_states, encoder_attention_mask : None (not supported)
        """
        _refuse_memory(encoder_hidden_states, encoder_attention_mask)
        return super().forward(
            input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache,
            output_attentions, output_hidden_states, return_dict, token_type_ids=token_type_ids,
        )  # fmt: skip


class GPT2Model(GPT2TokenVectors, GPT2PreTrainedModel):
    """GPT-2 without a head: returns the token vectors.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = GPT2Model({"vocab_size": 11, "n_embd": 6, "n_layer": 1, "n_head": 2}).eval()
    >>> model(mt.tensor([[1, 2, 3]])).last_hidden_state.shape
    (1, 3, 6)
    """


class GPT2LMHeadModel(NextToken, GPT2PreTrainedModel):
    """GPT-2 language model: returns the logits of the next token.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> config = {"vocab_size": 11, "n_embd": 6, "n_layer": 1, "n_head": 2}
    >>> model = GPT2LMHeadModel(config).eval()
    >>> ids = mt.tensor([[1, 2, 3]])
    >>> output = model(ids, labels=ids)
    >>> output.logits.shape, output.loss.shape
    ((1, 3, 11), ())
    """

    def forward(
        self, input_ids=None, past_key_values=None, attention_mask=None, token_type_ids=None,
        position_ids=None, inputs_embeds=None, encoder_hidden_states=None,
        encoder_attention_mask=None, labels=None, use_cache=None, logits_to_keep=0,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Same as `NextToken.forward`, with the argument order of `GPT2Model.forward`."""
        _refuse_memory(encoder_hidden_states, encoder_attention_mask)
        return super().forward(
            input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, labels,
            use_cache, logits_to_keep, output_attentions, output_hidden_states, return_dict,
            token_type_ids=token_type_ids,
        )  # fmt: skip


class GPT2DoubleHeadsModel(GPT2PreTrainedModel):
    """GPT-2 language model with a second head for multiple choice (Figure 1 of the GPT paper)."""

    predicts = True

    def build(self, config):
        config.num_labels = 1
        super().build(config)
        self.multiple_choice_head = Summary(config)
        if isinstance(self.multiple_choice_head.summary, nn.Linear):
            self.initialize_head(self.multiple_choice_head.summary)

    def forward(
        self, input_ids=None, past_key_values=None, attention_mask=None, token_type_ids=None,
        position_ids=None, inputs_embeds=None, mc_token_ids=None, labels=None, mc_labels=None,
        use_cache=None, output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Same as `GPT2LMHeadModel.forward`, with `input_ids` of shape (batch, choice, token).

        Parameters
        ----------
        mc_token_ids : int64 Tensor of shape (batch, choice), optional
            Position of the vector that represents each choice. Default: the last token.
        mc_labels : int64 Tensor of shape (batch,), optional
            Index of the correct choice.
        """
        x, more = self.run(
            input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache,
            output_attentions, output_hidden_states, token_type_ids,
        )  # fmt: skip
        logits = self.body.head(x)  # (batch, choice, token, vocabulary)
        choices = self.multiple_choice_head(x, mc_token_ids).squeeze(-1)  # (batch, choice)
        loss = mc_loss = None
        if labels is not None:
            loss = token_loss(logits[..., :-1, :], labels[..., 1:])
        if mc_labels is not None:
            mc_loss = token_loss(choices, mc_labels)
        return result(
            return_dict, loss=loss, mc_loss=mc_loss, logits=logits, mc_logits=choices, **more
        )


class Summary(nn.Module):
    """Reduce a sequence to one vector, as specified by the configuration's `summary_*` fields."""

    def __init__(self, config):
        super().__init__()
        self.kind = config.summary_type
        if self.kind not in ("last", "first", "mean", "cls_index"):
            raise ArgumentError(
                "config.summary_type is not supported",
                got=repr(self.kind), expected="'last', 'first', 'mean' or 'cls_index'",
            )  # fmt: skip
        outputs = config.num_labels if config.summary_proj_to_labels else config.n_embd
        self.summary = nn.Linear(config.n_embd, outputs or config.n_embd)
        if not config.summary_use_proj:
            self.summary = nn.Identity()
        self.activation = activation(config.summary_activation or "linear")
        self.first_dropout = nn.Dropout(config.summary_first_dropout)
        self.last_dropout = nn.Dropout(config.get("summary_last_dropout", 0.0))

    def forward(self, x, places=None):
        # x: (..., token, embed)   places: (...)
        x = self._reduced(x, places)  # (..., embed)
        return self.last_dropout(self.activation(self.summary(self.first_dropout(x))))

    def _reduced(self, x, places):
        if self.kind == "mean":
            return x.mean(1)
        if self.kind == "first":
            return x[:, 0]
        if self.kind == "last":
            return x[:, -1]
        if places is None:
            return x[..., -1, :]
        index = places.unsqueeze(-1).unsqueeze(-1)
        return x.gather(-2, index.expand(*places.shape, 1, x.shape[-1])).squeeze(-2)


class _GPT2Arguments:
    """Mixin that gives a classification model the argument order of Hugging Face's GPT-2."""

    def forward(
        self, input_ids=None, past_key_values=None, attention_mask=None, token_type_ids=None,
        position_ids=None, inputs_embeds=None, labels=None, use_cache=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Same as `forward` of the base class, with the argument order of `GPT2Model.forward`."""
        return super().forward(
            input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, labels,
            use_cache, output_attentions, output_hidden_states, return_dict,
            token_type_ids=token_type_ids,
        )  # fmt: skip


class GPT2ForSequenceClassification(_GPT2Arguments, TextClasses, GPT2PreTrainedModel):
    """GPT-2 for text classification or regression. The head reads the last token's vector."""


class GPT2ForTokenClassification(_GPT2Arguments, TokenClasses, GPT2PreTrainedModel):
    """GPT-2 for token classification."""

    head_name = "classifier"


class GPT2ForQuestionAnswering(Span, GPT2PreTrainedModel):
    """GPT-2 for extractive question answering: start and end logits of the answer."""

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, start_positions=None, end_positions=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Same as `Span.forward`, with `token_type_ids` as in `GPT2Model.forward`."""
        return super().forward(
            input_ids, attention_mask, position_ids, None, inputs_embeds, start_positions,
            end_positions, output_attentions, output_hidden_states, return_dict,
            token_type_ids=token_type_ids,
        )  # fmt: skip


def _refuse_memory(states, mask):
    if states is not None or mask is not None:
        raise ArgumentError(
            "GPT2Model: cross-attention to an encoder is not supported",
            got="encoder_hidden_states or encoder_attention_mask",
            hint="use an encoder-decoder such as BartModel or T5Model",
        )
