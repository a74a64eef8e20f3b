"""What all classes of the T5 family share: names, configuration, and how the model is called."""

from types import SimpleNamespace

from ...autograd.modes import no_grad
from ...errors import ArgumentError
from ..t5 import T5, shift_right
from .activations import activation
from .base import PretrainedModel
from .decoder import cache_of, collecting, embeddings_of, result
from .encoder import encoder_mask
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
    """The paper's model under the peer's names, without a head.

    Attributes
    ----------
    prefix : str
        What the peer's names of the model's tensors begin with.
    decodes : bool
        Whether there is a decoder.
    predicts : bool
        Whether there is a head that names tokens.
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
        """Make what stands on top of the model; nothing, for the base models."""

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
        """What encodes: `model.get_encoder()(input_ids=, attention_mask=)`."""
        return self.encode

    def encode(
        self, input_ids=None, attention_mask=None, inputs_embeds=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """The encoder alone.

        Parameters
        ----------
        input_ids : int64 Tensor of shape (batch, token)
        attention_mask : Tensor, optional
            Of shape (batch, token), 1 = a token, 0 = padding; or (batch, query, key) with the
            same meaning; or bools that broadcast to (batch, heads, query, key). A token that may
            attend to nothing gets no context.
        inputs_embeds : Tensor of shape (batch, token, embed), optional
            Instead of `input_ids`.
        output_attentions, output_hidden_states, return_dict : bool, optional
            By default as the configuration says.

        Returns
        -------
        Output
            last_hidden_state, hidden_states, attentions.
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
        """(the vector of each token of the answer, what else the model returns by name)."""
        flags = (output_attentions, output_hidden_states)
        if (decoder_input_ids is None) == (decoder_inputs_embeds is None):
            raise ArgumentError(
                f"{type(self).__name__}: the decoder reads ids or embeddings.",
                got="neither" if decoder_input_ids is None else "both",
                expected="decoder_input_ids or decoder_inputs_embeds",
            )
        if encoder_outputs is None:
            encoder_outputs = self.encode(input_ids, attention_mask, inputs_embeds, *flags, True)
        encoded = _encoded(encoder_outputs)
        memory = encoded.last_hidden_state  # (batch, key, embed)
        x = embeddings_of(self.body.token_embedding, decoder_input_ids, decoder_inputs_embeds)
        cache, wanted = cache_of(self.config, past_key_values, use_cache)
        length = x.shape[1] + (0 if cache is None else cache.length)
        mask = encoder_mask(decoder_attention_mask, x.shape[0], length, "decoder_attention_mask")
        memory_mask = encoder_mask(attention_mask, *memory.shape[:2])
        stack = self.body.decoder
        states = [stack.dropout, *stack.layers]
        with collecting(self.config, stack, states, *flags) as found:
            x = stack(x, memory, mask, memory_mask, cache)
        weights = found.attentions  # of each layer to the answer, then to the text
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
        """What the decoder reads while it learns to write `ids`."""
        config, name = self.config, type(self).__name__
        for field in ("decoder_start_token_id", "pad_token_id"):
            if config.get(field) is None:
                raise ArgumentError(
                    f"{name}: what starts an answer, or fills it up, is not known.",
                    got=f"config.{field}=None",
                    expected="a token id; T5 starts with that of the padding, 0",
                )
        return shift_right(ids, config.decoder_start_token_id, config.pad_token_id)

    def result(self, return_dict, **results):
        """An Output, or a tuple where that is asked for."""
        wanted = self.config.get("return_dict", True) if return_dict is None else return_dict
        return result(wanted, **results)


def _is_tied(config):
    return config.tie_word_embeddings is not False


def _feed_forward(config):
    """(name of the activation, whether there is a gate) from "relu" or "gated-gelu"."""
    *gate, function = config.feed_forward_proj.split("-")
    if gate not in ([], ["gated"]):
        raise ArgumentError(
            "the configuration names a feed-forward layer that is not known.",
            got=f"feed_forward_proj={config.feed_forward_proj!r}",
            expected="the name of an activation, or gated- and such a name",
        )
    if config.feed_forward_proj == "gated-gelu":
        function = "gelu_new"  # the peer's name keeps what T5 1.1 was trained with
    return config.get("dense_act_fn", function), config.get("is_gated_act", bool(gate))


def _stack_names(peer, ours, parts):
    """The entries for the encoder or the decoder, whose layers have these parts."""
    first = f"{peer}.block.0.layer.0.SelfAttention.relative_attention_bias"
    yield Same(first, f"{ours}.position_bias.embedding")
    yield Same(f"{peer}.final_layer_norm", f"{ours}.norm")
    for i, part in enumerate(parts):
        own, layer = f"{ours}.layers.{{}}.", f"{peer}.block.{{}}.layer.{i}."
        yield Same(layer + "layer_norm", f"{own}norm{i + 1}")
        if part == "feed_forward":
            table = {"wi": "linear1", "wo": "linear2", "wi_0": "gate", "wi_1": "up"}
            kind, names = "DenseReluDense", [*table.items(), ("wo", "down")]
        else:
            kind = "EncDecAttention" if part.startswith("cross") else "SelfAttention"
            names = [("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj")]
        for theirs, mine in names:
            yield Same(f"{layer}{kind}.{theirs}", f"{own}{part}.{mine}")


def _hidden_states(states):
    """The input, what each layer but the last gives, and the output of the stack."""
    return None if states is None else (*states[:-2], states[-1])


def _encoded(outputs):
    """The encoder's results by name, from an Output or from a tuple in the peer's order."""
    if isinstance(outputs, dict):
        named = {name: outputs.get(name) for name in ("last_hidden_state", "hidden_states")}
        return SimpleNamespace(**named, attentions=outputs.get("attentions"))
    last, states, weights, *_ = (*outputs, None, None)
    return SimpleNamespace(last_hidden_state=last, hidden_states=states, attentions=weights)
