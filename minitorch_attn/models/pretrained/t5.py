"""T5 with the Hugging Face interface; the model itself is in `models/t5.py`."""

from ... import nn, ops
from ...errors import ArgumentError
from .losses import classification_loss, span_loss, token_loss
from .t5_model import T5PreTrainedModel

__all__ = [
    "T5EncoderModel", "T5ForConditionalGeneration", "T5ForQuestionAnswering",
    "T5ForSequenceClassification", "T5ForTokenClassification", "T5Model",
]  # fmt: skip


class T5Model(T5PreTrainedModel):
    """T5 without a head: returns the decoder's hidden states for the target tokens.

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
        """Return the decoder's hidden states and the other outputs, as in Hugging Face.

        Parameters
        ----------
        input_ids, attention_mask, inputs_embeds : Tensor, optional
            Source text. See `encode`.
        decoder_input_ids : int64 Tensor of shape (batch, query)
            All target ids so far or, if a cache is given, only the new ids.
        decoder_attention_mask : Tensor of shape (batch, past + query), optional
            1 for tokens, 0 for padding.
        encoder_outputs : Output or tuple, optional
            Output of `encode`, to use instead of the source text.
        past_key_values : KVCache or tuple, optional
            Cache from an earlier call.
        decoder_inputs_embeds : Tensor of shape (batch, query, embed), optional
            Embeddings to use instead of `decoder_input_ids`.
        use_cache, output_attentions, output_hidden_states, return_dict : bool, optional
            Default: the value in the configuration.

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
    """T5 with a language-model head: returns the logits of the next target token.

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
        """Create the model from stored arrays. See `PretrainedModel.from_arrays`.

        The arrays determine whether the output matrix is tied to the embedding, because Hugging
        Face saves tie_word_embeddings=False for every model.
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
        """Return the logits and, with labels, the loss. Other arguments: see `T5Model.forward`.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, query), optional
            Target ids, with -100 at positions to ignore. Without `decoder_input_ids`, the decoder
            reads the labels, shifted right by one position.
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
        """Return the decoder's input: the labels, shifted right by one position."""
        return self.shifted(labels)


class T5EncoderModel(T5PreTrainedModel):
    """T5 encoder alone. It can also be loaded from the folder of a complete T5 model."""

    is_base = True
    base_prefix = "transformer"
    decodes = False

    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the encoder's hidden states. See `encode`."""
        return self.encode(
            input_ids, attention_mask, inputs_embeds, output_attentions, output_hidden_states,
            return_dict,
        )  # fmt: skip


class T5ForTokenClassification(T5PreTrainedModel):
    """T5 for token classification. The head reads the encoder's token vectors."""

    base_prefix = "transformer"
    prefix = "transformer."
    decodes = False

    def build_head(self, config):
        self.head_dropout = nn.Dropout(config.classifier_dropout or 0.0)
        self.classifier = nn.Linear(config.d_model, config.num_labels)
        nn.init.normal_(self.classifier.weight)
        nn.init.zeros_(self.classifier.bias)

    def forward(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, labels=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the logits and, with labels (batch, token), the loss (-100 is ignored)."""
        encoded = self.encode(
            input_ids, attention_mask, inputs_embeds, output_attentions, output_hidden_states, True
        )
        logits = self.classifier(self.head_dropout(encoded.pop("last_hidden_state")))
        loss = None if labels is None else token_loss(logits, labels)
        return self.result(return_dict, loss=loss, logits=logits, **encoded)


class ClassificationHead(nn.Module):
    """Classification head: two linear layers with a tanh in between.

    Parameters
    ----------
    config : Config
    """

    def __init__(self, config):
        super().__init__()
        self.dropout = nn.Dropout(config.classifier_dropout or 0.0)
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.out_proj = nn.Linear(config.d_model, config.num_labels)
        for layer in (self.dense, self.out_proj):
            nn.init.normal_(layer.weight, std=config.d_model**-0.5)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        # x: (batch, embed) -> (batch, label)
        return self.out_proj(self.dropout(ops.tanh(self.dense(self.dropout(x)))))


class T5ForSequenceClassification(T5PreTrainedModel):
    """T5 for text classification. The head reads the decoder's vector at the last </s>."""

    base_prefix = "transformer"
    prefix = "transformer."

    def build_head(self, config):
        self.classification_head = ClassificationHead(config)

    def forward(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None,
        decoder_attention_mask=None, encoder_outputs=None, inputs_embeds=None,
        decoder_inputs_embeds=None, labels=None, use_cache=None, return_dict=None, **options
    ):  # fmt: skip
        """Return the logits and, with `labels`, the loss. `input_ids` is needed to locate </s>."""
        if input_ids is None:
            raise ArgumentError(
                "T5ForSequenceClassification: input_ids is required to locate </s>",
                got="input_ids=None", hint="pass the token ids instead of inputs_embeds",
            )  # fmt: skip
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
    """T5 for extractive question answering. The encoder and the decoder read the same text."""

    def build_head(self, config):
        if config.num_labels != 2:
            raise ArgumentError(
                "T5ForQuestionAnswering: config.num_labels must be 2 (answer start and end)",
                got=f"num_labels={config.num_labels}",
                hint="leave num_labels and id2label out of the configuration; the default is 2",
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
        """Return start and end logits and, with `start_positions` and `end_positions`, the loss.

        The loss ignores a start or end position beyond the end of the text.
        """
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            if input_ids is None:
                raise ArgumentError(
                    "T5ForQuestionAnswering: the decoder's input is missing",
                    expected="input_ids, decoder_input_ids or decoder_inputs_embeds",
                    hint="pass input_ids; the decoder reads them, shifted right by one position",
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
    """Return the position (batch,) of the last </s> in each text."""
    ends = input_ids == end  # (batch, token)
    counts = set(ends.sum(-1).tolist())
    if len(counts) != 1 or counts == {0}:
        raise ArgumentError(
            "T5ForSequenceClassification: the number of </s> must be at least 1 and the same in "
            "all texts",
            got=f"texts with {sorted(counts)} tokens of id {end}",
            hint="end every text with exactly one config.eos_token_id",
        )
    return (ops.arange(ends.shape[1], device=ends.device) * ends).argmax(-1)
