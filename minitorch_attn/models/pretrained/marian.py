"""Marian with the Hugging Face interface; the model itself is in `models/marian.py`."""

from ... import nn, ops
from ...errors import ArgumentError
from ..marian import Marian
from .decoder import embeddings_of
from .encoder_decoder import EncoderDecoderModel, paper_settings
from .encoder_decoder_heads import DecoderAlone, NextTokenHead, WithoutHead

__all__ = ["MarianForCausalLM", "MarianMTModel", "MarianModel"]

_DEFAULTS = dict(
    vocab_size=58101, decoder_vocab_size=None, max_position_embeddings=1024, encoder_layers=12,
    encoder_ffn_dim=4096, encoder_attention_heads=16, decoder_layers=12, decoder_ffn_dim=4096,
    decoder_attention_heads=16, encoder_layerdrop=0.0, decoder_layerdrop=0.0, use_cache=True,
    is_encoder_decoder=True, activation_function="gelu", d_model=1024, dropout=0.1,
    attention_dropout=0.0, activation_dropout=0.0, init_std=0.02, decoder_start_token_id=58100,
    scale_embedding=False, pad_token_id=58100, eos_token_id=0, bos_token_id=None,
    forced_eos_token_id=0, share_encoder_decoder_embeddings=True, is_decoder=False,
    tie_word_embeddings=True,
)  # fmt: skip


class MarianPreTrainedModel(EncoderDecoderModel):
    """Base class for the Marian models.

    Attributes
    ----------
    shared : Parameter
        Unused matrix that Hugging Face also saves. It exists only if the languages share a
        vocabulary and the embeddings are not tied.
    """

    model_type = "marian"
    defaults = _DEFAULTS
    may_be_missing = ("final_logits_bias", "embed_positions.weight")

    def build(self, config):
        one_vocabulary = config.share_encoder_decoder_embeddings
        target_size = config.decoder_vocab_size or config.vocab_size
        if one_vocabulary and target_size != config.vocab_size:
            raise ArgumentError(
                "Marian: with shared embeddings, decoder_vocab_size must be equal to vocab_size",
                got=f"vocab_size={config.vocab_size}, decoder_vocab_size={target_size}",
                hint="set share_encoder_decoder_embeddings=False to use two vocabularies",
            )
        second = None if one_vocabulary else target_size
        self.paper = Marian(config.vocab_size, second, **paper_settings(config))
        self.paper.reset_parameters(config.init_std)
        if one_vocabulary and not config.tie_word_embeddings:
            self.shared = nn.Parameter(ops.zeros(config.vocab_size, config.d_model))
        self.add_head(config)

    def one_matrix(self):
        return self.config.tie_word_embeddings and self.config.share_encoder_decoder_embeddings

    def target_vectors(self, input_ids, inputs_embeds):
        """Return the scaled embeddings of the target tokens.

        As in Hugging Face, `inputs_embeds` are scaled too.

        Parameters
        ----------
        input_ids : int64 Tensor of shape (batch, target), optional
        inputs_embeds : Tensor of shape (batch, target, embed), optional
        """
        stage = self.paper.target_embedding
        if inputs_embeds is not None:
            inputs_embeds = inputs_embeds * stage.scale
        return embeddings_of(stage.look_up, input_ids, inputs_embeds)


class MarianModel(WithoutHead, MarianPreTrainedModel):
    """Marian without a head: returns the decoder's hidden states for the target tokens.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = MarianModel({
    ...     "vocab_size": 11, "d_model": 6, "encoder_layers": 1, "decoder_layers": 1,
    ...     "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 8,
    ...     "decoder_ffn_dim": 8, "pad_token_id": 10, "decoder_start_token_id": 10,
    ... }).eval()
    >>> source, target = mt.tensor([[5, 7, 2, 0]]), mt.tensor([[10, 4, 3]])
    >>> model(source, decoder_input_ids=target).last_hidden_state.shape
    (1, 3, 6)
    """


class MarianMTModel(NextTokenHead, MarianPreTrainedModel):
    """Marian translation model: returns the logits of the next target token."""

    def tied(self):
        if self.config.tie_word_embeddings and not self.one_matrix():
            return {"lm_head.weight": "model.decoder.embed_tokens.weight"}
        return super().tied()


class MarianForCausalLM(DecoderAlone, MarianPreTrainedModel):
    """Marian's decoder as a language model, with optional attention to an encoder's output."""

    def add_head(self, config):
        super().add_head(config)
        if not config.tie_word_embeddings:  # Hugging Face uses the source vocabulary's size
            self.paper.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
