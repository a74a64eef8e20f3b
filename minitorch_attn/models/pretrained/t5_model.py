"""T5PreTrainedModel, base class for the T5 models: configuration, parameter names, forward pass."""

from types import SimpleNamespace

from ...autograd.modes import no_grad
from ...errors import ArgumentError
from ..t5 import T5, shift_right
from .activations import activation
from .base import PretrainedModel
from .decoder import cache_of, collecting, embeddings_of, result
from .encoder import decoder_mask, encoder_mask
from .names import Ignored, NameTable, Same

__all__ = ["T5PreTrainedModel"]

_DEFAULTS = dict(
    vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_decoder_layers=None,
    num_heads=8, relative_attention_num_buckets=32, relative_attention_max_distance=128,
    dropout_rate=0.1, layer_norm_epsilon=1e-6, initializer_factor=1.0, feed_forward_proj="relu",
    is_encoder_decoder=True, use_cache=True, pad_token_id=0, eos_token_id=1,
    classifier_dropout=0.0, is_decoder=False, tie_word_embeddings=True,
    decoder_start_token_id=None,
)  # fmt: skip


class T5PreTrainedModel(PretrainedModel):
    """Base class for the T5 models, with Hugging Face's parameter names.

    Attributes
    ----------
    prefix : str
        Prefix of the stored parameter names.
    decodes : bool
        Whether the model has a decoder.
    predicts : bool
        Whether the model has a head that predicts tokens.
    """

    model_type = "t5"
    defaults = _DEFAULTS
    aliases = {
        "hidden_size": "d_model", "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers", "head_dim": "d_kv",
    }  # fmt: skip
    prefix = ""
    decodes = True
    predicts = False

    def build(self, config):
        only = {"is_encoder_decoder": True} if self.decodes else {"is_decoder": False}
        config.refuse(type(self).__name__, **only)
        decoder_layers = config.num_decoder_layers
        if decoder_layers is None:
            decoder_layers = config.num_layers
        function, gated = _feed_forward(config)
        self.body = T5(
            config.vocab_size, config.d_model, config.num_heads, config.num_layers, config.d_kv,
            config.d_ff, decoder_layers if self.decodes else 0,
            config.relative_attention_num_buckets, config.relative_attention_max_distance,
            config.dropout_rate, activation(function), gated, _is_tied(config),
            config.layer_norm_epsilon,
        )  # fmt: skip
        scaled = config.get("scale_decoder_outputs", _is_tied(config))
        self.body.scale = config.d_model**-0.5 if scaled else 1.0
        if not self.predicts:
            self.body.head = None
        if not self.decodes:
            self.body.decoder = None
        self.build_head(config)
        if config.initializer_factor != 1.0:
            with no_grad():
                for parameter in self.parameters():
                    parameter.mul_(config.initializer_factor)

    def build_head(self, config):
        """Create the head on top of the model. Base models do not have a head."""

    def names(self):
        p = self.prefix
        return NameTable(
            Same(p + "shared", "body.token_embedding"),
            *_stack_names(p + "encoder", "body.encoder", ["attention", "feed_forward"]),
            *_stack_names(
                p + "decoder", "body.decoder", ["attention", "cross_attention", "feed_forward"]
            ),
            Same("lm_head", "body.head"),
            Ignored(p + "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"),
            Ignored(*([] if self.decodes else [p + "decoder.*"])),
            Ignored(*([] if self.predicts else ["lm_head.weight"])),
        )

    def tied(self):
        shared = self.prefix + "shared.weight"
        stacks = ["encoder", "decoder"] if self.decodes else ["encoder"]
        aliases = {f"{self.prefix}{stack}.embed_tokens.weight": shared for stack in stacks}
        if self.predicts and _is_tied(self.config):
            aliases["lm_head.weight"] = shared
        return aliases

    def get_encoder(self):
        """Return the method `encode`, for calls such as `model.get_encoder()(input_ids=ids)`."""
        return self.encode

    def encode(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the encoder's hidden states and attention weights.

        Parameters
        ----------
        input_ids : int64 Tensor of shape (batch, token)
        attention_mask : Tensor, optional
            Mask of shape (batch, token) or (batch, query, key) with 1 for tokens and 0 for padding,
            or a bool mask that broadcasts to (batch, heads, query, key). A query without any
            allowed key gets a zero context vector.
        inputs_embeds : Tensor of shape (batch, token, embed), optional
            Embeddings to use instead of `input_ids`.
        output_attentions, output_hidden_states, return_dict : bool, optional
            Default: the value in the configuration.

        Returns
        -------
        Output
            Output with last_hidden_state, hidden_states and attentions.
        """
        x = embeddings_of(self.body.token_embedding, input_ids, inputs_embeds)
        mask = encoder_mask(attention_mask, x.shape[0], x.shape[1])
        stack, flags = self.body.encoder, (output_attentions, output_hidden_states)
        states = [stack.dropout, *stack.layers]
        with collecting(self.config, stack, states, *flags) as found:
            x = stack(x, mask)
        states = _hidden_states(found.hidden_states)
        results = {"last_hidden_state": x, "hidden_states": states, "attentions": found.attentions}
        return self.result(return_dict, **results)

    def run(
        self, input_ids=None, attention_mask=None, decoder_input_ids=None,
        decoder_attention_mask=None, encoder_outputs=None, past_key_values=None,
        inputs_embeds=None, decoder_inputs_embeds=None, use_cache=None, output_attentions=None,
        output_hidden_states=None,
    ):  # fmt: skip
        """Return the decoder's hidden states, and a dict of the other outputs."""
        flags = (output_attentions, output_hidden_states)
        if (decoder_input_ids is None) == (decoder_inputs_embeds is None):
            raise ArgumentError(
                f"{type(self).__name__}: exactly one of decoder_input_ids and "
                "decoder_inputs_embeds must be given",
                got="neither" if decoder_input_ids is None else "both",
            )
        if encoder_outputs is None:
            encoder_outputs = self.encode(input_ids, attention_mask, inputs_embeds, *flags, True)
        encoded = _encoded(encoder_outputs)
        memory = encoded.last_hidden_state  # (batch, key, embed)
        x = embeddings_of(self.body.token_embedding, decoder_input_ids, decoder_inputs_embeds)
        cache, wanted = cache_of(self.config, past_key_values, use_cache)
        length = x.shape[1] + (0 if cache is None else cache.length)
        mask = decoder_mask(decoder_attention_mask, x.shape[0], length, "decoder_attention_mask")
        memory_mask = encoder_mask(attention_mask, *memory.shape[:2])
        stack = self.body.decoder
        states = [stack.dropout, *stack.layers]
        with collecting(self.config, stack, states, *flags) as found:
            x = stack(x, memory, mask, memory_mask, cache)
        weights = found.attentions  # each layer: self-attention, then cross-attention
        return x, {
            "past_key_values": cache if wanted else None,
            "decoder_hidden_states": _hidden_states(found.hidden_states),
            "decoder_attentions": None if weights is None else weights[::2],
            "cross_attentions": None if weights is None else weights[1::2],
            "encoder_last_hidden_state": memory,
            "encoder_hidden_states": encoded.hidden_states,
            "encoder_attentions": encoded.attentions,
        }

    def shifted(self, ids):
        """Return the decoder's input for the labels `ids`: `ids` shifted right by one position."""
        config, name = self.config, type(self).__name__
        for field in ("decoder_start_token_id", "pad_token_id"):
            if config.get(field) is None:
                raise ArgumentError(
                    f"{name}: config.{field} must be set to shift the labels",
                    got=f"config.{field}=None",
                    expected="a token id; for T5, the padding token (id 0) is also the start token",
                )
        return shift_right(ids, config.decoder_start_token_id, config.pad_token_id)

    def result(self, return_dict, **results):
        """Return the results as an Output, or as a tuple if `return_dict` is false."""
        wanted = self.config.get("return_dict", True) if return_dict is None else return_dict
        return result(wanted, **results)


def _is_tied(config):
    return config.tie_word_embeddings is not False


def _feed_forward(config):
    """Parse `config.feed_forward_proj`, such as "gated-gelu", into (activation name, is gated)."""
    *gate, function = config.feed_forward_proj.split("-")
    if gate not in ([], ["gated"]):
        raise ArgumentError(
            "config.feed_forward_proj is not supported",
            got=f"feed_forward_proj={config.feed_forward_proj!r}",
            expected="the name of an activation function, or 'gated-' followed by such a name",
        )
    if config.feed_forward_proj == "gated-gelu":
        function = "gelu_new"  # T5 1.1 was trained with the tanh approximation
    return config.get("dense_act_fn", function), config.get("is_gated_act", bool(gate))


def _stack_names(stored, ours, parts):
    """Yield the `NameTable` entries of the encoder or decoder, whose layers consist of `parts`."""
    first = f"{stored}.block.0.layer.0.SelfAttention.relative_attention_bias"
    yield Same(first, f"{ours}.position_bias.embedding")
    yield Same(f"{stored}.final_layer_norm", f"{ours}.norm")
    for i, part in enumerate(parts):
        own, layer = f"{ours}.layers.{{}}.", f"{stored}.block.{{}}.layer.{i}."
        yield Same(layer + "layer_norm", f"{own}norm{i + 1}")
        if part == "feed_forward":
            table = {"wi": "linear1", "wo": "linear2", "wi_0": "gate", "wi_1": "up"}
            kind, names = "DenseReluDense", [*table.items(), ("wo", "down")]
        else:
            kind = "EncDecAttention" if part.startswith("cross") else "SelfAttention"
            names = [("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj")]
        for name, own_name in names:
            yield Same(f"{layer}{kind}.{name}", f"{own}{part}.{own_name}")


def _hidden_states(states):
    """Return the hidden states without the last layer's output, as in Hugging Face.

    In its place, the last entry is the final norm's output, which is the output of the encoder or
    decoder.
    """
    return None if states is None else (*states[:-2], states[-1])


def _encoded(outputs):
    """Convert the encoder's outputs from a dict or a tuple to a namespace."""
    if isinstance(outputs, dict):
        named = {name: outputs.get(name) for name in ("last_hidden_state", "hidden_states")}
        return SimpleNamespace(**named, attentions=outputs.get("attentions"))
    last, states, weights, *_ = (*outputs, None, None)
    return SimpleNamespace(last_hidden_state=last, hidden_states=states, attentions=weights)
