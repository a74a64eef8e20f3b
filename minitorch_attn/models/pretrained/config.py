"""Model configuration: the fields of `config.json`, with Hugging Face's defaults."""

import json

from ...errors import ArgumentError
from ...files import atomic_file

__all__ = ["Config", "write_json"]


class Config:
    """The fields of a `config.json` as attributes.

    A field missing from the file takes its value from `defaults`. An alias is another name for a
    field.

    Parameters
    ----------
    fields : dict or Config
        Fields of the file.
    defaults : dict, optional
        Default values of omitted fields.
    aliases : dict, optional
        Field name of each alias, such as {"hidden_size": "n_embd"}.

    Examples
    --------
    >>> config = Config({"n_embd": 6}, {"n_embd": 768, "n_layer": 12}, {"hidden_size": "n_embd"})
    >>> config.hidden_size, config.n_layer
    (6, 12)
    """

    def __init__(self, fields, defaults=None, aliases=None):
        given = fields.to_dict() if isinstance(fields, Config) else dict(fields)
        aliases = dict(aliases or {})
        given = {aliases.get(name, name): value for name, value in given.items()}
        vars(self).update(_fields=given, _defaults=dict(defaults or {}), _aliases=aliases)

    def __getattr__(self, name):
        own = vars(self)
        if name.startswith("__") or "_fields" not in own:  # copy and pickle do not call __init__
            raise AttributeError(name)
        name = own["_aliases"].get(name, name)
        for values in (own["_fields"], own["_defaults"]):
            if name in values:
                return values[name]
        if name == "num_labels":
            labels = self.get("id2label")
            return 2 if labels is None else len(labels)
        raise AttributeError(f"this configuration has no field {name!r}")

    def __setattr__(self, name, value):
        self._fields[self._aliases.get(name, name)] = value

    def __contains__(self, name):
        return hasattr(self, name)

    def __eq__(self, other):
        return isinstance(other, Config) and self.to_dict() == other.to_dict()

    def __repr__(self):
        return f"Config({self._fields!r})"

    def get(self, name, default=None):
        """Return the value of a field, or `default` if the field has no value."""
        return getattr(self, name, default)

    def to_dict(self):
        """Return the fields that were given or set, without the defaults, for `config.json`."""
        return dict(self._fields)

    def refuse(self, model, **unsupported):
        """Raise an ArgumentError if a field does not have the one value that the model supports.

        Parameters
        ----------
        model : str
            Class name for the error message.
        **unsupported
            Field names, each with the only value that the model supports.
        """
        for name, only in unsupported.items():
            if self.get(name, only) != only:
                raise ArgumentError(
                    f"{model}: the value of config.{name} is not supported",
                    got=f"{name}={self.get(name)!r}", expected=f"{name}={only!r}",
                )  # fmt: skip


def write_json(path, value):
    """Write an object as JSON. A crash leaves the previous file intact."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    with atomic_file(path) as file:
        file.write(text.encode() + b"\n")
