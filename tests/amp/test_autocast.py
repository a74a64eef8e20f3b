"""Autocast: the dtype of each operation, regions, the cache, and what it leaves alone."""

import importlib
import pkgutil
import threading
import warnings

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.amp.op_lists import FUNCTIONS, OPERATIONS
from minitorch_attn.autograd import Function
from minitorch_attn.autograd.listener import Listener
from minitorch_attn.errors import ArgumentError
from minitorch_attn.nn import functional as F

HALF, SINGLE = np.dtype("float16"), np.dtype("float32")


@pytest.fixture
def on(device):
    """The device type whose autocast converts the tensors of this test."""
    return "cpu" if device == "cpu" else "cuda"


@pytest.fixture
def make(make):
    """Random leaves of float32."""

    def draw(*shape):
        return make(*shape).detach().float().requires_grad_()

    return draw


def every_function():
    for package in (mt.ops, mt.distributed):  # some of their modules are imported on first use
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)

    def below(cls):
        for child in cls.__subclasses__():
            yield child
            yield from below(child)

    return {f.__name__ for f in below(Function) if f.__module__.startswith("minitorch_attn.")}


def test_every_operation_is_in_exactly_one_list():
    listed = [name for names in OPERATIONS.values() for name in names.split()]
    assert len(listed) == len(set(listed))
    ours = every_function()
    assert set(listed) - ours == set(), "listed, but not an operation"
    assert ours - set(listed) == set(), "an operation that is not in amp/op_lists.py"


def test_every_listed_function_is_decorated():
    names = [name for names in FUNCTIONS.values() for name in names.split()]
    assert len(names) == len(set(names))
    for name in names:
        function = getattr(mt, name, None) or getattr(F, name)
        codes = set()
        while function is not None:
            codes.add(function.__code__.co_qualname)
            function = getattr(function, "__wrapped__", None)
        assert "autocasts.<locals>.call" in codes, name


def cases(make):
    """Calls with the dtype of their result under autocast, for float32 and float16 inputs."""
    x, y, b = make(2, 3), make(3, 5), make(5)
    image, kernel = make(1, 2, 5, 7), make(3, 2, 3, 3)
    q = make(1, 2, 3, 7)
    half, labels = x.half(), mt.tensor([0, 2], device=x.device)
    return {
        "matmul": (lambda: x @ y, HALF),
        "mixed matmul": (lambda: half @ y, HALF),
        "linear": (lambda: F.linear(half, make(5, 3), b), HALF),
        "addmm": (lambda: mt.addmm(b, x, y), HALF),
        "einsum": (lambda: mt.einsum("ij,jk->ik", x, y), HALF),
        "conv2d": (lambda: F.conv2d(image, kernel), HALF),
        "mixed conv2d": (lambda: F.conv2d(image.half(), kernel), HALF),
        "prelu": (lambda: F.prelu(x, make(3)), HALF),
        "attention": (lambda: F.scaled_dot_product_attention(q, q.half(), q), HALF),
        "feed-forward": (lambda: mt.nn.FeedForward(3, 7).to(x.device)(x), HALF),
        "lstm": (lambda: mt.nn.LSTM(3, 5).to(x.device)(half)[0], HALF),
        "exp": (lambda: half.exp(), SINGLE),
        "pow": (lambda: half**2, SINGLE),
        "rsqrt": (lambda: half.abs().rsqrt(), SINGLE),
        "sum": (lambda: half.sum(), SINGLE),
        "sum in float16": (lambda: half.sum(dtype=mt.float16), HALF),
        "softmax": (lambda: half.softmax(-1), SINGLE),
        "softmax in float16": (lambda: F.softmax(half, -1, dtype=mt.float16), HALF),
        "layer_norm": (lambda: F.layer_norm(half, (3,), make(3), make(3)), SINGLE),
        "rms_norm": (lambda: F.rms_norm(half, (3,), make(3)), SINGLE),
        "group_norm": (lambda: F.group_norm(image.half(), 2), SINGLE),
        "batch_norm": (lambda: mt.nn.BatchNorm2d(2).to(x.device)(image.half()), HALF),
        "cross_entropy": (lambda: F.cross_entropy(half, labels), SINGLE),
        "mse_loss": (lambda: F.mse_loss(half, half), SINGLE),
        "norm": (lambda: mt.linalg.norm(half), SINGLE),
        "cat": (lambda: mt.cat([half, x]), SINGLE),
        "dot": (lambda: mt.dot(b, b.half()), SINGLE),
        "dot of two float16": (lambda: mt.dot(b.half(), b.half()), HALF),
        "add": (lambda: half + x, SINGLE),
        "add of two float16": (lambda: half + half, HALF),
        "mean": (lambda: half.mean(), HALF),
        "gelu": (lambda: F.gelu(half), HALF),
        "float64": (lambda: x.double() @ y.double(), np.dtype("float64")),
        "integers": (lambda: labels.sum(), np.dtype("int64")),
    }  # fmt: skip


@pytest.mark.parametrize("name", cases(lambda *shape: mt.ones(*shape)))
def test_dtype_of_the_result_and_gradient(name, make, on):
    run, dtype = cases(make)[name]
    with mt.autocast(on):
        result = run()
    assert result.dtype == dtype
    if result.requires_grad:
        result.float().sum().backward()  # each gradient has the dtype of its tensor


def test_values_are_those_of_explicit_casts(make, on):
    x, w, b = make(3, 5), make(7, 5), make(7)
    with mt.autocast(on):
        y = F.linear(x, w, b)
        loss = F.cross_entropy(y, mt.tensor([0, 2, 6], device=x.device))
    loss.backward()
    grads = [p.grad.numpy() for p in (x, w, b)]
    x.grad = w.grad = b.grad = None
    expected = F.linear(x.half(), w.half(), b.half())
    F.cross_entropy(expected.float(), mt.tensor([0, 2, 6], device=x.device)).backward()
    np.testing.assert_array_equal(y.detach().numpy(), expected.detach().numpy())
    for p, grad in zip((x, w, b), grads, strict=True):
        assert p.grad.dtype == SINGLE
        np.testing.assert_array_equal(p.grad.numpy(), grad)


def test_regions_nest_and_end():
    x = mt.ones(3, 3)
    with mt.autocast("cpu"):
        with mt.autocast("cpu", enabled=False):
            assert (x @ x).dtype == SINGLE and not mt.is_autocast_enabled("cpu")
        with mt.autocast("cuda"):
            assert (x @ x).dtype == HALF and mt.is_autocast_enabled("cuda")
        assert (x @ x).dtype == HALF and not mt.is_autocast_enabled("cuda")
    assert (x @ x).dtype == SINGLE
    with pytest.raises(KeyError), mt.autocast("cpu"):
        {}[0]
    assert not mt.is_autocast_enabled("cpu") and mt.autograd.modes.watchers == 0


def test_one_region_can_be_entered_twice():
    region = mt.autocast("cpu")
    with region, region:
        pass
    assert not mt.is_autocast_enabled("cpu")


def test_a_decorated_function_is_a_region():
    @mt.autocast("cpu")
    def product(x):
        return x @ x

    assert product(mt.ones(3, 3)).dtype == HALF
    assert product.__name__ == "product"


def test_tensors_of_other_devices_are_left_alone(make, on):
    other = {"cpu": "cuda", "cuda": "cpu"}[on]
    x = make(3, 3)
    with mt.autocast(other):
        assert (x @ x).dtype == SINGLE


def test_a_region_belongs_to_its_thread():
    found, x = [], mt.ones(2, 2)
    with mt.autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert found == [SINGLE]


def casts_in(run):
    """Return the number of conversions that `run` makes."""
    names = []

    class Names(Listener):
        def record_forward(self, ctx, inputs, outputs):
            names.append(ctx.function.__name__)

    with Names():
        run()
    return names.count("Cast")


def test_a_weight_is_converted_once_in_a_region(make, on):
    x, w = make(2, 3).detach(), make(3, 3)

    def twice(**settings):
        with mt.autocast(on, **settings):
            with mt.autocast(on):
                x @ w
            return x @ w

    assert casts_in(twice) == 3  # x twice, w once
    assert casts_in(lambda: twice(cache_enabled=False)) == 4


def test_gradients_of_all_uses_of_a_cached_weight_add_up(make, on):
    x, w = make(2, 3).detach(), make(3, 3)
    with mt.autocast(on):
        (x @ w).float().sum().backward()  # a backward pass inside the region
        once = w.grad.numpy().copy()
        (x @ w).float().sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), 2 * once)


def test_a_weight_changed_in_place_is_converted_again(make, on):
    x, w = make(2, 3).detach(), make(3, 3)
    with mt.autocast(on):
        x @ w
        with mt.no_grad():
            w.mul_(2.0)
        np.testing.assert_array_equal((x @ w).detach().numpy(), (x @ w.half()).detach().numpy())


def test_a_cast_made_under_no_grad_does_not_hide_the_gradient(make, on):
    x, w = make(2, 3).detach(), make(3, 3)
    with mt.autocast(on):
        with mt.no_grad():
            x @ w
        (x @ w).float().sum().backward()
    assert w.grad is not None


def test_in_place_operations_keep_their_dtype(make, on):
    x = make(3).detach().half()
    with mt.autocast(on):
        x.abs_().pow_(2)
        x += 1
    assert x.dtype == HALF


def test_an_in_place_operation_keeps_the_dtype_of_its_node(make, on):
    leaf = make(3)
    with mt.autocast(on):
        x = leaf.half()
        x.pow_(2)
        (3 * x).backward(mt.ones(3, dtype=mt.float16, device=x.device))
    np.testing.assert_array_equal(leaf.grad.numpy(), 6 * leaf.detach().half().numpy())


def test_a_recorded_backward_pass_inside_a_region(make, on):
    a, b = make(2, 3).detach().half(), make(3).detach().half()
    b.requires_grad_()
    with mt.autocast(on):
        y = (a * b).float().sum()
        (grad,) = mt.autograd.grad(y, b, create_graph=True)
    assert grad.dtype == HALF  # a sum over the rows, which autocast would compute in float32


def test_second_derivatives(make, on):
    x, w = make(3, 5), make(5, 5)
    with mt.autocast(on):
        y = F.softmax(x @ w, -1).square().sum()
    (grad,) = mt.autograd.grad(y, x, create_graph=True)
    grad.square().sum().backward()
    assert w.grad.dtype == SINGLE and np.abs(w.grad.numpy()).max() > 0


@pytest.mark.parametrize("inside", [True, False])
def test_a_checkpoint_repeats_the_casts(make, on, inside):
    layer, x = mt.nn.TransformerEncoderLayer(6, 2, 7, dropout=0.0), make(2, 3, 6)
    layer.to(x.device)

    def run(forward):
        layer.zero_grad()
        x.grad = None
        if inside:
            with mt.autocast(on):
                forward(x)  # fills the cache of converted weights
                loss = forward(x).float().sum()
        else:
            loss = forward(x).float().sum()
        loss.backward()
        return [x.grad.numpy(), *(p.grad.numpy() for p in layer.parameters())]

    def cast_inside(x):
        with mt.autocast(on):
            return layer(x)

    function = layer if inside else cast_inside
    plain, again = run(function), run(lambda x: mt.checkpoint(function, x))
    for a, b in zip(plain, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_model_trains_under_autocast(on, device):
    mt.manual_seed(0)
    model = mt.models.GPT(11, 8, 16, 2, 2).to(device)
    optimizer, scaler = mt.optim.AdamW(model.parameters(), lr=1e-2), mt.amp.GradScaler(on)
    tokens = (mt.arange(9) % 5)[None].to(device)
    losses = []
    for _ in range(30):
        with mt.autocast(on):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[0, 1:])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
    assert {p.dtype for p in model.parameters()} == {SINGLE}


def test_binary_cross_entropy_is_refused():
    p = mt.full((3,), 0.5)
    with mt.autocast("cpu"), pytest.raises(ArgumentError, match="binary_cross_entropy_with_logits"):
        F.binary_cross_entropy(p, p)


def test_a_function_of_the_user_is_left_alone():
    class MatMul(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a @ b

    with mt.autocast("cpu"):
        assert MatMul.apply(mt.ones(2, 2), mt.ones(2, 2)).dtype == SINGLE


def test_recordings_show_the_casts():
    x = mt.ones(2, 3, requires_grad=True)
    with mt.autocast("cpu"), mt.trace(expand=True) as t:
        F.scaled_dot_product_attention(x, x, x).float().sum().backward()
    assert "Cast" in [step.op for step in t.steps]


@pytest.mark.parametrize("dtype", ["bfloat16", "torch.bfloat16"])
def test_bfloat16_is_refused(dtype):
    with pytest.raises(ArgumentError, match="float16"):
        mt.autocast("cuda", dtype=dtype)


def test_another_dtype_warns_and_does_nothing():
    with pytest.warns(UserWarning, match="float32"):
        region = mt.autocast("cpu", dtype=mt.float32)
    with region:
        assert not mt.is_autocast_enabled("cpu")


@pytest.mark.parametrize("device_type", [3, "xyz", mt.float16])
def test_an_unknown_device_type_is_refused(device_type):
    with pytest.raises(ArgumentError, match="device_type"):
        mt.autocast(device_type)


def test_questions():
    assert mt.get_autocast_dtype("cpu") == HALF
    assert mt.amp.is_autocast_available("cuda") and not mt.amp.is_autocast_available("mps")
    assert mt.is_autocast_cache_enabled()
    with warnings.catch_warnings(), mt.autocast("cpu", cache_enabled=False):
        assert not mt.is_autocast_cache_enabled()
        mt.clear_autocast_cache()
    mt.clear_autocast_cache()


@pytest.mark.parametrize("name", ["enabled", "cache_enabled"])
def test_switches_are_read_at_once(name):
    """What is not true or false is refused before the block begins."""
    with pytest.raises(ArgumentError, match=f"{name}=a ndarray"):
        mt.autocast("cpu", **{name: np.array([1, 2])})
