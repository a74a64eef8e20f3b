"""What timm's models share: the arguments of a hub folder's `config.json`, and the head."""

from types import SimpleNamespace

from ... import nn, ops
from ...errors import ArgumentError
from ...nn import functional as F
from .activations import activation
from .base import PretrainedModel

__all__ = ["ClassifierHead", "TimmFace", "timm_activation"]

# timm's names of activations that have another one elsewhere, or none.
_ACTIVATIONS = {
    "celu": F.celu,
    "elu": F.elu,
    "gelu_tanh": activation("gelu_pytorch_tanh"),
    "hard_sigmoid": F.hardsigmoid,
    "hard_swish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "identity": activation("linear"),
    "selu": F.selu,
}


def timm_activation(name):
    """The function that timm's `act_layer` names."""
    return _ACTIVATIONS[name] if name in _ACTIVATIONS else activation(name)


class TimmFace(PretrainedModel):
    """A model in timm's hub layout: `architecture`, `model_args` and `pretrained_cfg`.

    Attributes
    ----------
    entry_points : dict
        Name of an architecture -> the arguments that timm's function of that name gives.
    arguments : dict
        The arguments of timm's class and their defaults.
    """

    entry_points = {}
    arguments = {}

    def build(self, config):
        self.make(SimpleNamespace(**self.read_arguments(config)))

    def make(self, args):
        """Make the modules from timm's arguments; subclasses define it."""
        raise NotImplementedError

    def read_arguments(self, config):
        """All arguments of timm's class: its defaults, those of the architecture, the file's."""
        name = config.get("architecture", "").partition(".")[0]
        if name not in self.entry_points:
            raise ArgumentError(
                f"there is no architecture {name!r} of timm here.",
                expected=f"one of {', '.join(self.entry_points)}",
            )
        given = dict(config.get("model_args") or {})
        unknown = sorted(set(given) - set(self.arguments))
        if unknown:
            raise ArgumentError(
                f"{name}: config.json has model_args that are not supported.",
                got=", ".join(f"{key}={given[key]!r}" for key in unknown),
                expected=f"some of {', '.join(self.arguments)}",
            )
        about = config.get("pretrained_cfg") or config.to_dict()
        entry = dict(self.entry_points[name])
        if "input_size" in about:  # then the architecture's own size does not count
            entry.pop("img_size", None)
        return {**self.arguments, **entry, **_described(config, about), **given}

    def _describe(self, fields, arrays):
        """timm's `config.json` names neither a model_type nor a class."""
        for name in ("model_type", "architectures", "dtype", "torch_dtype"):
            fields.pop(name, None)

    def forward(self, x):
        """Logits of images, (batch, channel, height, width) to (batch, class)."""
        return self.forward_head(self.forward_features(x))


def _described(config, about):
    """Arguments that follow from what `config.json` says about the weights."""
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
    """Pool a map over its places, then a linear layer.

    Parameters
    ----------
    embed_dim, num_classes : int
        Without classes the pooled features are the result.
    pool : str
        "avg", "max", "avgmax" (their mean), "catavgmax" (both), or "" for none; "fast" before it
        changes nothing.
    dropout : float
    """

    def __init__(self, embed_dim, num_classes, pool="avg", dropout=0.0):
        super().__init__()
        self.pool = pool.lower().removeprefix("fast") if pool else ""
        if pool and not self.pool:
            self.pool = "avg"
        if self.pool not in ("", "avg", "max", "avgmax", "catavgmax"):
            raise ArgumentError(
                "the configuration names a global_pool that is not known.",
                got=repr(pool),
                expected="avg, max, avgmax, catavgmax or ''",
            )
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
