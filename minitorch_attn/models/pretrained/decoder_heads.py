"""What the classes of all decoder-only families do alike with the vectors of the tokens."""

from ... import nn
from ..initialise import draw_normal
from .base import PretrainedModel
from .decoder import kept, last_tokens, result
from .losses import classification_loss, next_token_loss, span_loss, token_loss

__all__ = [
    "DecoderFace", "NextToken", "Span", "TextClasses", "TokenClasses", "TokenVectors",
]  # fmt: skip


class DecoderFace(PretrainedModel):
    """A decoder; its family defines `run`, and `forward` where the peer's arguments are others.

    Attributes
    ----------
    body : Module
        The paper's model.
    predicts : bool
        Whether the model's own head is used, which names the next token.
    """

    predicts = False

    def run(
        self, input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache,
        output_attentions, output_hidden_states, **inputs,
    ):  # fmt: skip
        """(the vector of each token, what else the model returns by name)."""
        raise NotImplementedError

    def initialise_head(self, layer):
        """Draw the weights of a new head as the others."""
        draw_normal(layer, self.config.initializer_range)
        return layer


class TokenVectors(DecoderFace):
    """A base model: the vectors of the tokens."""

    is_base = True

    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
        inputs_embeds=None, use_cache=None, output_attentions=None, output_hidden_states=None,
        return_dict=None, **inputs,
    ):  # fmt: skip
        """The peer's arguments and results.

        Parameters
        ----------
        input_ids : int64 Tensor of shape (batch, token)
        attention_mask : Tensor of shape (batch, past + token), optional
            1 = a token, 0 = padding. A padding token that sees nothing gets no context.
        position_ids : int64 Tensor of shape (batch, token), optional
        past_key_values : KVCache or tuple of (key, value), optional
            What an earlier call returned; `input_ids` then holds the new tokens only.
        inputs_embeds : Tensor of shape (batch, token, embed), optional
            Instead of `input_ids`.
        use_cache, output_attentions, output_hidden_states : bool, optional
            By default as the configuration says.
        return_dict : bool, optional
            False gives a tuple.
        **inputs
            What else the family's `run` takes.

        Returns
        -------
        Output
        """
        x, more = self.run(
            input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache,
            output_attentions, output_hidden_states, **inputs,
        )  # fmt: skip
        return result(return_dict, last_hidden_state=x, **more)


class NextToken(DecoderFace):
    """The language model: logits of the next token."""

    predicts = True

    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
        inputs_embeds=None, labels=None, use_cache=None, logits_to_keep=0,
        output_attentions=None, output_hidden_states=None, return_dict=None, **inputs,
    ):  # fmt: skip
        """As `TokenVectors.forward`, and

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, token), optional
            The ids themselves: the loss compares each with the logits of the token before it.
            -100 is left out.
        logits_to_keep : int or Tensor
            Of the last tokens only; see `decoder.kept`.
        """
        x, more = self.run(
            input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache,
            output_attentions, output_hidden_states, **inputs,
        )  # fmt: skip
        logits = self.body.head(kept(x, logits_to_keep))  # (batch, token, vocabulary)
        loss = None if labels is None else next_token_loss(logits, labels)
        return result(return_dict, loss=loss, logits=logits, **more)


class _Classes(DecoderFace):
    """Logits of classes, and their loss; subclasses say of what."""

    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
        inputs_embeds=None, labels=None, use_cache=None, output_attentions=None,
        output_hidden_states=None, return_dict=None, **inputs,
    ):  # fmt: skip
        """As `TokenVectors.forward`, and

        Parameters
        ----------
        labels : Tensor, optional
            For texts what `losses.classification_loss` takes; for tokens int64 of shape
            (batch, token), where -100 is left out.
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
    """One class, or one number, for each text: read off at its last token."""

    without = ()

    def build(self, config):
        super().build(config)
        self.score = self.initialise_head(
            nn.Linear(config.hidden_size, config.num_labels, bias=False)
        )

    def classify(self, x, input_ids):
        """Logits of shape (batch, classes)."""
        return last_tokens(self.score(x), input_ids, self.config.pad_token_id)

    def loss(self, logits, labels):
        """The loss that the configuration names."""
        return classification_loss(self.config, logits, labels)


class TokenClasses(_Classes):
    """One class for each token.

    Attributes
    ----------
    head_name : str
        What the peer calls the last layer.
    """

    without = ("past_key_values",)
    head_name = "score"

    def build(self, config, bias=True):
        super().build(config)
        rates = (config.get("classifier_dropout"), config.get("hidden_dropout"), 0.1)
        self.dropout = nn.Dropout(next(rate for rate in rates if rate is not None))
        head = self.initialise_head(nn.Linear(config.hidden_size, config.num_labels, bias=bias))
        self.add_module(self.head_name, head)

    def classify(self, x, input_ids):
        """Logits of shape (batch, token, classes)."""
        return getattr(self, self.head_name)(self.dropout(x))

    def loss(self, logits, labels):
        """The mean over the tokens that have a label."""
        return token_loss(logits, labels)


class Span(DecoderFace):
    """Where in a text an answer starts and ends."""

    def build(self, config):
        super().build(config)
        self.qa_outputs = self.initialise_head(nn.Linear(config.hidden_size, 2))

    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None,
        inputs_embeds=None, start_positions=None, end_positions=None, output_attentions=None,
        output_hidden_states=None, return_dict=None, **inputs,
    ):  # fmt: skip
        """As `TokenVectors.forward`; `start_positions` and `end_positions` are (batch,)."""
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
