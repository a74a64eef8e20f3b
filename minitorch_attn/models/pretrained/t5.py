"""T5 with the face of its published weights; the model itself is `models/t5.py`."""

from ... import nn, ops
from ...errors import ArgumentError
from .losses import classification_loss, span_loss, token_loss
from .t5_model import T5PreTrainedModel

__all__ = [
    "T5EncoderModel",
    "T5ForConditionalGeneration",
    "T5ForQuestionAnswering",
    "T5ForSequenceClassification",
    "T5ForTokenClassification",
    "T5Model",
]


class T5Model(T5PreTrainedModel):
    """Encoder and decoder, without a head.

    Parameters
    ----------
    config : Config or dict

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> size = {"d_model": 6, "d_kv": 3, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    >>> model = T5Model({"vocab_size": 11, **size}).eval()
    >>> ids = mt.tensor([[4, 8, 1]])
    >>> model(ids, decoder_input_ids=ids[:, :2]).last_hidden_state.shape
    (1, 2, 6)
    """

    is_base = True
    base_prefix = "transformer"

    def forward(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None,
        decoder_attention_mask=None, encoder_outputs=None, past_key_values=None,
        inputs_embeds=None, decoder_inputs_embeds=None, use_cache=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """The peer's arguments and results.

        Parameters
        ----------
        input_ids, attention_mask, inputs_embeds : Tensor, optional
            The text, as in `encode`.
        decoder_input_ids : int64 Tensor of shape (batch, query)
            The answer so far, or with a cache its new tokens.
        decoder_attention_mask : Tensor of shape (batch, past + query), optional
            1 = a token, 0 = padding.
        encoder_outputs : Output or tuple, optional
            What `encode` returned, instead of the text.
        past_key_values : KVCache or tuple, optional
            What an earlier call returned.
        decoder_inputs_embeds : Tensor of shape (batch, query, embed), optional
            Instead of `decoder_input_ids`.
        use_cache, output_attentions, output_hidden_states, return_dict : bool, optional
            By default as the configuration says.

        Returns
        -------
        Output
        """
        x, more = self.run(
            input_ids, attention_mask, decoder_input_ids, decoder_attention_mask,
            encoder_outputs, past_key_values, inputs_embeds, decoder_inputs_embeds, use_cache,
            output_attentions, output_hidden_states,
        )  # fmt: skip
        return self.result(return_dict, last_hidden_state=x, **more)


class T5ForConditionalGeneration(T5PreTrainedModel):
    """Text in, text out: logits of the tokens of the answer.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> size = {"d_model": 6, "d_kv": 3, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    >>> config = {"vocab_size": 11, "decoder_start_token_id": 0, **size}
    >>> model = T5ForConditionalGeneration(config).eval()
    >>> output = model(mt.tensor([[4, 8, 1]]), labels=mt.tensor([[5, 1]]))
    >>> output.loss.shape, output.logits.shape
    ((), (1, 2, 11))
    """

    predicts = True

    @classmethod
    def from_arrays(cls, fields, arrays, *args, **options):
        """As `PretrainedModel.from_arrays`.

        Whether the output matrix is one of its own is seen from the file: a configuration that
        the peer saves says no, whatever the model.
        """
        fields = dict(fields)
        tied = fields.get("tie_word_embeddings") is not False
        own, shared = arrays.get("lm_head.weight"), arrays.get("shared.weight")
        one = own is None or shared is None or (own.shape == shared.shape and (own == shared).all())
        if tied != one:
            fields.setdefault("scale_decoder_outputs", tied)
            fields["tie_word_embeddings"] = not tied
        return super().from_arrays(fields, arrays, *args, **options)

    def forward(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None,
        decoder_attention_mask=None, encoder_outputs=None, past_key_values=None,
        inputs_embeds=None, decoder_inputs_embeds=None, labels=None, use_cache=None,
        return_dict=None, **options
    ):  # fmt: skip
        """As `T5Model.forward`.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, query), optional
            The answer, -100 where there is nothing to learn. Without `decoder_input_ids` the
            decoder reads it one place to the right.
        """
        if labels is not None and decoder_input_ids is None and decoder_inputs_embeds is None:
            decoder_input_ids = self.shifted(labels)
        x, more = self.run(
            input_ids, attention_mask, decoder_input_ids, decoder_attention_mask,
            encoder_outputs, past_key_values, inputs_embeds, decoder_inputs_embeds, use_cache,
            **options,
        )  # fmt: skip
        logits = self.body.predict(x)
        loss = None if labels is None else token_loss(logits, labels)
        return self.result(return_dict, loss=loss, logits=logits, **more)

    def prepare_decoder_input_ids_from_labels(self, labels):
        """What the decoder reads while it learns to write `labels`."""
        return self.shifted(labels)


class T5EncoderModel(T5PreTrainedModel):
    """The encoder alone; folders of whole models open too."""

    is_base = True
    base_prefix = "transformer"
    decodes = False

    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """See `encode`."""
        return self.encode(
            input_ids, attention_mask, inputs_embeds, output_attentions, output_hidden_states,
            return_dict,
        )  # fmt: skip


class T5ForTokenClassification(T5PreTrainedModel):
    """A class for each token of a text, from the encoder."""

    base_prefix = "transformer"
    prefix = "transformer."
    decodes = False

    def build_head(self, config):
        self.head_dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.d_model, config.num_labels)
        nn.init.normal_(self.classifier.weight)
        nn.init.zeros_(self.classifier.bias)

    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """As `encode`; `labels` of shape (batch, token), -100 = none."""
        encoded = self.encode(
            input_ids, attention_mask, inputs_embeds, output_attentions, output_hidden_states, True
        )
        logits = self.classifier(self.head_dropout(encoded.pop("last_hidden_state")))
        loss = None if labels is None else token_loss(logits, labels)
        return self.result(return_dict, loss=loss, logits=logits, **encoded)


class ClassificationHead(nn.Module):
    """Two linear maps with a tanh between them.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        super().__init__()
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.out_proj = nn.Linear(config.d_model, config.num_labels)
        for layer in (self.dense, self.out_proj):
            nn.init.normal_(layer.weight, std=config.d_model**-0.5)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        # x: (batch, embed) -> (batch, label)
        return self.out_proj(self.dropout(ops.tanh(self.dense(self.dropout(x)))))


class T5ForSequenceClassification(T5PreTrainedModel):
    """A class for a text: the decoder reads it too, and its vector at the last </s> counts."""

    base_prefix = "transformer"
    prefix = "transformer."

    def build_head(self, config):
        self.classification_head = ClassificationHead(config)

    def forward(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None,
        decoder_attention_mask=None, encoder_outputs=None, inputs_embeds=None,
        decoder_inputs_embeds=None, labels=None, use_cache=None, return_dict=None, **options
    ):  # fmt: skip
        """As `T5Model.forward`, from `input_ids` alone; see `losses.classification_loss`."""
        if input_ids is None:
            raise ArgumentError(
                "T5ForSequenceClassification: the place of </s> is read from input_ids.",
                got="no input_ids",
            )
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            decoder_input_ids = self.shifted(input_ids)
        x, more = self.run(
            input_ids, attention_mask, decoder_input_ids, decoder_attention_mask,
            encoder_outputs, None, inputs_embeds, decoder_inputs_embeds,
            use_cache if labels is None else False, **options,
        )  # fmt: skip
        last = _last_end(input_ids, self.config.eos_token_id)  # (batch,)
        rows = ops.arange(x.shape[0], device=x.device)
        logits = self.classification_head(x[rows, last])
        loss = None if labels is None else classification_loss(self.config, logits, labels)
        return self.result(return_dict, loss=loss, logits=logits, **more)


class T5ForQuestionAnswering(T5PreTrainedModel):
    """Where in a text the answer to a question starts and ends; the decoder reads the text too."""

    def build_head(self, config):
        if config.num_labels != 2:
            raise ArgumentError(
                "T5ForQuestionAnswering: an answer has a start and an end.",
                got=f"{config.num_labels} labels in the configuration",
                expected="2",
            )
        self.qa_outputs = nn.Linear(config.d_model, 2)
        nn.init.normal_(self.qa_outputs.weight, std=config.d_model**-0.5)
        nn.init.zeros_(self.qa_outputs.bias)

    def forward(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None,
        decoder_attention_mask=None, encoder_outputs=None, start_positions=None,
        end_positions=None, inputs_embeds=None, decoder_inputs_embeds=None, use_cache=None,
        return_dict=None, **options
    ):  # fmt: skip
        """As `T5Model.forward`; positions of shape (batch,), one behind the text is no answer."""
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            if input_ids is None:
                raise ArgumentError(
                    "T5ForQuestionAnswering: the decoder has nothing to read.",
                    expected="input_ids, decoder_input_ids or decoder_inputs_embeds",
                )
            decoder_input_ids = self.shifted(input_ids)
        asked = start_positions is not None and end_positions is not None
        x, more = self.run(
            input_ids, attention_mask, decoder_input_ids, decoder_attention_mask,
            encoder_outputs, None, inputs_embeds, decoder_inputs_embeds,
            False if asked else use_cache, **options,
        )  # fmt: skip
        start, end = self.qa_outputs(x).unbind(-1)  # (batch, token) each
        loss = span_loss(start, end, start_positions, end_positions) if asked else None
        results = {"loss": loss, "start_logits": start, "end_logits": end}
        return self.result(return_dict, **results, **more)


def _last_end(input_ids, end):
    """The place of the last </s> of each text: (batch,)."""
    ends = input_ids == end  # (batch, token)
    counts = set(ends.sum(-1).tolist())
    if len(counts) != 1 or counts == {0}:
        raise ArgumentError(
            "T5ForSequenceClassification: each text ends with </s>, all with as many.",
            got=f"{sorted(counts)} times the id {end}",
            hint="append config.eos_token_id to every text",
        )
    return (ops.arange(ends.shape[1], device=ends.device) * ends).argmax(-1)
