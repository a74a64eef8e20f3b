"""GELU, its tanh approximation, SiLU and ReLU on a GPU: one launch forward and one backward.

    y = x h(x),   dy/dx = h + x h'(x),   with the gate h of `ops.gelu`
    GELU:      h = (1 + erf(x / sqrt 2)) / 2,   h' = e^(-x^2 / 2) / sqrt(2 pi)
    tanh GELU: h = (1 + tanh u) / 2,   u = sqrt(2 / pi) (x + 0.044715 x^3),   h' = h (1 - h) 2 u'
    SiLU:      h = 1 / (1 + e^-x),   h' = h (1 - h)
    ReLU:      h = 1 for x > 0, else 0,   h' = 0

The backward kernel recomputes h from x, so h is not kept in memory. The array operations
take 5 to 8 launches forward and 4 to 8 backward (ReLU: 2 and 2).
"""

from ..backend import array_module
from ..backend.kernel_table import register
from ..ops.gelu import Gelu, GeluTanh, Silu
from ..ops.relu import Relu
from .source import FLOATS, Source, all_contiguous

__all__ = ["ACTIVATE", "NUMBER", "GeluKernel", "GeluTanhKernel", "ReluKernel", "SiluKernel"]

NUMBER = {"gelu": 0, "gelu_tanh": 1, "silu": 2, "relu": 3}  # the argument f of the kernels
THREADS, EACH = 256, 4  # threads of a block, and elements for each thread

ACTIVATE = r"""
// y = f(x) and slope = dy/dx. f is 0: GELU, 1: GELU by tanh, 2: SiLU, 3: ReLU.
template <typename A> __device__ A activate(long long f, A x, A& slope) {
    if (f == 0) {
        A h = (1 + erf(x * A(0.7071067811865476))) * A(0.5);
        slope = h + x * exp(x * x * A(-0.5)) * A(0.3989422804014327);  // 1 / sqrt(2 pi)
        return x * h;
    }
    if (f == 1) {
        const A root = A(0.7978845608028654), cubic = A(0.044715);  // sqrt(2 / pi)
        A h = (1 + tanh(x * root * (1 + cubic * x * x))) * A(0.5);
        A y = x * h;
        slope = h + y * (1 - h) * (2 * root * (1 + 3 * cubic * x * x));
        return y;
    }
    if (f == 2) {
        A h = 1 / (1 + exp(-x));
        A y = x * h;
        slope = h + y * (1 - h);
        return y;
    }
    slope = x <= 0 ? A(0) : A(1);
    return x <= 0 ? A(0) : x;  // NaN stays NaN
}
"""

SOURCE = Source(
    ACTIVATE
    + r"""
// Four elements for each thread; in each step, neighboring threads have neighboring elements.
template <typename T, typename A> __global__ void activation_forward(
    const T* x, T* y, long long size, long long f)
{
    long long i = blockIdx.x * (4LL * blockDim.x) + threadIdx.x;
    for (int step = 0; step < 4 && i < size; ++step, i += blockDim.x) {
        A slope;
        y[i] = T(activate(f, A(x[i]), slope));
    }
}

template <typename T, typename A> __global__ void activation_backward(
    const T* grad_y, const T* x, T* grad_x, long long size, long long f)
{
    long long i = blockIdx.x * (4LL * blockDim.x) + threadIdx.x;
    for (int step = 0; step < 4 && i < size; ++step, i += blockDim.x) {
        A slope;
        activate(f, A(x[i]), slope);
        grad_x[i] = f == 3 && slope == 0 ? T(A(0)) : T(A(grad_y[i]) * slope);  // 0 * inf is NaN
    }
}
""",
    "activation_forward",
    "activation_backward",
)


def forward(x, activation):
    """Launch the forward kernel, and return y."""
    (x,) = all_contiguous(x)
    y = array_module(x).empty_like(x)
    SOURCE.launch(
        "activation_forward", x.dtype, -(-x.size // (THREADS * EACH)), THREADS,
        x, y, x.size, NUMBER[activation],
    )  # fmt: skip
    return y


def backward(grad_y, x, activation):
    """Launch the backward kernel, and return grad_x. For ReLU, `x` may be the output y."""
    grad_y, x = all_contiguous(grad_y, x)
    grad_x = array_module(x).empty_like(x)
    SOURCE.launch(
        "activation_backward", x.dtype, -(-x.size // (THREADS * EACH)), THREADS,
        grad_y, x, grad_x, x.size, NUMBER[activation],
    )  # fmt: skip
    return grad_x


class _Kernel:
    """CUDA kernels of an activation function: one launch forward and one backward."""

    name = ""
    saves_output = True  # like the operation, which saves x and y

    @staticmethod
    def accepts(x):
        return x.dtype.name in FLOATS

    @classmethod
    def forward(cls, ctx, x):
        y = forward(x, cls.name)
        ctx.save(*((x, y) if cls.saves_output else (x,)))
        ctx.save_intermediate()  # nothing to save; this marks the op as fused
        return y

    @classmethod
    def backward(cls, ctx, grad_y):
        return backward(grad_y, ctx.saved[0], cls.name)


@register(Gelu)
class GeluKernel(_Kernel):
    """CUDA kernels of GELU: one launch forward and one backward."""

    name, saves_output = "gelu", False


@register(GeluTanh)
class GeluTanhKernel(_Kernel):
    """CUDA kernels of the tanh approximation of GELU: one launch forward and one backward."""

    name = "gelu_tanh"


@register(Silu)
class SiluKernel(_Kernel):
    """CUDA kernels of SiLU: one launch forward and one backward."""

    name = "silu"


@register(Relu)
class ReluKernel(_Kernel):
    """CUDA kernels of ReLU for floating-point numbers: one launch forward and one backward."""

    name = "relu"

    @staticmethod
    def forward(ctx, x):
        y = forward(x, "relu")
        ctx.save(y)
        return y
