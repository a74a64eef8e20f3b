"""Names from CuPy 14: functions that the strict device allows, and keywords that it rejects.

The names are from CuPy's reference (https://docs.cupy.dev/en/stable/reference/): functions that
exist in `numpy` and in `cupy`, and keywords that only NumPy's version accepts.
"""

__all__ = [
    "FFT", "FUNCTIONS", "KEEPS_ORDER", "LINALG", "METHODS_NOT_HERE", "NUMPY_ONLY_KEYWORDS",
    "OF_CUPY_BUT_NOT_HERE", "SAME_AS_NUMPY", "STRIDE_TRICKS", "SYNCHRONISING", "UFUNCS",
    "UFUNC_METHODS",
]  # fmt: skip


def _names(text):
    return frozenset(text.split())


UFUNCS = _names("""
    abs absolute acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin
    asinh atan atan2 atanh bitwise_and bitwise_count bitwise_invert bitwise_left_shift
    bitwise_not bitwise_or bitwise_right_shift bitwise_xor cbrt ceil conj conjugate copysign
    cos cosh deg2rad degrees divide divmod equal exp exp2 expm1 fabs float_power floor
    floor_divide fmax fmin fmod frexp gcd greater greater_equal heaviside hypot invert
    isfinite isinf isnan lcm ldexp left_shift less less_equal log log10 log1p log2 logaddexp
    logaddexp2 logical_and logical_not logical_or logical_xor maximum minimum mod modf
    multiply negative nextafter not_equal positive pow power rad2deg radians reciprocal
    remainder right_shift rint sign signbit sin sinh sqrt square subtract tan tanh
    true_divide trunc
""")

# CuPy implements these ufunc methods only for these ufuncs.
UFUNC_METHODS = {
    "at": _names("add subtract maximum minimum"), "reduce": _names("add multiply"),
    "accumulate": _names("add multiply"), "reduceat": _names("add multiply"), "outer": UFUNCS,
}  # fmt: skip

FUNCTIONS = _names("""
    all allclose amax amin angle any arange argmax argmin argpartition argsort argwhere
    around array array_equal array_equiv array_split asarray ascontiguousarray astype
    atleast_1d atleast_2d atleast_3d bincount broadcast_arrays broadcast_to can_cast clip
    column_stack common_type concat concatenate copy copyto count_nonzero cross cumprod
    cumsum cumulative_prod cumulative_sum diag diag_indices diag_indices_from diagflat
    diagonal diff dot dsplit dstack einsum empty empty_like expand_dims eye fill_diagonal
    fix flatnonzero flip fliplr flipud full full_like gradient hsplit hstack identity imag
    indices inner isclose iscomplex iscomplexobj isin isneginf isposinf isreal isrealobj
    isscalar ix_ kron lexsort linspace logspace matmul matrix_transpose max may_share_memory
    mean meshgrid min min_scalar_type moveaxis nan_to_num ndim nonzero ones ones_like outer
    pad partition permute_dims prod ptp put_along_axis putmask ravel ravel_multi_index real
    repeat reshape result_type roll rollaxis rot90 round searchsorted shape shares_memory
    sinc size sort split squeeze stack std sum swapaxes take take_along_axis tensordot tile
    trace transpose trapezoid tri tril tril_indices tril_indices_from triu triu_indices
    triu_indices_from unique unique_all unique_counts unique_inverse unique_values
    unravel_index vander var vdot vsplit vstack where zeros zeros_like
""")

# Objects shared with NumPy: dtypes, constants, helpers that do not take an array.
SAME_AS_NUMPY = _names("""
    bool bool_ broadcast_shapes byte complex128 complex64 complexfloating double dtype e
    euler_gamma finfo float16 float32 float64 floating generic half iinfo index_exp inexact
    inf int16 int32 int64 int8 int_ intc integer intp isdtype issubdtype iterable long
    longlong nan ndindex newaxis number pi promote_types s_ short signedinteger single ubyte
    uint uint16 uint32 uint64 uint8 uintc uintp ulong ulonglong unsignedinteger ushort
""")

# CuPy has these names, but this library does not need them, or they copy to or from the host.
OF_CUPY_BUT_NOT_HERE = _names("""
    append apply_along_axis apply_over_axes array2string array_repr array_str asanyarray
    asarray_chkfinite asfortranarray average bartlett base_repr binary_repr blackman
    broadcast c_ choose compress convolve corrcoef correlate cov cuda delete digitize ediff1d
    exceptions extract flatiter format_float_positional format_float_scientific
    from_dlpack frombuffer fromfile fromfunction fromiter fromstring genfromtxt hamming
    hanning histogram histogram2d histogramdd i0 interp intersect1d isfortran kaiser load
    loadtxt mask_indices median mgrid nanargmax nanargmin nancumprod nancumsum nanmax nanmean
    nanmedian nanmin nanprod nanstd nansum nanvar ogrid packbits percentile piecewise place
    poly poly1d polyadd polyfit polymul polynomial polysub polyval put quantile r_ random
    real_if_close require resize roots row_stack save savetxt savez savez_compressed select
    setdiff1d setxor1d show_config sort_complex testing trim_zeros typing ufunc union1d
    unpackbits unwrap vectorize
""")

METHODS_NOT_HERE = _names("""
    argpartition byteswap choose compress conjugate cstruct data dump dumps flat mdspan
    partition ptp put reduced_view scatter_add scatter_max scatter_min set toDlpack tobytes
    tofile
""")

LINALG = _names("""
    LinAlgError cholesky cond cross det eig eigh eigvals eigvalsh inv lstsq matmul
    matrix_power matrix_rank matrix_transpose norm pinv qr slogdet solve svd tensorinv
    tensorsolve
""")

FFT = _names("fft ifft rfft")

STRIDE_TRICKS = _names("as_strided sliding_window_view")

# These functions copy or create an array with the memory order of the argument. In CuPy, all other
# results that are not views have C order, whatever the order of the arguments.
KEEPS_ORDER = _names("""
    array asarray astype copy empty_like full_like ones_like zeros_like
""")

# The host must wait for these, because the shape or type of the result depends on values.
SYNCHRONISING = _names("""
    argwhere bincount flatnonzero lstsq matrix_rank nonzero unique unique_all unique_counts
    unique_inverse unique_values
""")

_REDUCTION = _names("initial where")
_SPREAD = _names("where mean correction")
_CREATION = _names("device like")
_SORT = _names("order stable")

NUMPY_ONLY_KEYWORDS = {
    **dict.fromkeys(("all", "any", "mean"), _names("where")),
    **dict.fromkeys(("amax", "amin", "max", "min", "prod", "sum"), _REDUCTION),
    **dict.fromkeys(("std", "var"), _SPREAD),
    **dict.fromkeys(("argsort", "sort"), _SORT),
    **dict.fromkeys(("argpartition", "partition"), _names("kind order")),
    **dict.fromkeys(("arange", "asarray", "empty", "eye", "full", "ones", "zeros"), _CREATION),
    **dict.fromkeys(("ascontiguousarray", "identity", "tri"), _CREATION),
    **dict.fromkeys(("empty_like", "full_like", "ones_like", "zeros_like"), _CREATION),
    **dict.fromkeys(("broadcast_arrays", "broadcast_to", "copy", "matmul"), _names("subok")),
    **dict.fromkeys(("concat", "concatenate", "stack"), _names("arrays")),
    **dict.fromkeys(("flip", "fliplr", "flipud", "rot90"), _names("m")),
    "array": _names("object ndmax like"),
    "astype": _names("device"),
    "clip": _names("min max"),
    "count_nonzero": _names("keepdims"),
    "indices": _names("sparse"),
    "isin": _names("kind"),
    "lexsort": _names("axis"),
    "linspace": _names("device"),
    "reshape": _names("shape"),
    "take": _names("mode"),
    "take_along_axis": _names("arr"),
    "unique": _names("sorted"),
    "unravel_index": _names("shape"),
    **dict.fromkeys(("add.reduce", "multiply.reduce"), _REDUCTION),
    "as_strided": _names("subok writeable"),
    "cholesky": _names("upper"),
    "matrix_rank": _names("hermitian rtol"),
    "pinv": _names("hermitian rtol"),
    "svd": _names("hermitian"),
}
