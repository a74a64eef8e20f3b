"""BERT with the face of its published weights; the model itself is `models/bert.py`."""

from ... import nn
from ...errors import ArgumentError
from .bert_model import BertPreTrainedModel
from .decoder import kept
from .losses import classification_loss, next_token_loss, span_loss, token_loss

__all__ = [
    "BertForMaskedLM",
    "BertForMultipleChoice",
    "BertForNextSentencePrediction",
    "BertForPreTraining",
    "BertForQuestionAnswering",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertLMHeadModel",
    "BertModel",
]


class BertModel(BertPreTrainedModel):
    """The vectors of the tokens and the one of the text, without a head.

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
        """The peer's arguments and results.

        Parameters
        ----------
        input_ids : int64 Tensor of shape (batch, token)
        attention_mask : Tensor, optional
            Of shape (batch, token), 1 = a token, 0 = padding; or (batch, query, key) with the
            same meaning; or bools that broadcast to (batch, heads, query, key). A token that may
            attend to nothing gets no context.
        token_type_ids : int64 Tensor of shape (batch, token), optional
            0 in sentence A, 1 in sentence B.
        position_ids : int64 Tensor of shape (1 or batch, token), optional
        inputs_embeds : Tensor of shape (batch, token, embed), optional
            Instead of `input_ids`.
        encoder_hidden_states, encoder_attention_mask, past_key_values, use_cache : optional
            For decoders, `config.is_decoder`.
        output_attentions, output_hidden_states, return_dict : bool, optional
            By default as the configuration says.

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
    """Both tasks of pre-training: the masked tokens, and whether sentence B follows A."""

    predicts = True

    def build_head(self, config):
        self.next_sentence = nn.Linear(config.hidden_size, 2)

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, labels=None, next_sentence_label=None, return_dict=None, **options
    ):  # fmt: skip
        """As `BertModel.forward`; the loss needs both labels.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, token), optional
            -100 where there is nothing to guess.
        next_sentence_label : int64 Tensor of shape (batch,), optional
            0 = B follows A.
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
    """Which token stands behind each mask.

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
        """As `BertModel.forward`.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, token), optional
            -100 where there is nothing to guess.
        """
        x, more = self.run(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds,
            encoder_hidden_states, encoder_attention_mask, **options
        )  # fmt: skip
        logits = self.head(x)
        loss = None if labels is None else token_loss(logits, labels)
        return self.result(return_dict, loss=loss, logits=logits, **_seen(more))


class BertLMHeadModel(BertPreTrainedModel):
    """Which token comes next, with `config.is_decoder`."""

    pools = False
    predicts = True

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, encoder_hidden_states=None, encoder_attention_mask=None, labels=None,
        past_key_values=None, use_cache=None, logits_to_keep=0, return_dict=None, **options
    ):  # fmt: skip
        """As `BertModel.forward`.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, token), optional
            The tokens themselves, -100 where there is nothing to guess; each is compared with
            the logits at the token before.
        logits_to_keep : int or Tensor
            See `decoder.kept`.
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
    """Logits of classes and their loss; by default from a linear layer behind dropout."""

    def build_head(self, config):
        rate = config.classifier_dropout
        self.head_dropout = nn.Dropout(config.hidden_dropout_prob if rate is None else rate)
        self.classifier = nn.Linear(config.hidden_size, self.num_classes(config))

    def num_classes(self, config):
        """How many outputs the last layer has."""
        return config.num_labels

    def classify(self, x):
        """Logits of each text: (batch, classes)."""
        return self.classifier(self.head_dropout(self.bert.pool(x)))

    def loss(self, logits, labels):
        """One class each."""
        return token_loss(logits, labels)

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, labels=None, return_dict=None, **options
    ):  # fmt: skip
        """As `BertModel.forward`.

        Parameters
        ----------
        labels : Tensor, optional
            One for each row of the logits; what they are the class says.
        """
        x, more = self.run(
            input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **options
        )
        logits = self.classify(x)
        loss = None if labels is None else self.loss(logits, labels)
        return self.result(return_dict, loss=loss, logits=logits, **_seen(more))


class BertForNextSentencePrediction(_Classes):
    """Whether sentence B follows sentence A: `labels` of shape (batch,), 0 = B follows A."""

    def build_head(self, config):
        self.next_sentence = nn.Linear(config.hidden_size, 2)

    def classify(self, x):
        """Logits of both answers: (batch, 2)."""
        return self.next_sentence(self.bert.pool(x))


class BertForSequenceClassification(_Classes):
    """A class, several classes or a number for each text, as `config.problem_type` says.

    For `labels` see `losses.classification_loss`.
    """

    def loss(self, logits, labels):
        """The loss that the configuration names, or the one that fits the labels."""
        return classification_loss(self.config, logits, labels)


class BertForMultipleChoice(_Classes):
    """Which of several texts is the right one: one score for each, compared within a row."""

    def num_classes(self, config):
        """One score."""
        return 1

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, labels=None, return_dict=None, **options
    ):  # fmt: skip
        """As `BertModel.forward`, with an axis more.

        Parameters
        ----------
        input_ids, attention_mask, token_type_ids, position_ids : Tensor (batch, choice, token)
        inputs_embeds : Tensor of shape (batch, choice, token, embed), optional
        labels : int64 Tensor of shape (batch,), optional
            The right choice.
        """
        choices = (inputs_embeds if input_ids is None else input_ids).shape[1]
        given = (input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        flat = [None if x is None else x.flatten(0, 1) for x in given]  # (batch * choice, token)
        x, more = self.run(*flat, **options)
        logits = self.classify(x).reshape(-1, choices)
        loss = None if labels is None else self.loss(logits, labels)
        return self.result(return_dict, loss=loss, logits=logits, **_seen(more))


class BertForTokenClassification(_Classes):
    """A class for each token, such as the kind of name it is part of.

    `labels` have shape (batch, token), -100 = none.
    """

    pools = False

    def classify(self, x):
        """Logits of each token: (batch, token, classes)."""
        return self.classifier(self.head_dropout(x))


class BertForQuestionAnswering(BertPreTrainedModel):
    """Where in a text the answer to a question starts and ends."""

    pools = False

    def build_head(self, config):
        if config.num_labels != 2:
            raise ArgumentError(
                "BertForQuestionAnswering: an answer has a start and an end.",
                got=f"{config.num_labels} labels in the configuration",
                expected="2",
            )
        self.qa_outputs = nn.Linear(config.hidden_size, 2)

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None,
        inputs_embeds=None, start_positions=None, end_positions=None, return_dict=None, **options
    ):  # fmt: skip
        """As `BertModel.forward`.

        Parameters
        ----------
        start_positions, end_positions : int64 Tensor of shape (batch,) or (batch, 1), optional
            A position behind the text is no answer.
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
    """What an encoder with a head returns of its inside: no cache."""
    return {name: more[name] for name in ("hidden_states", "attentions")}
