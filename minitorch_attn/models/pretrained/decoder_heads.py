"""Heads shared by decoder-only models: next token, classification and question answering."""

from ... import nn
from ..initialize import draw_normal
from .base import PretrainedModel
from .decoder import kept, last_tokens, result
from .losses import classification_loss, next_token_loss, span_loss, token_loss

__all__ = [
    "DecoderModel", "NextToken", "Span", "TextClasses", "TokenClasses", "TokenVectors",
]  # fmt: skip


class DecoderModel(PretrainedModel):
    """Base class for decoder-only models. Subclasses define `run` and may override `forward`.

    Attributes
    ----------
    body : Module
        Model from `models/` that this class wraps.
    predicts : bool
        Whether to keep the head of `body`, which predicts the next token.
    """

    predicts = False

    def run(
        self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache,
        output_attentions, output_hidden_states, **inputs,
    ):  # fmt: skip
        """Run the model. Return (token vectors, dict of the other outputs)."""
        raise NotImplementedError

    def initialize_head(self, layer):
        """Initialize the weights of a new head in the same way as the other weights."""
        draw_normal(layer, self.config.initializer_range)
        return layer


class TokenVectors(DecoderModel):
    """Base model without a head: returns the token vectors."""

    is_base = True

    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
        inputs_embeds=None, use_cache=None, output_attentions=None, output_hidden_states=None,
        return_dict=None, **inputs,
    ):  # fmt: skip
        """Run the model. The arguments and outputs are the same as in Hugging Face.

        Parameters
        ----------
        input_ids : int64 Tensor of shape (batch, token)
        attention_mask : Tensor of shape (batch, past + token), optional
            Mask with 1 for tokens and 0 for padding. If all keys of a query are masked, its context
            is zero.
        position_ids : int64 Tensor of shape (batch, token), optional
        past_key_values : KVCache or tuple of (key, value), optional
            Cache from an earlier call; `input_ids` then contains only the new tokens.
        inputs_embeds : Tensor of shape (batch, token, embed), optional
            Embeddings to use instead of `input_ids`.
        use_cache, output_attentions, output_hidden_states : bool, optional
            Default: the value in the configuration.
        return_dict : bool, optional
            If False, the result is a tuple.
        **inputs
            Further arguments, which are passed to the model's method `run`.

        Returns
        -------
        Output
        """
        x, more = self.run(
            input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache,
            output_attentions, output_hidden_states, **inputs,
        )  # fmt: skip
        return result(return_dict, last_hidden_state=x, **more)


class NextToken(DecoderModel):
    """Language model: returns the logits of the next token."""

    predicts = True

    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
        inputs_embeds=None, labels=None, use_cache=None, logits_to_keep=0,
        output_attentions=None, output_hidden_states=None, return_dict=None, **inputs,
    ):  # fmt: skip
        """Run the model. See `TokenVectors.forward` for the arguments that are not listed here.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, token), optional
            Target ids, usually the input ids. The loss compares each id with the logits at the
            previous position. -100 marks positions to ignore.
        logits_to_keep : int or Tensor
            Positions whose logits are computed. See `decoder.kept`.
        """
        x, more = self.run(
            input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache,
            output_attentions, output_hidden_states, **inputs,
        )  # fmt: skip
        logits = self.body.head(kept(x, logits_to_keep))  # (batch, token, vocabulary)
        loss = None if labels is None else next_token_loss(logits, labels)
        return result(return_dict, loss=loss, logits=logits, **more)


class _Classes(DecoderModel):
    """Base class for classifiers. Subclasses must define `classify` and `loss`."""

    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
        inputs_embeds=None, labels=None, use_cache=None, output_attentions=None,
        output_hidden_states=None, return_dict=None, **inputs,
    ):  # fmt: skip
        """Run the model. See `TokenVectors.forward` for the arguments that are not listed here.

        Parameters
        ----------
        labels : Tensor, optional
            Labels of the texts; see `losses.classification_loss`. For token classification, int64
            labels of shape (batch, token), with -100 at positions to ignore.
        """
        x, more = self.run(
            input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache,
            output_attentions, output_hidden_states, **inputs,
        )  # fmt: skip
        logits = self.classify(x, input_ids)
        loss = None if labels is None else self.loss(logits, labels)
        more = {name: more[name] for name in more if name not in self.without}
        return result(return_dict, loss=loss, logits=logits, **more)


class TextClasses(_Classes):
    """Text classifier or regression model that reads the vector of the last token."""

    without = ()

    def build(self, config):
        super().build(config)
        self.score = self.initialize_head(
            nn.Linear(config.hidden_size, config.num_labels, bias=False)
        )

    def classify(self, x, input_ids):
        """Return logits of shape (batch, classes)."""
        return last_tokens(self.score(x), input_ids, self.config.pad_token_id)

    def loss(self, logits, labels):
        """Return the loss; see `losses.classification_loss`."""
        return classification_loss(self.config, logits, labels)


class TokenClasses(_Classes):
    """Token classifier.

    Attributes
    ----------
    head_name : str
        Name of the last layer in Hugging Face's model.
    """

    without = ("past_key_values",)
    head_name = "score"

    def build(self, config, bias=True):
        super().build(config)
        rates = (config.get("classifier_dropout"), config.get("hidden_dropout"), 0.1)
        self.dropout = nn.Dropout(next(rate for rate in rates if rate is not None))
        head = self.initialize_head(nn.Linear(config.hidden_size, config.num_labels, bias=bias))
        self.add_module(self.head_name, head)

    def classify(self, x, input_ids):
        """Return logits of shape (batch, token, classes)."""
        return getattr(self, self.head_name)(self.dropout(x))

    def loss(self, logits, labels):
        """Return the mean cross-entropy over the tokens that have a label."""
        return token_loss(logits, labels)


class Span(DecoderModel):
    """Extractive question answering: start and end logits of the answer."""

    def build(self, config):
        super().build(config)
        self.qa_outputs = self.initialize_head(nn.Linear(config.hidden_size, 2))

    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
        inputs_embeds=None, start_positions=None, end_positions=None, output_attentions=None,
        output_hidden_states=None, return_dict=None, **inputs,
    ):  # fmt: skip
        """Run the model; compute the loss if `start_positions` and `end_positions` are given.

        These have shape (batch,). See `TokenVectors.forward` for the other arguments.
        """
        x, more = self.run(
            input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, None,
            output_attentions, output_hidden_states, **inputs,
        )  # fmt: skip
        del more["past_key_values"]
        start, end = (part.squeeze(-1) for part in self.qa_outputs(x).split(1, -1))
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = span_loss(start, end, start_positions, end_positions)
        return result(return_dict, loss=loss, start_logits=start, end_logits=end, **more)
