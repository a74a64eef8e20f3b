"""What the classes of BART and of Marian do alike with the vectors of the target's tokens."""

from ... import ops
from .decoder import kept, result
from .encoder_decoder import EncoderDecoderFace, decoder_names, decoder_tied, drop_encoder
from .losses import token_loss

__all__ = ["DecoderAlone", "NextTokenHead", "WithoutHead"]


class WithoutHead(EncoderDecoderFace):
    """A base model: the vectors of the target's tokens."""

    is_base = True

    def forward(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None,
        decoder_attention_mask=None, encoder_outputs=None, past_key_values=None,
        inputs_embeds=None, decoder_inputs_embeds=None, use_cache=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """The peer's arguments and results.

        Parameters
        ----------
        input_ids : int64 Tensor of shape (batch, source), optional
        attention_mask : Tensor of shape (batch, source), optional
            1 = a token, 0 = padding.
        decoder_input_ids : int64 Tensor of shape (batch, target), optional
            By default `input_ids`, one to the right. With a cache, the new tokens only.
        decoder_attention_mask : Tensor of shape (batch, past + target), optional
        encoder_outputs : Output or tuple, optional
            What `get_encoder()` returned, instead of `input_ids`.
        past_key_values : KVCache or sequence of tuples, optional
            What an earlier call returned.
        inputs_embeds, decoder_inputs_embeds : Tensor of shape (batch, token, embed), optional
            Instead of `input_ids` and `decoder_input_ids`.
        use_cache, output_attentions, output_hidden_states : bool, optional
            By default as the configuration says.
        return_dict : bool, optional
            False gives a tuple.

        Returns
        -------
        Output
        """
        decoder_input_ids = self.target_ids(input_ids, decoder_input_ids, decoder_inputs_embeds)
        x, more = self.run(
            input_ids, attention_mask, decoder_input_ids, decoder_attention_mask, encoder_outputs,
            past_key_values, inputs_embeds, decoder_inputs_embeds, use_cache, output_attentions,
            output_hidden_states,
        )  # fmt: skip
        return result(return_dict, last_hidden_state=x, **more)


class NextTokenHead(EncoderDecoderFace):
    """Logits of the target's next token, from the embedding matrix and a bias."""

    def add_head(self, config):
        size = self.paper.head.weight.shape[0]
        self.register_buffer("final_logits_bias", ops.zeros(1, size))

    def forward(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None,
        decoder_attention_mask=None, encoder_outputs=None, past_key_values=None,
        inputs_embeds=None, decoder_inputs_embeds=None, labels=None, use_cache=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """As `WithoutHead.forward`; with labels also their loss.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, target), optional
            -100 for no label. Without `decoder_input_ids` the decoder reads them, one to the
            right.
        """
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.shifted(labels)
        decoder_input_ids = self.target_ids(input_ids, decoder_input_ids, decoder_inputs_embeds)
        x, more = self.run(
            input_ids, attention_mask, decoder_input_ids, decoder_attention_mask, encoder_outputs,
            past_key_values, inputs_embeds, decoder_inputs_embeds, use_cache, output_attentions,
            output_hidden_states,
        )  # fmt: skip
        logits = self.paper.head(x) + self.final_logits_bias  # (batch, target, vocabulary)
        loss = None if labels is None else token_loss(logits, labels)
        return result(return_dict, loss=loss, logits=logits, **more)


class DecoderAlone(EncoderDecoderFace):
    """The decoder alone as a language model; its attention to an encoder's output is optional."""

    def add_head(self, config):
        drop_encoder(self)

    def names(self):
        return decoder_names()

    def tied(self):
        return decoder_tied(self.config)

    def forward(
        self, input_ids=None, attention_mask=None, encoder_hidden_states=None,
        encoder_attention_mask=None, past_key_values=None, inputs_embeds=None, labels=None,
        use_cache=None, logits_to_keep=0, output_attentions=None, output_hidden_states=None,
        return_dict=None,
    ):  # fmt: skip
        """The peer's arguments and results.

        Parameters
        ----------
        encoder_hidden_states : Tensor of shape (batch, source, embed), optional
        encoder_attention_mask : Tensor of shape (batch, source), optional
        labels : int64 Tensor of shape (batch, token), optional
            Of the token at the same position: they are not shifted.
        logits_to_keep : int or Tensor, default 0
            Logits of so many last tokens, or of these positions; 0 for all.
        """
        out = self.decode(
            encoder_hidden_states, input_ids, attention_mask, encoder_attention_mask,
            past_key_values, inputs_embeds, use_cache, output_attentions, output_hidden_states,
        )  # fmt: skip
        logits = self.paper.head(kept(out.pop("last_hidden_state"), logits_to_keep))
        loss = None if labels is None else token_loss(logits, labels)
        return result(return_dict, loss=loss, logits=logits, **out)
