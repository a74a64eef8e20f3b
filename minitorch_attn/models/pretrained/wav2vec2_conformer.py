"""Wav2Vec2-Conformer with the Hugging Face interface; see `models/wav2vec2_conformer.py`."""

from ... import nn, ops
from ...errors import ArgumentError
from ...nn import functional as F
from ...nn import init
from ..wav2vec2_conformer import Wav2Vec2Conformer
from .activations import activation
from .base import PretrainedModel, missing_input
from .decoder import collecting, result
from .losses import token_loss
from .names import NameTable, Same
from .spans import draw_spans
from .wav2vec2_conformer_layer import DEFAULTS, Wav2Vec2ConformerEncoderLayer, block_names

__all__ = [
    "Wav2Vec2ConformerEncoderLayer", "Wav2Vec2ConformerForAudioFrameClassification",
    "Wav2Vec2ConformerForCTC", "Wav2Vec2ConformerForSequenceClassification",
    "Wav2Vec2ConformerModel",
]  # fmt: skip


class PositionConvolution(nn.Module):
    """Unused weight-normalized convolution, kept because published checkpoints contain it.

    In wav2vec 2.0, the output of this convolution encodes positions. Hugging Face's Conformer
    class contains the convolution's parameters but does not use them.
    """

    def __init__(self, config):
        super().__init__()
        width, kernel = config.hidden_size, config.num_conv_pos_embeddings
        groups = config.num_conv_pos_embedding_groups
        self.bias = nn.Parameter(ops.zeros(width))
        self.weight_g = nn.Parameter(ops.ones(1, 1, kernel))
        self.weight_v = nn.Parameter(ops.empty(width, width // groups, kernel))


class Wav2Vec2ConformerPreTrainedModel(PretrainedModel):
    """Base class for the Wav2Vec2-Conformer models."""

    model_type = "wav2vec2-conformer"
    base_prefix = "wav2vec2_conformer"
    defaults = DEFAULTS
    old_names = {  # names in PyTorch's old weight_norm
        ".conv.weight_g": ".conv.parametrizations.weight.original0",
        ".conv.weight_v": ".conv.parametrizations.weight.original1",
    }

    def build(self, config):
        layers = config.get("num_feat_extract_layers", len(config.conv_dim))
        config.refuse(type(self).__name__, num_feat_extract_layers=len(config.conv_dim))
        self.audio = Wav2Vec2Conformer(
            config.conv_dim[:layers], config.conv_kernel, config.conv_stride, config.hidden_size,
            config.num_attention_heads, config.intermediate_size, config.num_hidden_layers,
            config.conv_depthwise_kernel_size, positions=config.position_embeddings_type,
            rotary_base=config.rotary_embedding_base, feature_bias=config.conv_bias,
            feature_norm=config.feat_extract_norm, eps=config.layer_norm_eps,
            feature_activation=activation(config.feat_extract_activation),
            activation=activation(config.hidden_act), feature_dropout=config.feat_proj_dropout,
            dropout=config.hidden_dropout, inner_dropout=config.activation_dropout,
            attention_dropout=config.attention_dropout, layer_drop=config.layerdrop,
            convolution_dropout=config.conformer_conv_dropout, adapter=_adapter(config),
        )  # fmt: skip
        self.unused_positions = PositionConvolution(config)
        if config.mask_time_prob > 0 or config.mask_feature_prob > 0:
            self.mask_vector = nn.Parameter(ops.zeros(config.hidden_size))
        self.add_head(config)
        self.initialize()

    def add_head(self, config):
        """Create the head. A base model does not have a head."""

    def initialize(self):
        """Initialize the parameters as Hugging Face does."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                init.normal_(module.weight, std=self.config.initializer_range)
                if module.bias is not None:
                    init.zeros_(module.bias)
            elif isinstance(module, nn.Conv1d):
                init.kaiming_normal_(module.weight)
        bound = self.audio.projection.in_features**-0.5
        init.uniform_(self.audio.projection.weight, -bound, bound)
        init.uniform_(self.audio.projection.bias, -bound, bound)
        kernel, width = self.config.num_conv_pos_embeddings, self.config.hidden_size
        init.normal_(self.unused_positions.weight_v, std=2 * (kernel * width) ** -0.5)
        if hasattr(self, "mask_vector"):
            init.uniform_(self.mask_vector)

    # Parameter names

    def names(self):
        p = "" if self.is_base else self.base_prefix + "."
        convolution, unused = p + "encoder.pos_conv_embed.conv.", "unused_positions."
        layer, ours = p + "feature_extractor.conv_layers.{}.", "audio.features.layers.{}."
        return NameTable(
            Same(layer + "conv", ours + "conv"),
            Same(layer + "layer_norm", ours + "norm"),
            Same(p + "feature_projection.layer_norm", "audio.feature_norm"),
            Same(p + "feature_projection.projection", "audio.projection"),
            Same(p + "masked_spec_embed", "mask_vector"),
            Same(convolution + "bias", unused + "bias"),
            Same(convolution + "parametrizations.weight.original0", unused + "weight_g"),
            Same(convolution + "parametrizations.weight.original1", unused + "weight_v"),
            Same(p + "encoder.embed_positions.inv_freq", "audio.frequencies"),
            *block_names(p + "encoder.layers.{}.", "audio.blocks.{}."),
            Same(p + "encoder.layer_norm", "audio.norm"),
            Same(p + "adapter.proj", "audio.adapter.proj"),
            Same(p + "adapter.proj_layer_norm", "audio.adapter.norm"),
            Same(p + "adapter.layers.{}.conv", "audio.adapter.layers.{}"),
        )

    # Forward pass

    def run(
        self, input_values, attention_mask, mask_time_indices, output_attentions,
        output_hidden_states,
    ):  # fmt: skip
        """Return (frames after the adapter, normalized features, dict of other outputs)."""
        if input_values is None:
            raise missing_input(self, "input_values", "pass the waveforms, (batch, sample)")
        audio = self.audio
        x, features = audio.embed(input_values.to(dtype=audio.projection.weight.dtype))
        frames = self.frames_of(attention_mask, x.shape[1])
        x = self.hide(x, mask_time_indices, frames)
        flags = output_attentions, output_hidden_states
        with collecting(self.config, audio.blocks, list(audio.blocks), *flags) as found:
            padding = None if frames is None else ~frames
            x = audio.enter(x, padding)
            last = audio.encode(x, padding)
        if found.hidden_states is not None:
            found.hidden_states = (x, *found.hidden_states)
        last = last if audio.adapter is None else audio.adapter(last)
        return last, features, vars(found)

    def output_lengths(self, lengths, add_adapter=None):
        """Return the number of frames that waveforms of `lengths` samples produce."""
        config, lengths = self.config, self.audio.features.output_lengths(lengths)
        if config.add_adapter if add_adapter is None else add_adapter:
            for _ in range(config.num_adapter_layers):
                lengths = (lengths - 1) // config.adapter_stride + 1
        return lengths

    def frames_of(self, attention_mask, frames, add_adapter=False):
        """Convert a mask of the samples to a mask of the frames, with shape (batch, frame).

        The result is False at padding, or None if `attention_mask` is None.
        """
        if attention_mask is None:
            return None
        lengths = self.output_lengths((attention_mask != 0).sum(-1), add_adapter)
        last = (lengths - 1) % frames  # the last frame if the length is 0, as in Hugging Face
        return ops.arange(frames, device=last.device) <= last.unsqueeze(-1)

    def hide(self, x, mask_time_indices, frames):
        """Apply SpecAugment: replace masked frames by the mask vector, and masked features by 0."""
        config = self.config
        if not config.apply_spec_augment:
            return x
        batch, count, width = x.shape
        time = mask_time_indices
        if time is None and self.training and config.mask_time_prob > 0:
            lengths = [count] * batch if frames is None else frames.sum(-1).tolist()
            time = draw_spans(
                lengths, count, config.mask_time_prob, config.mask_time_length,
                config.mask_time_min_masks, x.device,
            )  # fmt: skip
        if time is not None:
            if not hasattr(self, "mask_vector"):
                raise ArgumentError(
                    "mask_time_indices must be None for a model without a mask vector",
                    got="config.mask_time_prob=0 and config.mask_feature_prob=0",
                )
            x = ops.where((time != 0).unsqueeze(-1), self.mask_vector.to(x.dtype), x)
        if self.training and config.mask_feature_prob > 0:
            masked = draw_spans(
                [width] * batch, width, config.mask_feature_prob, config.mask_feature_length,
                config.mask_feature_min_masks, x.device,
            )  # fmt: skip
            x = x.masked_fill(masked.unsqueeze(1), 0.0)
        return x


def _adapter(config):
    """Return the arguments of the adapter, or None if the model does not have an adapter."""
    if not config.add_adapter:
        return None
    return dict(
        output_dim=config.output_hidden_size or config.hidden_size, layer_drop=config.layerdrop,
        num_layers=config.num_adapter_layers, kernel_size=config.adapter_kernel_size,
        stride=config.adapter_stride,
    )  # fmt: skip


class Wav2Vec2ConformerModel(Wav2Vec2ConformerPreTrainedModel):
    """Wav2Vec2-Conformer encoder: returns one vector for each frame of a waveform.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = Wav2Vec2ConformerModel({"conv_dim": [4, 4], "conv_kernel": [5, 3],
    ...     "conv_stride": [3, 2], "hidden_size": 6, "num_attention_heads": 3,
    ...     "num_hidden_layers": 1, "intermediate_size": 8, "num_conv_pos_embedding_groups": 2,
    ...     "conv_depthwise_kernel_size": 3}).eval()
    >>> model(mt.randn(2, 50)).last_hidden_state.shape
    (2, 7, 6)
    """

    is_base = True

    def forward(
        self, input_values=None, attention_mask=None, mask_time_indices=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the hidden states of waveforms and the other outputs, as in Hugging Face.

        Parameters
        ----------
        input_values : Tensor of shape (batch, sample)
            Waveforms.
        attention_mask : Tensor of shape (batch, sample), optional
            1 for samples, 0 for padding at the end.
        mask_time_indices : bool Tensor of shape (batch, frame), optional
            True for frames to replace by the mask vector.
        output_attentions, output_hidden_states, return_dict : bool, optional
        """
        last, features, others = self.run(
            input_values, attention_mask, mask_time_indices, output_attentions,
            output_hidden_states,
        )  # fmt: skip
        return result(
            return_dict, last_hidden_state=last, extract_features=features,
            hidden_states=others["hidden_states"], attentions=others["attentions"],
        )  # fmt: skip


class Wav2Vec2ConformerForCTC(Wav2Vec2ConformerPreTrainedModel):
    """Wav2Vec2-Conformer for CTC: a linear layer computes the label logits of each frame."""

    def add_head(self, config):
        if config.vocab_size is None:
            raise ArgumentError(
                "Wav2Vec2ConformerForCTC: config.vocab_size is missing",
                got="None", hint="set it to the number of labels, including the blank",
            )  # fmt: skip
        width = config.output_hidden_size if config.add_adapter else None
        self.dropout = nn.Dropout(config.final_dropout)
        self.lm_head = nn.Linear(width or config.hidden_size, config.vocab_size)

    def forward(
        self, input_values=None, attention_mask=None, labels=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the logits and, with labels, the CTC loss, as in Hugging Face.

        Parameters
        ----------
        labels : int64 Tensor of shape (batch, label), optional
            Label ids. Entries equal to -100 or `config.pad_token_id` (the blank) are ignored.
        """
        last, _, others = self.run(
            input_values, attention_mask, None, output_attentions, output_hidden_states
        )
        logits = self.lm_head(self.dropout(last))  # (batch, frame, vocabulary)
        loss = None
        if labels is not None:
            loss = self._loss(logits, labels, input_values, attention_mask)
        return result(
            return_dict, loss=loss, logits=logits, hidden_states=others["hidden_states"],
            attentions=others["attentions"],
        )  # fmt: skip

    def _loss(self, logits, labels, input_values, attention_mask):
        config = self.config
        mask = attention_mask
        if mask is None:
            mask = ops.ones(input_values.shape, dtype="int64", device=input_values.device)
        given = (labels != -100) & (labels != config.pad_token_id)
        logits = logits.float() if logits.dtype.itemsize < 4 else logits
        return F.ctc_loss(
            F.log_softmax(logits, -1).transpose(0, 1), labels[given],
            self.output_lengths((mask != 0).sum(-1)), given.sum(-1), blank=config.pad_token_id,
            reduction=config.ctc_loss_reduction, zero_infinity=config.ctc_zero_infinity,
        )  # fmt: skip


class _WeightedLayers(Wav2Vec2ConformerPreTrainedModel):
    """Base class for heads that read the last output or a weighted mean of the hidden states."""

    def add_weights(self, config):
        """Create one weight per hidden state if `config.use_weighted_layer_sum` is set."""
        config.refuse(type(self).__name__, add_adapter=False)
        if config.use_weighted_layer_sum:
            count = config.num_hidden_layers + 1
            self.layer_weights = nn.Parameter(ops.full((count,), 1.0 / count))

    def weighted(self, input_values, attention_mask, output_attentions, output_hidden_states):
        """Return (last output or weighted mean of the hidden states, dict of the other outputs)."""
        wants = output_hidden_states
        wants = self.config.get("output_hidden_states", False) if wants is None else wants
        needs = self.config.use_weighted_layer_sum
        last, _, others = self.run(
            input_values, attention_mask, None, output_attentions, wants or needs
        )
        if needs:
            hidden = ops.stack(others["hidden_states"], 1)  # (batch, layer, frame, embed)
            weights = F.softmax(self.layer_weights, -1)
            last = (hidden * weights.reshape(-1, 1, 1)).sum(1)
        return last, others if wants else {**others, "hidden_states": None}


class Wav2Vec2ConformerForSequenceClassification(_WeightedLayers):
    """Wav2Vec2-Conformer with a linear classifier on the mean of the frames."""

    def add_head(self, config):
        self.add_weights(config)
        self.projector = nn.Linear(config.hidden_size, config.classifier_proj_size)
        self.classifier = nn.Linear(config.classifier_proj_size, config.num_labels)

    def forward(
        self, input_values=None, attention_mask=None, labels=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the logits and, with labels (batch,), the loss, as in Hugging Face."""
        flags = output_attentions, output_hidden_states
        x, others = self.weighted(input_values, attention_mask, *flags)
        x = self.projector(x)  # (batch, frame, projection)
        frames = self.frames_of(attention_mask, x.shape[1])
        if frames is None:
            pooled = x.mean(1)
        else:
            pooled = x.masked_fill(~frames.unsqueeze(-1), 0.0).sum(1)
            pooled = pooled / frames.sum(1).unsqueeze(-1).to(x.dtype)
        logits = self.classifier(pooled)
        loss = None if labels is None else token_loss(logits, labels)
        return result(return_dict, loss=loss, logits=logits, **others)


class Wav2Vec2ConformerForAudioFrameClassification(_WeightedLayers):
    """Wav2Vec2-Conformer with a linear classifier on each frame."""

    def add_head(self, config):
        self.add_weights(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(
        self, input_values=None, attention_mask=None, labels=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the logits and, with one-hot labels (batch, frame, class), the loss."""
        flags = output_attentions, output_hidden_states
        x, others = self.weighted(input_values, attention_mask, *flags)
        logits = self.classifier(x)
        loss = None
        if labels is not None:
            loss = token_loss(logits, labels.reshape(-1, logits.shape[-1]).argmax(1))
        return result(return_dict, loss=loss, logits=logits, **others)
