"""Heads shared by the encoder-decoder models BART and Marian."""

from ... import ops
from .decoder import kept, result
from .encoder_decoder import EncoderDecoderModel, decoder_names, decoder_tied, drop_encoder
from .losses import token_loss

__all__ = ["DecoderAlone", "NextTokenHead", "WithoutHead"]


class WithoutHead(EncoderDecoderModel):
    """Base model without a head: returns the decoder's hidden states for the target tokens."""

    is_base = True

    def forward(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None,
        decoder_attention_mask=None, encoder_outputs=None, past_key_values=None,
        inputs_embeds=None, decoder_inputs_embeds=None, use_cache=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Run the model. The arguments and outputs are the same as in Hugging Face.

        Parameters
        ----------
        input_ids : int64 Tensor of shape (batch, source), optional
        attention_mask : Tensor of shape (batch, source), optional
            1 for tokens, 0 for padding.
        decoder_input_ids : int64 Tensor of shape (batch, target), optional
            Target ids. With a cache, pass only the new ids. BART's default: `input_ids`, shifted
            right by one position.
        decoder_attention_mask : Tensor of shape (batch, past + target), optional
        encoder_outputs : Output or tuple, optional
            Output of `get_encoder()`. If given, the encoder does not run.
        past_key_values : KVCache or sequence of tuples, optional
            Cache from an earlier call.
        inputs_embeds, decoder_inputs_embeds : Tensor of shape (batch, token, embed), optional
            Embeddings to use instead of `input_ids` and `decoder_input_ids`.
        use_cache, output_attentions, output_hidden_states : bool, optional
            Default: the value in the configuration.
        return_dict : bool, optional
            If False, the result is a tuple.

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


class NextTokenHead(EncoderDecoderModel):
    """Language-model head: returns the logits of the next target token, with a bias added."""

    def add_head(self, config):
        size = self.paper.head.weight.shape[0]
        self.register_buffer("final_logits_bias", ops.zeros(1, size))

    def forward(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None,
        decoder_attention_mask=None, encoder_outputs=None, past_key_values=None,
        inputs_embeds=None, decoder_inputs_embeds=None, labels=None, use_cache=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Same as `WithoutHead.forward`, with the loss if `labels` are given.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, target), optional
            -100 marks positions to ignore. Without `decoder_input_ids`, the decoder reads the
            labels, shifted right by one position.
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


class DecoderAlone(EncoderDecoderModel):
    """Decoder used as a language model, with optional attention to an encoder's output."""

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
        """Run the model. The arguments and outputs are the same as in Hugging Face.

        Parameters
        ----------
        encoder_hidden_states : Tensor of shape (batch, source, embed), optional
        encoder_attention_mask : Tensor of shape (batch, source), optional
        labels : int64 Tensor of shape (batch, token), optional
            Target at each position. The labels are not shifted. -100 marks positions to ignore.
        logits_to_keep : int or Tensor, default 0
            Positions whose logits are computed. See `decoder.kept`.
        """
        out = self.decode(
            encoder_hidden_states, input_ids, attention_mask, encoder_attention_mask,
            past_key_values, inputs_embeds, use_cache, output_attentions, output_hidden_states,
        )  # fmt: skip
        logits = self.paper.head(kept(out.pop("last_hidden_state"), logits_to_keep))
        loss = None if labels is None else token_loss(logits, labels)
        return result(return_dict, loss=loss, logits=logits, **out)
