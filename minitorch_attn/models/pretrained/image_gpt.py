"""Image GPT with the Hugging Face interface; the model itself is in `models/image_gpt.py`."""

from ... import nn
from ..image_gpt import ImageGPT
from .activations import activation
from .decoder import attention_mask_of, result
from .decoder_heads import NextToken
from .gpt2 import GPT2PreTrainedModel, GPT2TokenVectors, _refuse_memory
from .losses import classification_loss

__all__ = ["ImageGPTForCausalImageModeling", "ImageGPTForImageClassification", "ImageGPTModel"]

_DEFAULTS = dict(
    vocab_size=513, n_positions=1024, n_embd=512, n_layer=24, n_head=8, n_inner=None,
    activation_function="quick_gelu", resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1,
    layer_norm_epsilon=1e-5, initializer_range=0.02, scale_attn_weights=True, use_cache=True,
    tie_word_embeddings=False, scale_attn_by_inverse_layer_idx=False,
    reorder_and_upcast_attn=False, add_cross_attention=False, pad_token_id=None,
    bos_token_id=None, eos_token_id=None,
)  # fmt: skip


class ImageGPTPreTrainedModel(GPT2PreTrainedModel):
    """Base class for the Image GPT models: creates their Transformer and their padding masks."""

    model_type = "imagegpt"
    defaults = _DEFAULTS

    def make_body(self, config):
        body = ImageGPT(
            config.vocab_size - 1, config.n_positions, config.n_embd, config.n_head,
            config.n_layer, ff_dim=config.n_inner, dropout=config.resid_pdrop,
            activation=activation(config.activation_function),
            norm_eps=config.layer_norm_epsilon,
        )  # fmt: skip
        if not self.predicts:
            body.head = nn.Identity()
        elif config.tie_word_embeddings:  # if tied, the start token also has a logit
            body.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
            body.head.weight = body.token_embedding.weight
        else:
            self.initialize_head(body.head)
        return body

    def mask_of(self, attention_mask, position_ids, x, past):
        """Return the padding mask, or None without `attention_mask`.

        Unlike GPT-2, this model does not use `position_ids` to detect several sequences that
        share a row of the batch.
        """
        if attention_mask is None:
            return None
        flat = attention_mask.reshape(x.shape[0], -1)
        return attention_mask_of(flat, position_ids, x, past)


class ImageGPTModel(GPT2TokenVectors, ImageGPTPreTrainedModel):
    """Image GPT without a head: returns one vector for each pixel.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = ImageGPTModel({"vocab_size": 11, "n_embd": 6, "n_layer": 1, "n_head": 2}).eval()
    >>> model(mt.tensor([[10, 2, 3]])).last_hidden_state.shape
    (1, 3, 6)
    """


class ImageGPTForCausalImageModeling(NextToken, ImageGPTPreTrainedModel):
    """Image GPT that predicts the next pixel.

    The ids 0 to vocab_size - 2 are color clusters, and the last id is the start token. There are
    vocab_size - 1 logits.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> config = {"vocab_size": 11, "n_embd": 6, "n_layer": 1, "n_head": 2}
    >>> model = ImageGPTForCausalImageModeling(config).eval()
    >>> model(mt.tensor([[10, 2, 3]])).logits.shape
    (1, 3, 10)
    """

    def forward(
        self, input_ids=None, past_key_values=None, attention_mask=None, token_type_ids=None,
        position_ids=None, inputs_embeds=None, encoder_hidden_states=None,
        encoder_attention_mask=None, labels=None, use_cache=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Same as `NextToken.forward`, with the argument order of `GPT2Model.forward`."""
        _refuse_memory(encoder_hidden_states, encoder_attention_mask)
        return super().forward(
            input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, labels,
            use_cache, 0, output_attentions, output_hidden_states, return_dict,
            token_type_ids=token_type_ids,
        )  # fmt: skip


class ImageGPTForImageClassification(ImageGPTPreTrainedModel):
    """Image GPT with a linear classifier on the mean of the pixel vectors."""

    def build(self, config):
        super().build(config)
        self.score = self.initialize_head(nn.Linear(config.n_embd, config.num_labels, bias=False))

    def forward(
        self, input_ids=None, past_key_values=None, attention_mask=None, token_type_ids=None,
        position_ids=None, inputs_embeds=None, labels=None, use_cache=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the logits and, with labels, the loss, as in Hugging Face.

        The other arguments are the same as for `GPT2Model.forward`.

        Parameters
        ----------
        labels : Tensor of shape (batch,), optional
            Labels of the images; see `losses.classification_loss`.
        """
        x, more = self.run(
            input_ids, attention_mask, position_ids, past_key_values, inputs_embeds, use_cache,
            output_attentions, output_hidden_states, token_type_ids,
        )  # fmt: skip
        logits = self.score(x.mean(1))  # (batch, labels)
        loss = None if labels is None else classification_loss(self.config, logits, labels)
        return result(return_dict, loss=loss, logits=logits, **more)
