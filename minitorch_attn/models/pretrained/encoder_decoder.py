"""EncoderDecoderModel: base class for BART and Marian that runs the encoder and the decoder."""

from ... import ops
from ...errors import ArgumentError
from ...tensor import Tensor
from .activations import activation
from .base import PretrainedModel
from .decoder import attention_mask_of, cache_of, collecting, embeddings_of
from .encoder import encoder_mask
from .names import Ignored, NameTable, Same
from .output import Output

__all__ = [
    "EncoderDecoderModel", "decoder_names", "decoder_tied", "drop_encoder", "paper_settings",
    "shift_right",
]  # fmt: skip


def paper_settings(config):
    """Return the arguments of `EncoderDecoder`, except the vocabulary sizes."""
    return dict(
        embed_dim=config.d_model, num_heads=config.encoder_attention_heads,
        num_encoder_layers=config.encoder_layers, num_decoder_layers=config.decoder_layers,
        ff_dim=config.encoder_ffn_dim, decoder_num_heads=config.decoder_attention_heads,
        decoder_ff_dim=config.decoder_ffn_dim, dropout=config.dropout,
        attention_dropout=config.attention_dropout or 0.0, ff_dropout=config.activation_dropout,
        encoder_layer_drop=config.encoder_layerdrop, decoder_layer_drop=config.decoder_layerdrop,
        activation=activation(config.activation_function),
        scale_embedding=config.scale_embedding, max_len=config.max_position_embeddings,
        tie_weights=config.tie_word_embeddings, pad_id=config.pad_token_id,
    )  # fmt: skip


def shift_right(ids, pad_token_id, decoder_start_token_id):
    """Shift labels right by one position. The decoder reads the result and predicts the labels.

    Parameters
    ----------
    ids : int64 Tensor of shape (batch, token)
        Labels. -100, which marks positions to ignore, is replaced by `pad_token_id`.
    pad_token_id, decoder_start_token_id : int

    Returns
    -------
    int64 Tensor of shape (batch, token)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> shift_right(mt.tensor([[5, 7, -100]]), pad_token_id=1, decoder_start_token_id=2)
    tensor([[2, 5, 7]])
    """
    if pad_token_id is None or decoder_start_token_id is None:
        raise ArgumentError(
            "shift_right: pad_token_id and decoder_start_token_id must not be None",
            got=f"pad_token_id={pad_token_id}, decoder_start_token_id={decoder_start_token_id}",
            hint="set both ids in the configuration, or pass decoder_input_ids",
        )
    start = ops.full((ids.shape[0], 1), decoder_start_token_id, dtype="int64", device=ids.device)
    shifted = ops.cat((start, ids[:, :-1]), 1)
    return ops.where(shifted == -100, pad_token_id, shifted)


def layer_names(stack, prefix=""):
    """Return the `NameTable` entries of the encoder's or the decoder's layers and embeddings.

    Parameters
    ----------
    stack : {"encoder", "decoder"}
    prefix : str
        Prefix of the stored names.
    """
    side = "source" if stack == "encoder" else "target"
    stored, ours = f"{prefix}{stack}.layers.{{}}.", f"paper.{stack}.layers.{{}}."
    pairs = {
        "self_attn": "attention",
        "self_attn_layer_norm": "around_attention.norm",
        "encoder_attn": "cross_attention",
        "encoder_attn_layer_norm": "around_cross_attention.norm",
        "fc1": "feed_forward.linear1",
        "fc2": "feed_forward.linear2",
        "final_layer_norm": "around_feed_forward.norm",
    }
    entries = [Same(stored + name, ours + own) for name, own in pairs.items()]
    stage = f"paper.{side}_embedding."
    return [
        *entries,
        Same(f"{prefix}{stack}.embed_positions", stage + "positions"),
        Same(f"{prefix}{stack}.layernorm_embedding", stage + "norm"),
    ]


def drop_encoder(model):
    """Remove the encoder from a model that is used as a decoder-only language model."""
    model.paper.source_embedding = model.paper.encoder = None
    if "shared" in dict(model.named_parameters()):
        del model.shared


def decoder_names():
    """Return the `NameTable` of a decoder-only model, which ignores a file's encoder tensors."""
    return NameTable(
        Same("model.decoder.embed_tokens.weight", "paper.target_embedding.tokens.weight"),
        Same("lm_head.weight", "paper.head.weight"),
        *layer_names("decoder", "model."),
        Ignored("model.encoder.*", "final_logits_bias", "*decoder.version"),
    )


def decoder_tied(config):
    """Return a decoder-only model's tied parameters as {alias: stored name}.

    The alias "model.shared.weight" occurs only in the files of encoder-decoder models, which a
    decoder-only model can also load.
    """
    tokens = "model.decoder.embed_tokens.weight"
    aliases = ["lm_head.weight", "model.shared.weight"] if config.tie_word_embeddings else []
    return dict.fromkeys(aliases, tokens)


class EncoderDecoderModel(PretrainedModel):
    """Base class for encoder-decoder models: gives the model in `paper` Hugging Face's interface.

    Subclasses must create `paper` in `build`.

    Attributes
    ----------
    paper : EncoderDecoder
        The model as defined in its paper. In base models, it does not have a head.
    """

    base_prefix = "model"
    aliases = {
        "num_attention_heads": "encoder_attention_heads",
        "hidden_size": "d_model",
        "num_hidden_layers": "encoder_layers",
    }

    def one_matrix(self):
        """Return True if the source embeddings, target embeddings and head share one matrix."""
        return self.config.tie_word_embeddings

    def shifted(self, ids):
        """Return `ids`, shifted right by one position, with the start token in front."""
        return shift_right(ids, self.config.pad_token_id, self.config.decoder_start_token_id)

    def target_ids(self, input_ids, decoder_input_ids, decoder_inputs_embeds):
        """Return the decoder's input ids. In BART, they are derived from `input_ids` by default."""
        return decoder_input_ids

    def add_head(self, config):
        """Create the head. This version is for models without a head: it removes `paper.head`.

        Models with a head override this method.
        """
        self.paper.head = None

    def names(self):
        prefix = "" if self.is_base else self.base_prefix + "."
        source = "shared" if self.one_matrix() else "encoder.embed_tokens"
        return NameTable(
            Same(f"{prefix}{source}.weight", "paper.source_embedding.tokens.weight"),
            Same(f"{prefix}decoder.embed_tokens.weight", "paper.target_embedding.tokens.weight"),
            Same(f"{prefix}shared.weight", "shared"),
            Same("lm_head.weight", "paper.head.weight"),
            *layer_names("encoder", prefix),
            *layer_names("decoder", prefix),
            Ignored("*encoder.version", "*decoder.version"),
        )

    def tied(self):
        prefix = "" if self.is_base else self.base_prefix + "."
        if not self.one_matrix():
            return {}
        shared, tokens = f"{prefix}shared.weight", "embed_tokens.weight"
        own = {f"{prefix}encoder.{tokens}": shared, f"{prefix}decoder.{tokens}": shared}
        return own if self.paper.head is None else {**own, "lm_head.weight": shared}

    def encode(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, output_attentions=None,
        output_hidden_states=None,
    ):  # fmt: skip
        """Run the encoder.

        Parameters
        ----------
        input_ids : int64 Tensor of shape (batch, source), optional
        attention_mask : Tensor of shape (batch, source), optional
            1 for tokens, 0 for padding.
        inputs_embeds : Tensor of shape (batch, source, embed), optional
            Embeddings to use instead of `input_ids`.
        output_attentions, output_hidden_states : bool, optional

        Returns
        -------
        Output
            Output with last_hidden_state and, if requested, hidden_states and attentions.
        """
        stage, encoder = self.paper.source_embedding, self.paper.encoder
        x = embeddings_of(stage.look_up, input_ids, inputs_embeds)  # (batch, source, embed)
        mask = encoder_mask(attention_mask, x.shape[0], x.shape[1])
        watched = (encoder, [stage.dropout, *encoder.layers])
        with collecting(self.config, *watched, output_attentions, output_hidden_states) as found:
            x = encoder(stage.place(x), mask)
        return Output(
            last_hidden_state=x, hidden_states=found.hidden_states, attentions=found.attentions
        )

    def get_encoder(self):
        """Return `encode`, which computes `encoder_outputs` from `input_ids`."""
        return self.encode

    def decode(
        self, memory, input_ids=None, attention_mask=None, memory_mask=None, past_key_values=None,
        inputs_embeds=None, use_cache=None, output_attentions=None, output_hidden_states=None,
    ):  # fmt: skip
        """Run the decoder without its head.

        Parameters
        ----------
        memory : Tensor of shape (batch, source, embed) or None
            Output of the encoder.
        input_ids : int64 Tensor of shape (batch, target), optional
            Target ids. With a cache, pass only the ids after the cached tokens.
        attention_mask : Tensor of shape (batch, past + target), optional
        memory_mask : Tensor of shape (batch, source), optional
        past_key_values : KVCache or sequence, optional
        inputs_embeds : Tensor of shape (batch, target, embed), optional
        use_cache, output_attentions, output_hidden_states : bool, optional

        Returns
        -------
        Output
            Output with last_hidden_state, past_key_values and, if requested, hidden_states and
            attentions.
        """
        stage, decoder = self.paper.target_embedding, self.paper.decoder
        x = self.target_vectors(input_ids, inputs_embeds)  # (batch, target, embed)
        cache, _ = cache_of(self.config, past_key_values, use_cache)
        past = 0 if cache is None else cache.length
        mask = attention_mask_of(attention_mask, None, x, past)
        if memory is not None:
            memory_mask = encoder_mask(memory_mask, memory.shape[0], memory.shape[1])
        watched = (decoder, [stage.dropout, *decoder.layers])
        with collecting(self.config, *watched, output_attentions, output_hidden_states) as found:
            x = decoder(stage.place(x, past), memory, mask, memory_mask, cache)
        own, cross = found.attentions, None
        if own is not None and memory is not None:
            own, cross = own[0::2], own[1::2]  # each layer: self-attention, then cross-attention
        return Output(
            last_hidden_state=x, past_key_values=cache, hidden_states=found.hidden_states,
            attentions=own, cross_attentions=cross,
        )  # fmt: skip

    def target_vectors(self, input_ids, inputs_embeds):
        """Return the scaled embeddings of the target tokens, with shape (batch, target, embed)."""
        return embeddings_of(self.paper.target_embedding.look_up, input_ids, inputs_embeds)

    def run(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None,
        decoder_attention_mask=None, encoder_outputs=None, past_key_values=None,
        inputs_embeds=None, decoder_inputs_embeds=None, use_cache=None, output_attentions=None,
        output_hidden_states=None,
    ):  # fmt: skip
        """Run the encoder and the decoder without a head.

        Returns
        -------
        x : Tensor of shape (batch, target, embed)
        more : dict
            The other outputs, with Hugging Face's names as keys.
        """
        wanted = (output_attentions, output_hidden_states)
        if encoder_outputs is None:
            encoder_outputs = self.encode(input_ids, attention_mask, inputs_embeds, *wanted)
        encoded = _as_encoder_output(encoder_outputs)
        decoded = self.decode(
            encoded.last_hidden_state, decoder_input_ids, decoder_attention_mask, attention_mask,
            past_key_values, decoder_inputs_embeds, use_cache, *wanted,
        )  # fmt: skip
        more = dict(
            past_key_values=decoded.past_key_values,
            decoder_hidden_states=decoded.hidden_states,
            decoder_attentions=decoded.attentions,
            cross_attentions=decoded.cross_attentions,
            encoder_last_hidden_state=encoded.last_hidden_state,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
        )
        return decoded.last_hidden_state, more


def _as_encoder_output(encoder_outputs):
    """Convert `encoder_outputs`, a Tensor, tuple or dict, to an Output."""
    if isinstance(encoder_outputs, Tensor):
        return Output(last_hidden_state=encoder_outputs)
    if isinstance(encoder_outputs, (tuple, list)):
        names = ("last_hidden_state", "hidden_states", "attentions")
        return Output(**dict(zip(names, encoder_outputs, strict=False)))
    return Output(**encoder_outputs)
