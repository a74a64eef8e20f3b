"""DETR with the Hugging Face interface; the model itself is in `models/detr.py`."""

import re

from ... import nn, ops
from ...errors import ArgumentError
from ...nn import init
from ..detr import DETR
from ..image_positions import mask_like
from ..set_loss import auxiliary_losses, total_loss
from .activations import activation
from .base import PretrainedModel
from .decoder import collecting, result
from .detr_backbone import backbone_config, backbone_names, make_backbone
from .names import Ignored, NameTable, Same
from .output import Output

__all__ = ["DetrForObjectDetection", "DetrModel"]

_DEFAULTS = dict(
    backbone_config=None, num_channels=3, num_queries=100, encoder_layers=6, encoder_ffn_dim=2048,
    encoder_attention_heads=8, decoder_layers=6, decoder_ffn_dim=2048, decoder_attention_heads=8,
    encoder_layerdrop=0.0, decoder_layerdrop=0.0, is_encoder_decoder=True,
    activation_function="relu", d_model=256, dropout=0.1, attention_dropout=0.0,
    activation_dropout=0.0, init_std=0.02, init_xavier_std=1.0, auxiliary_loss=False,
    position_embedding_type="sine", dilation=False, class_cost=1, bbox_cost=5, giou_cost=2,
    mask_loss_coefficient=1, dice_loss_coefficient=1, bbox_loss_coefficient=5,
    giou_loss_coefficient=2, eos_coefficient=0.1,
)  # fmt: skip
# Parts of parameter names in the files of transformers -> the corresponding parts in its classes.
_OLD = (
    (r"backbone\.conv_encoder\.", "backbone."),
    (r"(_attn)\.out_proj\.", r"\1.o_proj."),
    (r"(layers\.\d+)\.(fc\d)\.", r"\1.mlp.\2."),
)
_NEW = (
    (r"backbone\.model\.", "backbone.conv_encoder.model."),
    (r"(_attn)\.o_proj\.", r"\1.out_proj."),
    (r"(layers\.\d+)\.mlp\.(fc\d)\.", r"\1.\2."),
)
_ATTENTION = {"self_attn": "attention", "encoder_attn": "cross_attention"}


class DetrPreTrainedModel(PretrainedModel):
    """Base class of the DETR models.

    Attributes
    ----------
    as_classes : bool
        Whether the model is saved with the parameter names of the classes in transformers. If
        False, it is saved with the older names, which are used in published folders and in folders
        that transformers writes. Loading a folder sets this attribute, so that a loaded model is
        saved with the names that it was loaded with.
    """

    model_type = "detr"
    base_prefix = "model"
    defaults = _DEFAULTS
    aliases = {
        "hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads",
        "num_hidden_layers": "encoder_layers",
    }  # fmt: skip
    as_classes = False

    def build(self, config):
        name = type(self).__name__
        config.refuse(name, encoder_layerdrop=0.0, decoder_layerdrop=0.0)
        options = dict(
            dropout=config.dropout, attention_dropout=config.attention_dropout,
            ff_dropout=config.activation_dropout, activation=activation(config.activation_function),
        )  # fmt: skip
        self.backbone_fields = backbone_config(config)
        backbone = make_backbone(self.backbone_fields)
        self.detr = DETR(
            backbone, backbone.num_features, config.num_labels, config.num_queries, config.d_model,
            config.encoder_attention_heads, config.encoder_ffn_dim, config.encoder_layers,
            config.decoder_layers, positions=config.position_embedding_type,
            decoder_heads=config.decoder_attention_heads, decoder_ff_dim=config.decoder_ffn_dim,
            **options,
        )  # fmt: skip
        if self.is_base:
            self.detr.class_head = self.detr.box_head = None
        self.dropout = nn.Dropout(config.dropout)
        for module in self.modules():  # as Hugging Face initializes them
            if isinstance(module, nn.Linear):
                init.normal_(module.weight, std=config.init_std)
                init.zeros_(module.bias)

    def names(self):
        prefix = "" if self.is_base else "model."
        return NameTable(
            *backbone_names(self.backbone_fields, prefix + "backbone.model.", "detr.backbone."),
            Same(prefix + "query_position_embeddings", "detr.query_positions"),
            Same(prefix + "position_embedding.row_embeddings", "detr.positions.rows"),
            Same(prefix + "position_embedding.column_embeddings", "detr.positions.columns"),
            Same(prefix + "input_projection", "detr.projection"),
            *_layer_names(prefix + "encoder.layers.{}.", "detr.encoder.layers.{}."),
            *_layer_names(prefix + "decoder.layers.{}.", "detr.decoder.layers.{}."),
            Same(prefix + "decoder.layernorm", "detr.decoder.norm"),
            Same("class_labels_classifier", "detr.class_head"),
            Same("bbox_predictor", "detr.box_head"),
            Ignored("*.num_batches_tracked"),
        )

    def _with_expected_names(self, arrays, expected, table):
        renamed = {_renamed(name, _OLD): array for name, array in arrays.items()}
        self.as_classes = all(name in renamed for name in arrays)
        return super()._with_expected_names(renamed, expected, table)

    def peer_state(self):
        state = super().peer_state()
        return state if self.as_classes else {_renamed(k, _NEW): a for k, a in state.items()}

    def backbone_features(self, pixel_values, pixel_mask=None):
        """Return the last feature map (batch, channel, row, column), and its mask.

        The mask (batch, row, column) is True inside the image and False at padding.
        """
        features, mask = self.detr.backbone_features(pixel_values, pixel_mask)
        if mask is None:
            shape = (features.shape[0], *features.shape[2:])
            mask = ops.ones(*shape, dtype="bool", device=features.device)
        return features, mask

    def freeze_backbone(self):
        """Freeze all parameters of the backbone, so that training does not change them."""
        self.detr.backbone.requires_grad_(False)

    def unfreeze_backbone(self):
        """Make all parameters of the backbone trainable."""
        self.detr.backbone.requires_grad_(True)

    def tokens_of(self, pixel_values, pixel_mask, inputs_embeds):
        """Return (tokens, positions, mask) for the encoder, given images or embeddings."""
        if (pixel_values is None) == (inputs_embeds is None):
            raise ArgumentError(
                f"{type(self).__name__}: pixel_values or inputs_embeds must be given, and not both",
                got="neither" if pixel_values is None else "both",
            )
        if inputs_embeds is None:
            features, mask = self.detr.backbone_features(pixel_values, pixel_mask)
            tokens = self.detr.projection(features).flatten(2).transpose(1, 2)
            positions = self.detr.positions(features, mask)
        else:  # one embedding for each position of a square feature map
            tokens, side = inputs_embeds, int(inputs_embeds.shape[1] ** 0.5)
            features = ops.zeros(
                len(tokens), 1, side, side, dtype=tokens.dtype, device=tokens.device
            )
            positions = self.detr.positions(features)
            mask = None if pixel_mask is None else mask_like(pixel_mask, features)
        return tokens, positions, None if mask is None else mask.flatten(1)[:, None, None, :]

    def run(
        self, pixel_values, pixel_mask, decoder_attention_mask, encoder_outputs, inputs_embeds,
        decoder_inputs_embeds, output_attentions, output_hidden_states,
    ):  # fmt: skip
        """Run the model; return a dict of the base model's outputs."""
        flags = (output_attentions, output_hidden_states)
        tokens, positions, mask = self.tokens_of(pixel_values, pixel_mask, inputs_embeds)
        if encoder_outputs is None:
            encoder_outputs = self.encode(tokens, positions, mask, *flags)
        elif not isinstance(encoder_outputs, dict):
            names = ("last_hidden_state", "hidden_states", "attentions")
            encoder_outputs = Output(**dict(zip(names, encoder_outputs, strict=False)))
        queries = self.detr.query_positions.weight.unsqueeze(0)  # (1, query, embed)
        x = decoder_inputs_embeds
        if x is None:
            x = ops.zeros_like(queries).expand(tokens.shape[0], *queries.shape[1:])
        if decoder_attention_mask is not None:
            decoder_attention_mask = (decoder_attention_mask != 0)[:, None, None, :]
        memory = encoder_outputs["last_hidden_state"]
        places = (queries, positions, decoder_attention_mask, mask)
        found = self.decode(x, memory, places, *flags)
        found["encoder_last_hidden_state"] = memory
        for name in ("hidden_states", "attentions"):
            found["encoder_" + name] = encoder_outputs.get(name)
        return found

    def encode(self, tokens, positions, mask, output_attentions=None, output_hidden_states=None):
        """Run the encoder; return its Output."""
        encoder = self.detr.encoder
        x = self.dropout(tokens)
        with collecting(
            self.config, encoder, [*encoder.layers], output_attentions, output_hidden_states
        ) as found:
            last = encoder(x, positions, mask)
        return Output(last_hidden_state=last, **_collected(x, found, last))

    def decode(self, x, memory, places, output_attentions=None, output_hidden_states=None):
        """Run the decoder; return a dict of its outputs.

        With `config.auxiliary_loss`, each layer reads the normalized output of the previous layer,
        and the last layer's output is normalized twice, as in Hugging Face. In the paper's model, a
        layer reads the previous layer's output before normalization, and each output is normalized
        once.
        """
        decoder, first, states = self.detr.decoder, x, []
        with collecting(
            self.config, decoder, [*decoder.layers], output_attentions, output_hidden_states
        ) as found:
            for layer in decoder.layers:
                x = layer(x, memory, *places)
                if self.config.auxiliary_loss:
                    x = decoder.norm(x)
                    states.append(x)
        last = decoder.norm(x)
        found = _collected(first, found, last)
        weights = found["attentions"]
        return {
            "last_hidden_state": last,
            "decoder_hidden_states": found["hidden_states"],
            "decoder_attentions": None if weights is None else weights[::2],
            "cross_attentions": None if weights is None else weights[1::2],
            "intermediate_hidden_states": ops.stack(states) if states else None,
        }


class DetrModel(DetrPreTrainedModel):
    """DETR without prediction heads.

    Parameters
    ----------
    config : Config or dict

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> backbone = {"model_type": "resnet", "layer_type": "basic", "embedding_size": 4,
    ...             "hidden_sizes": [4, 6], "depths": [1, 1]}
    >>> model = DetrModel({"backbone_config": backbone, "num_queries": 7, "d_model": 8,
    ...     "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    ...     "decoder_attention_heads": 2, "encoder_ffn_dim": 5, "decoder_ffn_dim": 5})
    >>> model(mt.zeros(2, 3, 32, 40)).last_hidden_state.shape
    (2, 7, 8)
    """

    is_base = True

    def forward(
        self, pixel_values=None, pixel_mask=None, decoder_attention_mask=None,
        encoder_outputs=None, inputs_embeds=None, decoder_inputs_embeds=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Run the model. The arguments and outputs are the same as in Hugging Face.

        Parameters
        ----------
        pixel_values : Tensor of shape (batch, channel, height, width)
        pixel_mask : Tensor of shape (batch, height, width), optional
            1 for pixels of the image, 0 for padding.
        decoder_attention_mask : Tensor of shape (batch, query), optional
            0 for object queries that the other queries must not attend to.
        encoder_outputs : Output or tuple, optional
            Output of `encode`. If given, the encoder does not run.
        inputs_embeds : Tensor of shape (batch, key, embed), optional
            Encoder input to use instead of `pixel_values`, with one token for each position of a
            square feature map, row by row.
        decoder_inputs_embeds : Tensor of shape (batch, query, embed), optional
            Decoder input. Default: zeros.
        output_attentions, output_hidden_states, return_dict : bool, optional

        Returns
        -------
        Output
        """
        found = self.run(
            pixel_values, pixel_mask, decoder_attention_mask, encoder_outputs, inputs_embeds,
            decoder_inputs_embeds, output_attentions, output_hidden_states,
        )  # fmt: skip
        return result(return_dict, **found)


class DetrForObjectDetection(DetrPreTrainedModel):
    """DETR with heads for classes and boxes.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> backbone = {"model_type": "resnet", "layer_type": "basic", "embedding_size": 4,
    ...             "hidden_sizes": [4, 6], "depths": [1, 1]}
    >>> model = DetrForObjectDetection({"backbone_config": backbone, "num_queries": 7, "d_model": 8,
    ...     "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    ...     "decoder_attention_heads": 2, "encoder_ffn_dim": 5, "decoder_ffn_dim": 5})
    >>> targets = [{"class_labels": mt.tensor([1]), "boxes": mt.tensor([[0.5, 0.5, 0.2, 0.4]])}]
    >>> output = model(mt.zeros(1, 3, 32, 40), labels=targets)
    >>> output.logits.shape, output.pred_boxes.shape, output.loss.shape
    ((1, 7, 3), (1, 7, 4), ())
    """

    def forward(
        self, pixel_values=None, pixel_mask=None, decoder_attention_mask=None,
        encoder_outputs=None, inputs_embeds=None, decoder_inputs_embeds=None, labels=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Same as `DetrModel.forward`.

        Parameters
        ----------
        labels : list of dict, optional
            For each image, `class_labels` (target,) and `boxes` (target, 4) in center format,
            relative to the size of the image. The output then has `loss` and `loss_dict`.
        """
        found = self.run(
            pixel_values, pixel_mask, decoder_attention_mask, encoder_outputs, inputs_embeds,
            decoder_inputs_embeds, output_attentions, output_hidden_states,
        )  # fmt: skip
        logits, boxes = self.detr.predict(found["last_hidden_state"])
        states, losses = found.pop("intermediate_hidden_states"), {}
        if labels is not None:
            losses = self.losses(logits, boxes, states, labels)
        return result(return_dict, **losses, logits=logits, pred_boxes=boxes, **found)

    def losses(self, logits, boxes, states, labels):
        """Return a dict with the total loss, its terms, and the predictions of earlier layers."""
        config, auxiliary = self.config, None
        every = logits.unsqueeze(0), boxes.unsqueeze(0)  # (layer, batch, query, ...)
        if states is not None:
            before = self.detr.predict(states[:-1])
            every = [ops.cat([a, b]) for a, b in zip(before, every, strict=True)]
            keys = ("logits", "pred_boxes")
            auxiliary = [
                dict(zip(keys, pair, strict=True))
                for pair in zip(*[x.unbind(0) for x in before], strict=True)
            ]
        losses = auxiliary_losses(
            *every, labels, config.num_labels, config.eos_coefficient, config.class_cost,
            config.bbox_cost, config.giou_cost,
        )  # fmt: skip
        total = total_loss(losses, config.bbox_loss_coefficient, config.giou_loss_coefficient)
        return {"loss": total, "loss_dict": losses, "auxiliary_outputs": auxiliary}


def _layer_names(stored, ours):
    """Yield the `NameTable` entries of the layers of the encoder or the decoder.

    `stored` and `ours` are the prefixes of a layer's names in files and in our module, with `{}`
    for the layer's index.
    """
    for attention, own in _ATTENTION.items():
        yield Same(f"{stored}{attention}.o_proj", f"{ours}{own}.out_proj")
        yield Same(stored + attention, ours + own)
        yield Same(f"{stored}{attention}_layer_norm", f"{ours}around_{own}.norm")
    yield Same(stored + "mlp.fc1", ours + "feed_forward.linear1")
    yield Same(stored + "mlp.fc2", ours + "feed_forward.linear2")
    yield Same(stored + "final_layer_norm", ours + "around_feed_forward.norm")


def _renamed(name, rules):
    for pattern, new in rules:
        name = re.sub(pattern, new, name)
    return name


def _collected(first, found, last):
    """Return the hidden states, from input to normalized output, and the attention weights."""
    states = found.hidden_states
    states = None if states is None else (first, *states[:-1], last)
    return {"hidden_states": states, "attentions": found.attentions}
