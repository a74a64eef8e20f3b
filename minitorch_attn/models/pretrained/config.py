"""The configuration of a model: `config.json`, completed by the defaults of the peer."""

import json

from ...errors import ArgumentError, CheckpointError
from ...files import atomic_file, read_error

__all__ = ["Config", "read_json", "write_json"]


class Config:
    """The fields of a `config.json` as attributes.

    A field that the file leaves out has the peer's default; a name that the peer keeps for an
    older one means the same field.

    Parameters
    ----------
    fields : dict or Config
        What the file says.
    defaults : dict, optional
        The peer's values of fields that are left out.
    aliases : dict, optional
        Other names of fields, such as {"hidden_size": "n_embd"}.

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
        if name.startswith("__") or "_fields" not in own:  # copy and pickle look before __init__
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
        """The value of a field, or `default` where neither the file nor the peer has one."""
        return getattr(self, name, default)

    def to_dict(self):
        """What to write into a `config.json`: the fields that were given or set."""
        return dict(self._fields)

    def refuse(self, model, **unsupported):
        """Raise if a field has another value than the only one that is supported.

        Parameters
        ----------
        model : str
            Who asks, for the error.
        **unsupported
            Name of a field = its only value.
        """
        for name, only in unsupported.items():
            if self.get(name, only) != only:
                raise ArgumentError(
                    f"{model}: config.{name} has a value that is not supported.",
                    got=f"{name}={self.get(name)!r}",
                    expected=f"{name}={only!r}",
                )


def read_json(path):
    """The object in a JSON file, or a CheckpointError that says what is wrong with it."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except OSError as error:
        raise read_error(path, error) from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON.", got=str(error)) from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds no JSON object.", got=type(value).__name__)
    return value


def write_json(path, value):
    """Write an object as JSON, so that a crash leaves what was there before."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    with atomic_file(path) as file:
        file.write(text.encode() + b"\n")
