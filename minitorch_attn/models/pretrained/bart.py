"""BART with the Hugging Face interface; the model itself is in `models/bart.py`."""

from ... import nn, ops
from ...errors import ArgumentError
from ..bart import BART
from .decoder import result
from .encoder_decoder import EncoderDecoderModel, paper_settings
from .encoder_decoder_heads import DecoderAlone, NextTokenHead, WithoutHead
from .losses import classification_loss, span_loss

__all__ = [
    "BartForCausalLM", "BartForConditionalGeneration", "BartForQuestionAnswering",
    "BartForSequenceClassification", "BartModel",
]  # fmt: skip

_DEFAULTS = dict(
    vocab_size=50265, max_position_embeddings=1024, encoder_layers=12, encoder_ffn_dim=4096,
    encoder_attention_heads=16, decoder_layers=12, decoder_ffn_dim=4096,
    decoder_attention_heads=16, encoder_layerdrop=0.0, decoder_layerdrop=0.0,
    activation_function="gelu", d_model=1024, dropout=0.1, attention_dropout=0.0,
    activation_dropout=0.0, init_std=0.02, classifier_dropout=0.0, scale_embedding=False,
    use_cache=True, pad_token_id=1, bos_token_id=0, eos_token_id=2, is_encoder_decoder=True,
    decoder_start_token_id=2, forced_eos_token_id=2, is_decoder=False, tie_word_embeddings=True,
    id2label={"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}, problem_type=None,
)  # fmt: skip


class BartPreTrainedModel(EncoderDecoderModel):
    """Base class for the BART models.

    Attributes
    ----------
    shared : Parameter
        Matrix that is not used. It exists only if the embeddings are not tied, because Hugging
        Face saves it in this case.
    """

    model_type = "bart"
    defaults = _DEFAULTS
    may_be_missing = ("final_logits_bias",)

    def build(self, config):
        self.paper = BART(config.vocab_size, **paper_settings(config))
        self.paper.reset_parameters(config.init_std)
        if not config.tie_word_embeddings:
            self.shared = nn.Parameter(ops.zeros(config.vocab_size, config.d_model))
        self.add_head(config)

    def target_ids(self, input_ids, decoder_input_ids, decoder_inputs_embeds):
        """Return the decoder's input ids. Default: the source, shifted right by one position."""
        if decoder_input_ids is not None or decoder_inputs_embeds is not None:
            return decoder_input_ids
        if input_ids is None:
            raise ArgumentError(
                f"{type(self).__name__}: the decoder's input is missing",
                got="neither input_ids nor decoder_input_ids nor decoder_inputs_embeds",
                expected="one of them",
                hint="pass input_ids; the decoder reads them, shifted right by one position",
            )
        return self.shifted(input_ids)


class BartModel(WithoutHead, BartPreTrainedModel):
    """BART without a head: returns the decoder's hidden states for the target tokens.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = BartModel({
    ...     "vocab_size": 11, "d_model": 6, "encoder_layers": 1, "decoder_layers": 1,
    ...     "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 8,
    ...     "decoder_ffn_dim": 8,
    ... }).eval()
    >>> model(mt.tensor([[0, 5, 7, 2]])).last_hidden_state.shape
    (1, 4, 6)
    """


class BartForConditionalGeneration(NextTokenHead, BartPreTrainedModel):
    """BART with a language-model head: returns the logits of the next target token."""


class ClassificationHead(nn.Module):
    """Classification head: two linear layers with a tanh between them and dropout before each.

    Parameters
    ----------
    embed_dim, num_labels : int
        Input size and number of classes.
    dropout : float
        Dropout probability before each linear layer.
    """

    def __init__(self, embed_dim, num_labels, dropout):
        super().__init__()
        self.dense = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(embed_dim, num_labels)

    def forward(self, x):
        # x: (batch, embed) -> (batch, labels)
        return self.out_proj(self.dropout(ops.tanh(self.dense(self.dropout(x)))))


class BartForSequenceClassification(BartPreTrainedModel):
    """BART text classifier: classifies the decoder's output at the last end token.

    Lewis et al. 2019, arXiv:1910.13461v1, section 3.1.
    """

    def add_head(self, config):
        self.paper.head = None
        self.classification_head = ClassificationHead(
            config.d_model, config.num_labels, config.classifier_dropout or 0.0
        )

    def forward(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None,
        decoder_attention_mask=None, encoder_outputs=None, inputs_embeds=None,
        decoder_inputs_embeds=None, labels=None, use_cache=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Run the model. `input_ids` is required, to find the last end token of each text.

        For `labels`, see `losses.classification_loss`. The other arguments are the same as those of
        `BartModel.forward`.
        """
        if input_ids is None:
            raise ArgumentError(
                "BartForSequenceClassification: input_ids must be given to find the end of a text",
                got="input_ids=None", hint="pass the token ids instead of inputs_embeds",
            )  # fmt: skip
        use_cache = False if labels is not None else use_cache
        decoder_input_ids = self.target_ids(input_ids, decoder_input_ids, decoder_inputs_embeds)
        x, more = self.run(
            input_ids, attention_mask, decoder_input_ids, decoder_attention_mask, encoder_outputs,
            None, inputs_embeds, decoder_inputs_embeds, use_cache, output_attentions,
            output_hidden_states,
        )  # fmt: skip
        last = _last_place(input_ids, self.config.eos_token_id)  # (batch,)
        x = x[ops.arange(x.shape[0], device=x.device), last]  # (batch, embed)
        logits = self.classification_head(x)
        loss = None if labels is None else classification_loss(self.config, logits, labels)
        return result(return_dict, loss=loss, logits=logits, **more)


def _last_place(ids, token_id):
    """Return the last position of `token_id` in each row.

    As in Hugging Face, all rows must contain the token the same number of times, at least once.
    Otherwise, an error is raised.
    """
    found = ids == token_id  # (batch, token)
    counts = set(found.sum(1).tolist())
    if len(counts) != 1 or counts == {0}:
        raise ArgumentError(
            "BartForSequenceClassification: all rows must have the same number of end tokens",
            got=f"rows of input_ids with {sorted(counts)} tokens of id {token_id}",
            expected="the same number in every row, at least 1",
            hint="end every text with one </s>, as the tokenizer of the model does",
        )
    return (found * ops.arange(ids.shape[1], device=ids.device)).argmax(1)


class BartForQuestionAnswering(BartPreTrainedModel):
    """BART for extractive question answering: logits of an answer's start and end.

    Lewis et al. 2019, arXiv:1910.13461v1, section 3.2.
    """

    def add_head(self, config):
        self.paper.head = None
        self.qa_outputs = nn.Linear(config.d_model, 2)

    def forward(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None,
        decoder_attention_mask=None, encoder_outputs=None, start_positions=None,
        end_positions=None, inputs_embeds=None, decoder_inputs_embeds=None, use_cache=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Run the model; compute the loss if `start_positions` and `end_positions` are given.

        The other arguments are the same as those of `BartModel.forward`.
        """
        answered = start_positions is not None and end_positions is not None
        decoder_input_ids = self.target_ids(input_ids, decoder_input_ids, decoder_inputs_embeds)
        x, more = self.run(
            input_ids, attention_mask, decoder_input_ids, decoder_attention_mask, encoder_outputs,
            None, inputs_embeds, decoder_inputs_embeds, False if answered else use_cache,
            output_attentions, output_hidden_states,
        )  # fmt: skip
        start, end = self.qa_outputs(x).unbind(-1)  # (batch, target) each
        loss = span_loss(start, end, start_positions, end_positions) if answered else None
        return result(return_dict, loss=loss, start_logits=start, end_logits=end, **more)


class BartForCausalLM(DecoderAlone, BartPreTrainedModel):
    """BART's decoder as a language model, with optional attention to an encoder's output."""
