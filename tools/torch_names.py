"""Compare PyTorch's public names with this package's, and update docs/coming_from_pytorch.md.

    python -m tools.torch_names          # write the tables; PyTorch is not needed
    python -m tools.torch_names --list   # first read PyTorch's names from the installed PyTorch

The file minitorch_attn/torch_names.txt stores PyTorch's names: the functions, classes and methods
that PyTorch documents, without deprecated names, internal names and names for special hardware.
"""

import importlib
import inspect
import re
import sys
import textwrap
from pathlib import Path

from minitorch_attn import absent_names

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "minitorch_attn" / "torch_names.txt"
PAGE = ROOT / "docs" / "coming_from_pytorch.md"
START, END = "<!-- tables of tools/torch_names.py -->", "<!-- end of the tables -->"

# PyTorch's namespace -> its contents, in a few words.
NAMESPACES = {
    "torch": "tensors and operations",
    "torch.Tensor": "methods and attributes of a tensor",
    "torch.nn": "layers and losses",
    "torch.nn.functional": "layers and losses as functions",
    "torch.nn.init": "initialization of parameters",
    "torch.nn.utils": "gradient clipping, parametrizations",
    "torch.nn.utils.rnn": "sequences of different lengths",
    "torch.optim": "optimizers",
    "torch.optim.lr_scheduler": "learning-rate schedules",
    "torch.autograd": "derivatives",
    "torch.utils.data": "data sets and loaders",
    "torch.distributed": "messages between processes",
    "torch.linalg": "linear algebra",
    "torch.fft": "Fourier transforms",
}
_DEPRECATED = """
    torch.chain_matmul torch.cholesky torch.ger torch.lu torch.norm torch.qr torch.range
    torch.set_default_tensor_type torch.svd torch.triangular_solve torch.Tensor.cholesky
    torch.Tensor.ger torch.Tensor.lu torch.Tensor.norm torch.Tensor.qr torch.Tensor.svd
    torch.Tensor.storage torch.Tensor.storage_type torch.Tensor.triangular_solve
    torch.nn.functional.upsample torch.nn.functional.upsample_bilinear
    torch.nn.functional.upsample_nearest torch.nn.init.constant torch.nn.init.dirac
    torch.nn.init.eye torch.nn.init.kaiming_normal torch.nn.init.kaiming_uniform
    torch.nn.init.normal torch.nn.init.orthogonal torch.nn.init.sparse torch.nn.init.uniform
    torch.nn.init.xavier_normal torch.nn.init.xavier_uniform torch.nn.utils.clip_grad_norm
    torch.distributed.all_gather_coalesced torch.distributed.all_reduce_coalesced
    torch.distributed.reduce_op
""".split()
# Internal parts of PyTorch that have a docstring, but are not for users.
_INTERNAL = re.compile(
    r"(Sym|sym_|has_|import_ir|parse_|native_|unify_|merge_type|unsafe_|fork$|wait$|while_loop$"
    r"|compiled_with|init_num|thread_safe|is_storage|hash_tensor|get_device_module|handle_torch"
    r"|boolean_dispatch|Script(Class|Function)|AggregationType|DispatchKey|Tag$|Stream$|Event$"
    r"|AcceleratorError|OutOfMemoryError|GRID_|Uninitialized|factory_kwargs|typename|segment_"
    r"|NestedIO|Profiler|DeviceType|kineto|enforce_grad|is_(multithreading|view_replay|tensor_like)"
    r"|PackedSequence_$|copy_method_params|set_multithreading|swap_in|is_(ipu|xla|xpu|mps|meta)$|(ipu|xpu|mtia)$|ScalingType|SwizzleType|scaled_|grouped_)"
    r"|.*(_copy|_cpp|_mkldnn|_warn_always|debug_mode|warn_only_enabled)$"
)
# Groups of the missing names of a namespace; a name is in the first group that matches.
_GROUPS = {
    "complex numbers": r"complex|polar$|angle$|conj|real$|imag$|(is|view_as)_(complex|real)|isreal"
    r"|resolve_|adjoint$|m?H$|cdouble$|cfloat$|chalf$|sgn_?$",
    "sparse tensors": r".*sparse|(col_|crow_)?indices$|values$|.*coalesce|dense_dim$|hspmm$|smm$"
    r"|sspaddmm$|to_dense$",
    "quantization": r".*quantize|q_|int_repr$|qscheme$",
    "linear algebra": r"cholesky|det$|logdet$|slogdet$|.*inverse$|qr$|svd|lu|matrix_|eig|lobpcg$"
    r"|geqrf$|orgqr$|ormqr$|pca_lowrank$|kron$|cross$|add(bmm|mm|mv|r)_?$|baddbmm_$|cov$|corrcoef$"
    r"|vander$|tensor(inv|solve)$|.*lstsq$|inv|ldl|pinv|multi_dot$|solve|cond$|householder",
    "losses": r".*(Loss|_loss)|linear_cross_entropy$|LinearCrossEntropy",
    "pooling": r".*([Pp]ool|Unpool)",
    "padding": r".*Pad\dd$",
    "lazy layers": r"Lazy",
    "dropout": r".*[Dd]ropout",
    "signal processing": r"i?stft$|.*_window$",
    "elementwise functions": r"(a|arc)?(sin|cos|tan)h?2?_?$|erf|digamma|lgamma|polygamma|igamma|i0"
    r"|mvlgamma|sinc|logit|exp2|xlogy|logaddexp2|hypot|copysign|nextafter|ldexp|frexp|frac|fix"
    r"|deg2rad|rad2deg|gcd|lcm|signbit|heaviside|float_power|fmax|fmin|fmod|positive|nan_to_num",
    "other names of operations that exist": r"absolute|clip|divide|greater|less|multiply|negative"
    r"|not_equal|subtract|true_divide|row_stack$|ndimension$|.*_(eq|ge|gt|le|lt|ne)$",
    "in-place methods": r".*[a-z\d]_$",
    "storage and devices": r".*storage|.*pin|is_(cpu|shared|set_to)|share_memory_|record_stream"
    r"|get_device$|.*_num_(interop_)?threads$|as_strided|.*dlpack|from_file|set_flush|.*_strided",
}


def collect():
    """Read the version and the public names of the installed PyTorch.

    Returns
    -------
    (version, names)
        The version, and a dict from namespace to a sorted list of names.
    """
    torch = importlib.import_module("torch")
    names = {}
    for namespace in NAMESPACES:
        owner = _find(torch, namespace)
        names[namespace] = [name for name in sorted(dir(owner)) if _counts(namespace, owner, name)]
    return torch.__version__.partition("+")[0], names


def _find(package, namespace):
    """Return the class or module of `package` for a namespace such as "torch.nn", or None."""
    value = package
    for part in namespace.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def _counts(namespace, owner, name):
    """Return True if PyTorch documents `owner.name` as a function, class or method for users."""
    if name.startswith("_") or _INTERNAL.match(name) or f"{namespace}.{name}" in _DEPRECATED:
        return False
    value = getattr(owner, name)
    if inspect.isclass(owner):
        return bool(getattr(value, "__doc__", None))
    if not (inspect.isclass(value) or inspect.isroutine(value)) or not value.__doc__:
        return False
    module = getattr(value, "__module__", None) or "torch"
    return module.startswith("torch") and (name != "Optimizer" or namespace == "torch.optim")


def stored():
    """Read PyTorch's version and public names from minitorch_attn/torch_names.txt."""
    absent_names.stored_names.cache_clear()  # read again, because --list may have written the file
    return absent_names.stored_names()


def as_list(version, names):
    """Return the text of minitorch_attn/torch_names.txt."""
    parts = [f"Public names of torch {version}\n"]
    for namespace, found in names.items():
        parts.append(f"[{namespace}]\n{textwrap.fill(' '.join(found), 100)}\n")
    return "\n".join(parts)


def tables(version, names):
    """Return Markdown tables: how many of PyTorch's names exist here, and the missing names."""
    ours = importlib.import_module("minitorch_attn")
    missing = {}
    for namespace, found in names.items():
        owner = _find(ours, namespace)
        missing[namespace] = [name for name in found if not hasattr(owner, name)]
    rows = [
        f"| `{namespace}` | {NAMESPACES[namespace]} | {len(found) - len(missing[namespace])} "
        f"of {len(found)} |"
        for namespace, found in names.items()
    ]
    parts = [
        f"The table compares with PyTorch {version}.",
        "\n".join(["| PyTorch | for | names that exist here |", "| --- | --- | --- |", *rows]),
    ]
    modules = ", ".join(f"`{name}`" for name in absent_names.MODULES)
    parts.append(f"These modules of PyTorch are missing as a whole: {modules}.")
    parts += [_folded(namespace, absent) for namespace, absent in missing.items() if absent]
    return "\n\n".join(parts)


def _folded(namespace, missing):
    """Return the missing names of a namespace as a collapsible block, grouped if there are many."""
    groups = {}
    patterns = _GROUPS if len(missing) > 30 else {}
    for name in missing:
        title = next((t for t, pattern in patterns.items() if re.match(pattern, name)), "others")
        groups.setdefault(title, []).append(f"`{name}`")
    order = [title for title in (*_GROUPS, "others") if title in groups]
    lines = [f"* {title}: {', '.join(groups[title])}" for title in order]
    if order == ["others"]:
        lines = [", ".join(groups["others"])]
    summary = f"<summary>Missing in <code>{namespace}</code>: {len(missing)}</summary>"
    return "\n\n".join([f"<details>\n{summary}", "\n".join(lines), "</details>"])


def page():
    """Return the text of docs/coming_from_pytorch.md with the current tables."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    return f"{before}{START}\n\n{tables(*stored())}\n\n{END}{rest.partition(END)[2]}"


def main():
    """Write the tables; with --list, first write the list of PyTorch's names."""
    if "--list" in sys.argv[1:]:
        LIST.write_text(as_list(*collect()), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
