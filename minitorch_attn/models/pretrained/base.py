"""PretrainedModel: base class of the models that load and save Hugging Face or timm folders."""

import contextlib
import warnings
from pathlib import Path

from ... import nn
from ...backend import as_dtype
from ...errors import ArgumentError, CheckpointError, MiniTorchError
from ...generation.config import check_fields
from ...nn.init import skip_init
from ...schema import TEXT, list_of, read_json
from ...tensor import wrap
from .config import Config, write_json
from .config_fields import check_config, check_sizes
from .folder import check_tensors, make_folder, read_config, read_tensors, saved_tensors
from .names import NameTable

__all__ = ["IMAGES", "VIDEOS", "PretrainedModel", "missing_input"]

# Hints of `missing_input`
IMAGES = "pass pixel_values=processor(images), where processor is an mt.data.ImageProcessor"
VIDEOS = "pass the videos, (batch, frame, channel, height, width)"


class PretrainedModel(nn.Module):
    """Base class for models with the Hugging Face or timm interface.

    Each model family has one subclass for each head. The computations are in `models/`. The
    subclasses add the parameter names, arguments and outputs of Hugging Face or timm.

    Attributes
    ----------
    config : Config
    generation_config : dict
        Fields of `generation_config.json`, if the folder contains this file.
    model_type : str
        Value of `model_type` in `config.json`.
    defaults, aliases : dict
        `defaults` contains default values of the fields that `config.json` may omit. `aliases` is a
        dict {alternative name: field name}.
    base_prefix : str
        Prefix of the base model's stored parameter names inside a model with a head.
    is_base : bool
        Whether this class is the base model, whose stored names have no prefix.
    old_names : dict
        Endings of parameter names, as {ending in old files: current ending}.
    may_be_missing : tuple of str
        Endings of buffer names that a file may omit because their initial values are correct.
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
        self.config = self.checked_config(fields, f"{type(self).__name__}: config", ArgumentError)
        self.generation_config = {}
        self.build(self.config)

    @classmethod
    def checked_config(cls, fields, where, error):
        """Return the configuration with the given fields, after checking their types."""
        config = Config(fields, cls.defaults, cls.aliases)
        check_config(config, cls.defaults, where, error)
        return config

    def build(self, config):
        """Create the modules. Subclasses must override this method.

        Parameters
        ----------
        config : Config
        """
        raise NotImplementedError

    def names(self):
        """Return the table of stored parameter names. Subclasses must override this method.

        Returns
        -------
        NameTable
        """
        return NameTable()

    def tied(self):
        """Return the tied parameters as {alias: stored name}.

        Both names refer to the same tensor. A file may omit the tensor stored under the alias.
        """
        return {}

    # Load a folder

    @classmethod
    def from_pretrained(cls, folder, dtype=None, device=None, strict=True):
        """Load the model from a folder with `config.json` and `model.safetensors`, in eval mode.

        Parameters
        ----------
        folder : str or path
        dtype : dtype, optional
            Dtype of all parameters. Default: the stored dtype (bfloat16 becomes float32).
        device : str or Device, optional
        strict : bool, default True
            Whether to raise an error for missing and extra tensors. If False, missing tensors keep
            their initial values, and a warning lists the missing and the extra tensors.

        Raises
        ------
        CheckpointError
            If tensors are missing, extra or truncated, or have the wrong shape.
        """
        folder = Path(folder)
        return cls.from_arrays(
            read_config(folder), read_tensors(folder), folder, dtype, device, strict
        )

    @classmethod
    def from_arrays(cls, fields, arrays, folder="the state", dtype=None, device=None, strict=True):
        """Create the model from configuration fields and a dict of arrays with stored names."""
        where = Path(folder) / "config.json"
        config = cls.checked_config(fields, where, CheckpointError)
        check_sizes(config.to_dict(), arrays, where, strict)
        model = cls._unloaded(fields, strict, where)
        if model._is_untied(arrays) and fields.get("tie_word_embeddings") is not False:
            model = cls._unloaded({**fields, "tie_word_embeddings": False}, strict, where)
        model._load(folder, arrays, dtype, strict)
        dtype = _stored_dtype(arrays) if dtype is None else as_dtype(dtype)
        if dtype is not None:
            model.to(dtype)  # also converts buffers and new heads, which are not in the file
        model._read_generation_config(folder)
        model.eval()
        return model if device is None else model.to(device)

    @classmethod
    def _unloaded(cls, fields, strict, where):
        """Create the model before loading. If all tensors will be loaded, skip initialization."""
        try:
            with skip_init() if strict else contextlib.nullcontext():
                return cls(fields)
        except MiniTorchError:
            raise
        except (MemoryError, OverflowError, ValueError) as error:  # NumPy's errors for huge arrays
            raise CheckpointError(
                f"{where}: a model of this size could not be created", got=str(error)
            ) from error

    def _is_untied(self, arrays):
        """Return True if parameters tied by the configuration have different values in a file."""
        pairs = [(arrays.get(alias), arrays.get(name)) for alias, name in self.tied().items()]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        return any(a.shape != b.shape or (a != b).any() for a, b in both)

    def _load(self, folder, arrays, dtype, strict):
        table, own = self.names(), self._own_tensors()
        shapes = {name: tensor.shape for name, tensor in own.items()}
        expected = table.stored_shapes(shapes)
        arrays = self._with_expected_names(arrays, expected, table)
        if strict:
            allowed = [name for name in expected if name.endswith(self.may_be_missing)]
            check_tensors(folder, type(self).__name__, arrays, expected, allowed)
        else:
            arrays = _lenient(folder, type(self).__name__, arrays, expected)
        dtype = None if dtype is None else as_dtype(dtype)
        for name, array in table.from_stored(arrays, shapes).items():
            target = own[name]
            if target.dtype.kind != "f" or array.dtype.kind != "f":
                array = array.astype(target.dtype)
            elif dtype is not None:
                array = array.astype(dtype, copy=False)
            target.data = wrap(array if array.flags.c_contiguous else array.copy())

    def _with_expected_names(self, arrays, expected, table):
        """Rename the arrays of a file to the stored names that this class expects."""
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
        """Add or remove the name prefix that distinguishes models with heads from base models."""
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
        """Return a dict of parameters (tied parameters only once) and persistent buffers."""
        parameters = dict(self.named_parameters())
        buffers = {name for name, _ in self.named_buffers()}
        state = self.state_dict(keep_vars=True)
        return parameters | {name: state[name] for name in state if name in buffers}

    def _read_generation_config(self, folder):
        path = Path(folder) / "generation_config.json"
        if path.exists():
            self.generation_config = read_json(path, CheckpointError)
            check_fields(self.generation_config, path, CheckpointError)

    # Save a folder

    def save_pretrained(self, folder, max_shard_size="50GB"):
        """Write `config.json` and the tensors with Hugging Face's or timm's names.

        Parameters
        ----------
        folder : str or path
            Folder to write to. It is created if it does not exist.
        max_shard_size : int or str
            Maximum file size in bytes, or a string such as "5GB". Larger models are split
            into several files (shards). A tensor that is larger than the limit gets its own shard.
        """
        folder = make_folder(folder)
        arrays = self.peer_state()
        fields = self.config.to_dict()
        fields.setdefault("model_type", self.model_type)
        self._describe(fields, arrays)
        with saved_tensors(folder, arrays, max_shard_size):
            write_json(folder / "config.json", fields)
            if self.generation_config:  # a dict of fields, or a GenerationConfig
                settings = self.generation_config
                settings = settings if isinstance(settings, dict) else settings.to_dict()
                write_json(folder / "generation_config.json", settings)

    def _describe(self, fields, arrays):
        """Add the class name and the dtype to the fields of `config.json`."""
        fields["architectures"] = [type(self).__name__]
        dtypes = {array.dtype.name for array in arrays.values() if array.dtype.kind == "f"}
        if len(dtypes) == 1:
            fields.pop("torch_dtype", None)
            fields["dtype"] = dtypes.pop()

    def peer_state(self):
        """Return the state dict as NumPy arrays with stored names. Tied parameters appear once."""
        return self.names().to_stored({k: t.numpy() for k, t in self._own_tensors().items()})

    # Use the model

    def generate(self, *args, **kwargs):
        """Generate tokens. See `generation.generate` for the arguments."""
        from ...generation import generate

        return generate(self, *args, **kwargs)

    def num_parameters(self):
        """Return the total number of elements of all parameters. Tied parameters count once."""
        return sum(p.array.size for p in self.parameters())


def _stored_dtype(arrays):
    """Return the dtype of the floating-point arrays in a file, or None if dtypes differ."""
    dtypes = {array.dtype for array in arrays.values() if array.dtype.kind == "f"}
    return dtypes.pop() if len(dtypes) == 1 else None


def _lenient(folder, name, arrays, expected):
    """Return the arrays without the extra tensors. Warn about extra and missing tensors."""
    missing = [key for key in expected if key not in arrays]
    extra = [key for key in arrays if key not in expected]
    arrays = {key: array for key, array in arrays.items() if key in expected}
    if missing or extra:
        warnings.warn(
            f"{folder}: {name} keeps the initial values of missing tensors ({missing or 'none'}) "
            f"and ignores extra tensors ({extra or 'none'})",
            stacklevel=4,
        )
    check_tensors(folder, name, arrays, expected, allowed=missing)
    return arrays


def class_of(fields, find):
    """Return a model's class, which is `find(name)` for the class name in `config.json`.

    Parameters
    ----------
    fields : dict
        Fields of `config.json`.
    find : callable
        Function that maps a class name to the class.
    """
    architectures = fields.get("architectures")
    if list_of(TEXT, 1).problem(architectures, ""):
        raise CheckpointError(
            "config.json: architectures must contain exactly one class name",
            got=f"architectures: {str(architectures)[:200]}",
            expected='one name, as in "architectures": ["GPT2LMHeadModel"]',
            hint="choose a class: mt.models.pretrained.GPT2LMHeadModel.from_pretrained(folder)",
        )
    return find(architectures[0])


def missing_input(model, name, hint):
    """Return the error for calling a model without the required input `name`."""
    return ArgumentError(f"{type(model).__name__}: {name} is missing", got="None", hint=hint)
