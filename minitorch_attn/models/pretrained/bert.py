"""BERT with the Hugging Face interface; the model itself is in `models/bert.py`."""

from ... import nn
from ...errors import ArgumentError
from .bert_model import BertPreTrainedModel
from .decoder import kept
from .losses import classification_loss, next_token_loss, span_loss, token_loss

__all__ = [
    "BertForMaskedLM", "BertForMultipleChoice", "BertForNextSentencePrediction",
    "BertForPreTraining", "BertForQuestionAnswering", "BertForSequenceClassification",
    "BertForTokenClassification", "BertLMHeadModel", "BertModel",
]  # fmt: skip


class BertModel(BertPreTrainedModel):
    """BERT without a head: returns the token vectors and the pooled vector of the text.

    Parameters
    ----------
    config : Config or dict

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> size = {"hidden_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2}
    >>> model = BertModel({"vocab_size": 11, "intermediate_size": 8, **size}).eval()
    >>> output = model(mt.tensor([[1, 2, 3]]), output_attentions=True)
    >>> output.last_hidden_state.shape, output.pooler_output.shape, output.attentions[0].shape
    ((1, 3, 6), (1, 6), (1, 2, 3, 3))
    """

    is_base = True

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, encoder_hidden_states=None, encoder_attention_mask=None,
        past_key_values=None, use_cache=None, output_attentions=None, output_hidden_states=None,
        return_dict=None,
    ):  # fmt: skip
        """Run the model. The arguments and outputs are the same as in Hugging Face.

        Parameters
        ----------
        input_ids : int64 Tensor of shape (batch, token)
        attention_mask : Tensor, optional
            Mask of shape (batch, token) or (batch, query, key), with 1 for tokens and 0 for
            padding, or a bool mask that broadcasts to (batch, heads, query, key). If all keys of a
            query are masked, its context is zero.
        token_type_ids : int64 Tensor of shape (batch, token), optional
            Segment ids, 0 in sentence A and 1 in sentence B.
        position_ids : int64 Tensor of shape (1 or batch, token), optional
        inputs_embeds : Tensor of shape (batch, token, embed), optional
            Embeddings to use instead of `input_ids`.
        encoder_hidden_states, encoder_attention_mask, past_key_values, use_cache : optional
            Arguments that only decoders (`config.is_decoder=True`) support.
        output_attentions, output_hidden_states, return_dict : bool, optional
            Default: the value in the configuration.

        Returns
        -------
        Output
        """
        x, more = self.run(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds,
            encoder_hidden_states, encoder_attention_mask, past_key_values, use_cache,
            output_attentions, output_hidden_states,
        )  # fmt: skip
        results = {"last_hidden_state": x, "pooler_output": self.bert.pool(x), **more}
        return self.result(return_dict, **results)


class BertForPreTraining(BertPreTrainedModel):
    """BERT with both pre-training heads, for masked tokens and next-sentence prediction."""

    predicts = True

    def build_head(self, config):
        self.next_sentence = nn.Linear(config.hidden_size, 2)

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, labels=None, next_sentence_label=None, return_dict=None, **options
    ):  # fmt: skip
        """Run the model. See `BertModel.forward` for the arguments that are not listed here.

        The loss is computed only if both `labels` and `next_sentence_label` are given.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, token), optional
            -100 marks positions to ignore.
        next_sentence_label : int64 Tensor of shape (batch,), optional
            0 if sentence B follows sentence A, 1 if it does not.
        """
        x, more = self.run(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options
        )
        logits, related = self.head(x), self.next_sentence(self.bert.pool(x))
        loss = None
        if labels is not None and next_sentence_label is not None:
            loss = token_loss(logits, labels) + token_loss(related, next_sentence_label)
        results = {"loss": loss, "prediction_logits": logits, "seq_relationship_logits": related}
        return self.result(return_dict, **results, **_seen(more))


class BertForMaskedLM(BertPreTrainedModel):
    """BERT with a masked-language-model head: predicts the masked tokens.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> size = {"hidden_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2}
    >>> model = BertForMaskedLM({"vocab_size": 11, "intermediate_size": 8, **size}).eval()
    >>> output = model(mt.tensor([[1, 4, 3]]), labels=mt.tensor([[-100, 7, -100]]))
    >>> output.loss.shape, output.logits.shape
    ((), (1, 3, 11))
    """

    pools = False
    predicts = True

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, encoder_hidden_states=None, encoder_attention_mask=None, labels=None,
        return_dict=None, **options
    ):  # fmt: skip
        """Run the model. See `BertModel.forward` for the arguments that are not listed here.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, token), optional
            -100 marks positions to ignore.
        """
        x, more = self.run(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds,
            encoder_hidden_states, encoder_attention_mask, **options
        )  # fmt: skip
        logits = self.head(x)
        loss = None if labels is None else token_loss(logits, labels)
        return self.result(return_dict, loss=loss, logits=logits, **_seen(more))


class BertLMHeadModel(BertPreTrainedModel):
    """BERT as a causal language model; use it with `config.is_decoder=True`."""

    pools = False
    predicts = True

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, encoder_hidden_states=None, encoder_attention_mask=None, labels=None,
        past_key_values=None, use_cache=None, logits_to_keep=0, return_dict=None, **options
    ):  # fmt: skip
        """Run the model. See `BertModel.forward` for the arguments that are not listed here.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, token), optional
            Input tokens, with -100 at positions to ignore. The loss compares each token with the
            logits at the previous position.
        logits_to_keep : int or Tensor
            Positions whose logits are computed. See `decoder.kept`.
        """
        use_cache = use_cache if labels is None else False
        x, more = self.run(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds,
            encoder_hidden_states, encoder_attention_mask, past_key_values, use_cache, **options
        )  # fmt: skip
        logits = self.head(kept(x, logits_to_keep))
        loss = None if labels is None else next_token_loss(logits, labels)
        return self.result(return_dict, loss=loss, logits=logits, **more)


class _Classes(BertPreTrainedModel):
    """Base class for BERT classifiers, with dropout, a linear layer and the loss."""

    def build_head(self, config):
        rate = config.classifier_dropout
        self.head_dropout = nn.Dropout(config.hidden_dropout_prob if rate is None else rate)
        self.classifier = nn.Linear(config.hidden_size, self.num_classes(config))

    def num_classes(self, config):
        """Return the number of outputs of the last layer."""
        return config.num_labels

    def classify(self, x):
        """Return the logits of each text, with shape (batch, classes)."""
        return self.classifier(self.head_dropout(self.bert.pool(x)))

    def loss(self, logits, labels):
        """Return the cross-entropy."""
        return token_loss(logits, labels)

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, labels=None, return_dict=None, **options
    ):  # fmt: skip
        """Run the model. See `BertModel.forward` for the arguments that are not listed here.

        Parameters
        ----------
        labels : Tensor, optional
            Labels; see the model class for their shape and dtype.
        """
        x, more = self.run(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options
        )
        logits = self.classify(x)
        loss = None if labels is None else self.loss(logits, labels)
        return self.result(return_dict, loss=loss, logits=logits, **_seen(more))


class BertForNextSentencePrediction(_Classes):
    """BERT for next-sentence prediction: classifies whether sentence B follows sentence A.

    `labels` have shape (batch,): 0 if sentence B follows sentence A, 1 if it does not.
    """

    def build_head(self, config):
        self.next_sentence = nn.Linear(config.hidden_size, 2)

    def classify(self, x):
        """Return the logits (batch, 2) of "follows" and "does not follow"."""
        return self.next_sentence(self.bert.pool(x))


class BertForSequenceClassification(_Classes):
    """BERT for text classification or regression, as selected by `config.problem_type`.

    For `labels`, see `losses.classification_loss`.
    """

    def loss(self, logits, labels):
        """Return the loss of `losses.classification_loss`."""
        return classification_loss(self.config, logits, labels)


class BertForMultipleChoice(_Classes):
    """BERT for multiple choice: computes one logit for each choice of a question."""

    def num_classes(self, config):
        """Return 1, because each choice has one logit."""
        return 1

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, labels=None, return_dict=None, **options
    ):  # fmt: skip
        """Run the model on each choice. The inputs have an additional axis for the choices.

        See `BertModel.forward` for the arguments that are not listed here.

        Parameters
        ----------
        input_ids, attention_mask, token_type_ids, position_ids : Tensor
            Tensors of shape (batch, choice, token).
        inputs_embeds : Tensor of shape (batch, choice, token, embed), optional
        labels : int64 Tensor of shape (batch,), optional
            Index of the correct choice.
        """
        choices = (inputs_embeds if input_ids is None else input_ids).shape[1]
        given = (input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        flat = [None if x is None else x.flatten(0, 1) for x in given]  # (batch * choice, token)
        x, more = self.run(*flat, **options)
        logits = self.classify(x).reshape(-1, choices)
        loss = None if labels is None else self.loss(logits, labels)
        return self.result(return_dict, loss=loss, logits=logits, **_seen(more))


class BertForTokenClassification(_Classes):
    """BERT for token classification, such as named-entity recognition.

    `labels` have shape (batch, token); -100 marks positions to ignore.
    """

    pools = False

    def classify(self, x):
        """Return the logits of each token, with shape (batch, token, classes)."""
        return self.classifier(self.head_dropout(x))


class BertForQuestionAnswering(BertPreTrainedModel):
    """BERT for extractive question answering: start and end logits of the answer."""

    pools = False

    def build_head(self, config):
        if config.num_labels != 2:
            raise ArgumentError(
                "BertForQuestionAnswering: config.num_labels must be 2 (answer start and end)",
                got=f"num_labels={config.num_labels}",
                hint="leave num_labels and id2label out of the configuration; the default is 2",
            )
        self.qa_outputs = nn.Linear(config.hidden_size, 2)

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, start_positions=None, end_positions=None, return_dict=None, **options
    ):  # fmt: skip
        """Run the model. See `BertModel.forward` for the arguments that are not listed here.

        Parameters
        ----------
        start_positions, end_positions : int64 Tensor of shape (batch,) or (batch, 1), optional
            Positions beyond the end of the text are ignored.
        """
        x, more = self.run(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options
        )
        start, end = self.qa_outputs(x).unbind(-1)  # (batch, token) each
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = span_loss(start, end, start_positions, end_positions)
        results = {"loss": loss, "start_logits": start, "end_logits": end}
        return self.result(return_dict, **results, **_seen(more))


def _seen(more):
    """Return the hidden states and the attention weights from `more`, without the cache."""
    return {name: more[name] for name in ("hidden_states", "attentions")}
