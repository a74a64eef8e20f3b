"""PretrainedModel: a folder in, a model out, and back."""

import warnings
from pathlib import Path

from ... import nn
from ...backend import as_dtype
from ...errors import CheckpointError
from ...nn.init import skip_init
from ...tensor import wrap
from .config import Config, read_json, write_json
from .folder import check_tensors, make_folder, read_config, read_tensors, write_tensors
from .names import NameTable

__all__ = ["PretrainedModel"]


class PretrainedModel(nn.Module):
    """A model with the face that users of its published weights know.

    A family subclasses it once for each head. The mathematics is in `models/`; here are the names
    of the peer's tensors, arguments and results.

    Attributes
    ----------
    config : Config
    generation_config : dict
        The fields of `generation_config.json`, if the folder had one.
    model_type : str
        As in `config.json`.
    defaults, aliases : dict
        The peer's values of fields that a `config.json` leaves out; other names of fields.
    base_prefix : str
        What the peer's tensors of the base model begin with inside a model with a head.
    is_base : bool
        This class is the base model, whose tensors have no such prefix.
    old_names : dict
        Endings of names in old files, and what they are called now.
    may_be_missing : tuple of str
        Endings of names of buffers that a file may leave out, as they start with the right values.
    """

    model_type = ""
    defaults = {}
    aliases = {}
    base_prefix = ""
    is_base = False
    old_names = {}
    may_be_missing = ()

    def __init__(self, config):
        super().__init__()
        fields = config.to_dict() if isinstance(config, Config) else config
        self.config = Config(fields, self.defaults, self.aliases)
        self.generation_config = {}
        self.build(self.config)

    def build(self, config):
        """Make the modules; subclasses define it.

        Parameters
        ----------
        config : Config
        """
        raise NotImplementedError

    def names(self):
        """The table of the peer's names for this class; subclasses define it.

        Returns
        -------
        NameTable
        """
        return NameTable()

    def tied(self):
        """The peer's names of tensors that are another one: {alias: the name it is stored under}.

        A file may have them or leave them out.
        """
        return {}

    # Folder in

    @classmethod
    def from_pretrained(cls, folder, dtype=None, device=None, strict=True):
        """The model of a folder with `config.json` and `model.safetensors`, in eval mode.

        Parameters
        ----------
        folder : str or path
        dtype : dtype, optional
            Of all parameters; by default as stored (bfloat16 becomes float32).
        device : str or Device, optional
        strict : bool, default True
            Refuse missing and extra tensors. Otherwise missing ones keep their initial values,
            as for a new head, and a warning lists both.

        Raises
        ------
        CheckpointError
            With every tensor that is missing, extra, of another shape, or cut off.
        """
        folder = Path(folder)
        return cls.from_arrays(
            read_config(folder), read_tensors(folder), folder, dtype, device, strict
        )

    @classmethod
    def from_arrays(cls, fields, arrays, folder="the state", dtype=None, device=None, strict=True):
        """The model of a configuration and the peer's arrays; as `from_pretrained`."""
        model = cls._unloaded(fields, strict)
        if model._stored_apart(arrays) and fields.get("tie_word_embeddings") is not False:
            model = cls._unloaded({**fields, "tie_word_embeddings": False}, strict)
        model._load(folder, arrays, dtype, strict)
        dtype = _stored_dtype(arrays) if dtype is None else as_dtype(dtype)
        if dtype is not None:
            model.to(dtype)  # what no file holds: buffers, new heads
        model._read_generation_config(folder)
        model.eval()
        return model if device is None else model.to(device)

    @classmethod
    def _unloaded(cls, fields, strict):
        """A model whose values are drawn only if it may keep some of them."""
        if not strict:
            return cls(fields)
        with skip_init():
            return cls(fields)

    def _stored_apart(self, arrays):
        """Whether a file has two values for what the configuration says is one tensor."""
        pairs = [(arrays.get(alias), arrays.get(name)) for alias, name in self.tied().items()]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        return any(a.shape != b.shape or (a != b).any() for a, b in both)

    def _load(self, folder, arrays, dtype, strict):
        table, own = self.names(), self._own_tensors()
        shapes = {name: tensor.shape for name, tensor in own.items()}
        expected = table.peer_shapes(shapes)
        arrays = self._with_expected_names(arrays, expected, table)
        if strict:
            allowed = [name for name in expected if name.endswith(self.may_be_missing)]
            check_tensors(folder, type(self).__name__, arrays, expected, allowed)
        else:
            arrays = _lenient(folder, type(self).__name__, arrays, expected)
        dtype = None if dtype is None else as_dtype(dtype)
        for name, array in table.from_peer(arrays, shapes).items():
            target = own[name]
            if target.dtype.kind != "f" or array.dtype.kind != "f":
                array = array.astype(target.dtype)
            elif dtype is not None:
                array = array.astype(dtype, copy=False)
            target.data = wrap(array if array.flags.c_contiguous else array.copy())

    def _with_expected_names(self, arrays, expected, table):
        """The arrays of a file under the names that this class has for them."""
        renamed = {}
        for name, array in arrays.items():
            for old, new in self.old_names.items():
                if name.endswith(old):
                    name = name.removesuffix(old) + new
            renamed[name] = array
        renamed = self._with_prefix(renamed, expected)
        for alias, primary in self.tied().items():
            if alias in renamed and alias not in expected:
                array = renamed.pop(alias)
                renamed.setdefault(primary, array)
        return {k: a for k, a in renamed.items() if k in expected or not table.is_ignored(k)}

    def _with_prefix(self, arrays, expected):
        """A base model reads a file with a head, and a model with a head one of the base model."""
        prefix = self.base_prefix + "."
        if not self.base_prefix:
            return arrays
        has = any(name.startswith(prefix) for name in arrays)
        if self.is_base and has:
            kept = {k: a for k, a in arrays.items() if k.startswith(prefix)}
            return {name.removeprefix(prefix): array for name, array in kept.items()}
        if not self.is_base and not has:
            heads = {*expected, *self.tied()}
            return {k if k in heads else prefix + k: array for k, array in arrays.items()}
        return arrays

    def _own_tensors(self):
        """Our parameters, each once, and the buffers that are saved, by name."""
        parameters = dict(self.named_parameters())
        buffers = {name for name, _ in self.named_buffers()}
        state = self.state_dict(keep_vars=True)
        return parameters | {name: state[name] for name in state if name in buffers}

    def _read_generation_config(self, folder):
        path = Path(folder) / "generation_config.json"
        if path.exists():
            self.generation_config = read_json(path)

    # Folder out

    def save_pretrained(self, folder, max_shard_size="50GB"):
        """Write `config.json` and the tensors under the peer's names.

        Parameters
        ----------
        folder : str or path
            Made if it is not there.
        max_shard_size : int or str
            In bytes or as in "5GB"; more than one shard has an index.
        """
        folder = make_folder(folder)
        arrays = self.peer_state()
        fields = self.config.to_dict()
        fields.setdefault("model_type", self.model_type)
        self._describe(fields, arrays)
        write_json(folder / "config.json", fields)
        if self.generation_config:  # fields, or a GenerationConfig
            settings = self.generation_config
            settings = settings if isinstance(settings, dict) else settings.to_dict()
            write_json(folder / "generation_config.json", settings)
        write_tensors(folder, arrays, max_shard_size)

    def _describe(self, fields, arrays):
        """What `config.json` says of the class and of the dtype."""
        fields["architectures"] = [type(self).__name__]
        dtypes = {array.dtype.name for array in arrays.values() if array.dtype.kind == "f"}
        if len(dtypes) == 1:
            fields.pop("torch_dtype", None)
            fields["dtype"] = dtypes.pop()

    def peer_state(self):
        """The parameters as host arrays under the peer's names, a tied one once."""
        return self.names().to_peer({k: t.numpy() for k, t in self._own_tensors().items()})

    # Use

    def generate(self, *args, **kwargs):
        """Go on writing; see `generation.generate` for the arguments."""
        from ...generation import generate

        return generate(self, *args, **kwargs)

    def num_parameters(self):
        """How many numbers the model has learned, tied ones counted once."""
        return sum(p.array.size for p in self.parameters())


def _stored_dtype(arrays):
    """The dtype of all floats in a file, if they have but one."""
    dtypes = {array.dtype for array in arrays.values() if array.dtype.kind == "f"}
    return dtypes.pop() if len(dtypes) == 1 else None


def _lenient(folder, name, arrays, expected):
    """Without the extra tensors; a warning lists them and the missing ones."""
    missing = [key for key in expected if key not in arrays]
    extra = [key for key in arrays if key not in expected]
    arrays = {key: array for key, array in arrays.items() if key in expected}
    if missing or extra:
        warnings.warn(
            f"{folder}: {name} keeps the initial values of {missing or 'nothing'} and leaves out "
            f"{extra or 'nothing'}.",
            stacklevel=4,
        )
    check_tensors(folder, name, arrays, expected, allowed=missing)
    return arrays


def class_of(fields, find):
    """The class that `config.json` names, by `find(class name)`."""
    architectures = fields.get("architectures") or []
    if len(architectures) != 1:
        raise CheckpointError(
            "config.json does not say which class the model has.",
            got=f"architectures: {architectures}",
            expected='one name, as in "architectures": ["GPT2LMHeadModel"]',
            hint="mt.models.pretrained.GPT2LMHeadModel.from_pretrained(folder) chooses one",
        )
    return find(architectures[0])
