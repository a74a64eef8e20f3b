"""timm interface: the base class, which reads `config.json`, and the classifier head."""

from types import SimpleNamespace

from ... import nn, ops
from ...errors import ArgumentError
from ...nn import functional as F
from .activations import activation
from .base import PretrainedModel
from .config_fields import check_timm

__all__ = ["ClassifierHead", "TimmModel", "class_among", "timm_activation"]

# timm's activation functions that Hugging Face lacks or gives a different name.
_ACTIVATIONS = {
    "celu": F.celu, "elu": F.elu, "gelu_tanh": activation("gelu_pytorch_tanh"),
    "hard_sigmoid": F.hardsigmoid, "hard_swish": F.hardswish, "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish, "identity": activation("linear"), "selu": F.selu,
}  # fmt: skip


def timm_activation(name):
    """Return the activation function named by timm's `act_layer`."""
    return _ACTIVATIONS[name] if name in _ACTIVATIONS else activation(name)


def class_among(classes, architecture, name=None):
    """Return the first of `classes` that supports a timm architecture.

    Parameters
    ----------
    classes : sequence of class
        Subclasses of `TimmModel`.
    architecture : str
        Architecture name in timm, which may end in a tag.
    name : str, optional
        Name to look up. Default: `architecture` without its tag.

    Returns
    -------
    class

    Raises
    ------
    ArgumentError
        If none of the classes supports the architecture.
    """
    name = architecture.partition(".")[0] if name is None else name
    for cls in classes:
        if name in cls.entry_points:
            return cls
    raise ArgumentError(
        f"timm architecture {architecture!r} is not supported",
        expected=f"one of {', '.join(key for cls in classes for key in cls.entry_points)}",
    )


class TimmModel(PretrainedModel):
    """Base class for models with the timm interface, created from a timm `config.json`.

    Attributes
    ----------
    entry_points : dict
        Arguments of each architecture, as timm's functions set them. The keys are the names of the
        architectures.
    arguments : dict
        Argument names of timm's class, with their default values.
    """

    entry_points = {}
    arguments = {}

    @classmethod
    def checked_config(cls, fields, where, error):
        """Return the configuration with the given fields, after checking their types."""
        config = super().checked_config(fields, where, error)
        check_timm(config, cls.arguments, where, error)
        return config

    def build(self, config):
        self.make(SimpleNamespace(**self.read_arguments(config)))

    def make(self, args):
        """Create the modules from timm's arguments. Subclasses must override this method."""
        raise NotImplementedError

    def read_arguments(self, config):
        """Return timm's arguments: defaults, overridden by the architecture and `config.json`."""
        name = config.get("architecture", "").partition(".")[0]
        class_among((type(self),), name)
        given = dict(config.get("model_args") or {})
        unknown = sorted(set(given) - set(self.arguments))
        if unknown:
            raise ArgumentError(
                f"{name}: some model_args in config.json are not supported",
                got=", ".join(f"{key}={given[key]!r}" for key in unknown),
                expected=f"arguments among {', '.join(self.arguments)}",
            )
        about = config.get("pretrained_cfg") or config.to_dict()
        entry = dict(self.entry_points[name])
        if "input_size" in about:  # replaces the architecture's image size
            entry.pop("img_size", None)
        return {**self.arguments, **entry, **_described(config, about), **given}

    def _describe(self, fields, arrays):
        """Remove from `fields` what timm does not write to `config.json`."""
        for name in ("model_type", "architectures", "dtype", "torch_dtype"):
            fields.pop(name, None)

    def forward(self, x):
        """Compute logits: (batch, channel, height, width) -> (batch, class)."""
        return self.forward_head(self.forward_features(x))


def _described(config, about):
    """Return the arguments that `pretrained_cfg` in `config.json` specifies."""
    found, size = {}, about.get("input_size")
    classes = config.get("num_classes", about.get("num_classes"))
    if classes is not None and classes >= 0:
        found["num_classes"] = classes
    if about.get("global_pool") is not None:
        found["global_pool"] = about["global_pool"]
    if size is not None:
        found["in_chans"] = size[0]
        if about.get("fixed_input_size"):
            found["img_size"] = tuple(size[-2:])
    return found


class ClassifierHead(nn.Module):
    """Pool a feature map over its positions, then apply a linear layer.

    Parameters
    ----------
    embed_dim, num_classes : int
        Number of channels and of classes. With 0 classes, the head returns the pooled features.
    pool : str
        Pooling: "avg", "max", "avgmax" (mean of both), "catavgmax" (both concatenated), or "" for
        no pooling. A prefix "fast" is ignored.
    dropout : float
        Dropout probability applied to the pooled features.
    """

    def __init__(self, embed_dim, num_classes, pool="avg", dropout=0.0):
        super().__init__()
        self.pool = pool.lower().removeprefix("fast") if pool else ""
        if pool and not self.pool:
            self.pool = "avg"
        if self.pool not in ("", "avg", "max", "avgmax", "catavgmax"):
            raise ArgumentError(
                "global_pool in the configuration is not supported",
                got=repr(pool), expected="avg, max, avgmax, catavgmax or ''",
            )  # fmt: skip
        width = 2 * embed_dim if self.pool == "catavgmax" else embed_dim
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, num_classes) if num_classes > 0 else nn.Identity()

    def forward(self, x, pre_logits=False):
        # x: (batch, height, width, embed)
        pooled = self.dropout(self._pooled(x))  # (batch, embed)
        return pooled if pre_logits else self.linear(pooled)

    def _pooled(self, x):
        if self.pool in ("", "avg"):
            return x.mean((1, 2)) if self.pool else x
        largest = x.amax((1, 2))
        if self.pool == "max":
            return largest
        mean = x.mean((1, 2))
        return 0.5 * (mean + largest) if self.pool == "avgmax" else ops.cat([mean, largest], 1)
