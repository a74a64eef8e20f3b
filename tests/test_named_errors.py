"""named_errors.py, and classes of invalid calls: errors name the function and its arguments."""

import inspect
import re
import types

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn import nn
from minitorch_attn.errors import (
    ArgumentError,
    CheckpointError,
    DataError,
    DTypeError,
    IndexRangeError,
    MiniTorchError,
    MissingMethodError,
    MissingNameError,
    ShapeError,
)
from minitorch_attn.named_errors import _short, guards

PARAMETER = "[mt.ones(2, requires_grad=True)]"
OPTIMIZER = f"mt.optim.SGD({PARAMETER}, 0.1)"
SCHEDULE = "mt.optim.lr_scheduler"


@pytest.mark.parametrize(("call", "error", "words"), [
    ("mt.masks.causal('x')", DTypeError, "causal n"),
    ("mt.masks.block_diagonal([2**62])", ArgumentError, "block_diagonal lengths"),
    ("mt.triu_indices(10**30, 2)", ArgumentError, "triu_indices row"),
    ("mt.repeat_interleave(mt.ones(2), 'x')", DTypeError, "repeat_interleave repeats"),
    ("mt.repeat_interleave(mt.ones(2), slice(None))", DTypeError, "repeat_interleave repeats"),
    ("mt.einsum([])", MiniTorchError, "einsum"),
    ("mt.hstack([])", MiniTorchError, "hstack tensors"),
    ("mt.atleast_1d()", IndexRangeError, "atleast_1d tensors"),
    ("mt.ones(2) + np.array([1, None])", DTypeError, "add other"),
    ("mt.relu(np.array(['a']))", DTypeError, "relu input"),
    ("mt.mean(mt.ones(2), keepdim=np.ones(2))", DTypeError, "mean keepdim"),
    ("mt.rand(2, generator=3)", DTypeError, "rand generator"),
    ("mt.ones(2)[slice('a')]", DTypeError, "index"),
    ("mt.ones(2)[int]", DTypeError, "index"),
    ("mt.ones(2).size(3)", IndexRangeError, "size dim"),
    ("mt.ones(2).reshape_as(3)", DTypeError, "reshape_as other"),
    ("mt.ones(2, 3).swapaxes('x', 0)", DTypeError, "swapaxes dim0"),
    ("mt.bucketize(mt.ones(2), 'x')", DTypeError, "bucketize boundaries"),
    ("mt.ones(2, dtype=mt.int64).exp_()", DTypeError, "exp_"),
    ("mt.device(3)", MiniTorchError, "device"),
    ("mt.finfo(mt.int64)", ArgumentError, "finfo dtype"),
    ("mt.manual_seed('x')", ArgumentError, "manual_seed seed"),
    ("mt.tensor(1.0, requires_grad=np.ones(2))", ArgumentError, "tensor requires_grad"),
    ("nn.Attention(4, 0)", ArgumentError, "Attention"),
    ("nn.AdditiveAttention(-1, 2, 3)", ArgumentError, "AdditiveAttention query_dim"),
    ("nn.Linear('x', 3)", ArgumentError, "Linear in_features"),
    ("nn.Conv2d([[]], 1, 2)", DTypeError, "Conv2d in_channels"),
    ("nn.GRU(3, 3, 10**30)", ArgumentError, "GRU num_layers"),
    ("nn.MSELoss(reduction=3)", DTypeError, "MSELoss reduction"),
    ("nn.Linear(2, 3).register_forward_hook(3)", DTypeError, "hook"),
    ("nn.Linear(2, 3).get_submodule('x')", MissingNameError, "x"),
    ("nn.ModuleDict({}).pop('x')", MissingNameError, "pop key"),
    ("nn.Linear(2, 3).load_state_dict(None)", MiniTorchError, "load_state_dict state_dict"),
    ("nn.Module()(3)", MissingMethodError, "forward"),
    ("nn.init.normal_(3)", DTypeError, "normal_ tensor"),
    (f"mt.optim.SGD({PARAMETER}, lr='1')", ArgumentError, "SGD lr"),
    (f"mt.optim.Adam({PARAMETER}, betas=(0.5,))", ArgumentError, "Adam betas"),
    (f"mt.optim.Adam({PARAMETER}, maximize=mt.ones(2))", ArgumentError, "Adam maximize"),
    (f"{OPTIMIZER}.load_state_dict(None)", CheckpointError, "optimizer load_state_dict"),
    (f"{OPTIMIZER}.step(3)", DTypeError, "step closure"),
    (f"{SCHEDULE}.StepLR({OPTIMIZER}, 0)", ArgumentError, "StepLR step_size"),
    (f"{SCHEDULE}.StepLR({OPTIMIZER}, 1, '2')", ArgumentError, "StepLR gamma"),
    (f"{SCHEDULE}.CosineAnnealingLR({OPTIMIZER}, 0)", ArgumentError, "CosineAnnealingLR T_max"),
    (f"{SCHEDULE}.LinearLR({OPTIMIZER}, total_iters=0)", ArgumentError, "LinearLR total_iters"),
    (f"{SCHEDULE}.PolynomialLR({OPTIMIZER}, 0)", ArgumentError, "PolynomialLR total_iters"),
    (f"{SCHEDULE}.LambdaLR({OPTIMIZER}, None)", DTypeError, "LambdaLR lr_lambda"),
    (f"{SCHEDULE}.NoamLR({OPTIMIZER}, 0, 3)", ArgumentError, "NoamLR d_model"),
    (f"{SCHEDULE}.OneCycleLR({OPTIMIZER}, 'x', 3)", ArgumentError, "OneCycleLR max_lr"),
    ("mt.generation.SequenceBiasLogitsProcessor(2)", DTypeError, "SequenceBias sequence_bias"),
    ("mt.generation.TopPLogitsWarper('x')", ArgumentError, "TopPLogitsWarper top_p"),
    ("mt.utils.data.TensorDataset(3)", DTypeError, "TensorDataset tensors"),
    ("next(iter(mt.utils.data.RandomSampler([], num_samples=3)))", ArgumentError, "RandomSampler"),
    ("mt.autograd.backward(3)", DTypeError, "backward outputs"),
    ("mt.set_grad_enabled(mt.ones(2))", ArgumentError, "set_grad_enabled mode"),
    ("mt.linalg.vector_norm(mt.ones(2), keepdim=np.ones(2))", ArgumentError, "vector_norm keepdim"),
    ("mt.linalg.norm(mt.ones(2), keepdim=np.ones(2))", ArgumentError, "norm keepdim"),
    ("mt.fft.rfft(mt.ones(2), norm=[])", MiniTorchError, "rfft norm"),
    ("mt.cast(np.array(None), 'float32')", DTypeError, "cast input"),
    ("mt.cast(mt.ones(2), 'x')", DTypeError, "cast dtype"),
    ("mt.as_dtype('\\ud800')", DTypeError, "as_dtype dtype"),
    ("mt.promote_types(3, 4)", DTypeError, "promote_types type1"),
    ("mt.result_type('x')", DTypeError, "result_type operands"),
    ("mt.linear(np.array(['a']), np.array(['b']))", DTypeError, "linear input"),
    ("mt.matmul(np.array([None]), mt.ones(1))", DTypeError, "matmul"),
    ("mt.max(mt.zeros([1] * 64), 0)", MiniTorchError, "max input"),
    ("mt.unsqueeze(mt.zeros([1] * 64), 0)", ShapeError, "unsqueeze input 65"),
    ("mt.stack([mt.zeros([1] * 64)] * 2)", ShapeError, "stack tensors 65"),
    ("mt.zeros([1] * 64)[mt.zeros(2, 3, dtype=mt.int64)]", MiniTorchError, "x[index]"),
    ("mt.ones(2, 3)[np.ma.masked_array([1, 2], [0, 1])]", IndexRangeError, "x[index] 2"),
    ("mt.tensor_split(mt.ones(3), 2**31)", ArgumentError, "tensor_split indices_or_sections"),
    ("mt.set_printoptions(linewidth=2**63)", ArgumentError, "set_printoptions linewidth"),
    ("nn.MultiheadAttention(10**30, 3)", ArgumentError, "MultiheadAttention embed_dim num_heads"),
    ("nn.TransformerDecoderLayer(10**30, 3)", ArgumentError, "TransformerDecoderLayer d_model"),
    ("nn.KVCache().layer(10**12)", ArgumentError, "KVCache.layer i"),
    ("nn.KVCache().cross(10**12)", ArgumentError, "KVCache.cross i"),
    ("mt.models.GPT(11, 8, 8, 2, 10**12)", ArgumentError, "GPT num_layers"),
    ("mt.models.Llama(11, 8, 2, 1, 8, head_dim=2**31)", ArgumentError, "Llama head_dim"),
    ("mt.models.Swin(8, 2, depths=[10**12], num_heads=[1])", ArgumentError, "Swin depths"),
    ("mt.models.T5(11, 8, 2, 10**12)", ArgumentError, "T5 num_layers"),
    ("mt.models.VisionTransformer(8, 4, num_layers=10**12)", ArgumentError, "num_layers"),
    ("mt.models.GPT(11, 8, 8, 2, 1).embed(3)", MiniTorchError, "GPT.embed"),
    ("nn.Embedding.from_pretrained([[1.0]])", DTypeError, "Embedding.from_pretrained embeddings"),
    ("nn.Embedding.from_pretrained(mt.Tensor)", DTypeError, "Embedding.from_pretrained embeddings"),
    ("nn.AdditiveAttention(3, 3, 4).attend(mt.ones(1, 2, 3), 3, 4)", DTypeError, "attend value"),
    ("nn.evaluating(3).__enter__()", DTypeError, "evaluating model"),
    ("nn.watch_attention(3, print).__enter__()", DTypeError, "watch_attention module"),
    ("nn.collect_attention(3).__enter__()", DTypeError, "collect_attention module"),
    ("nn.collect_outputs(3).__enter__()", DTypeError, "collect_outputs modules"),
    ("nn.collect_outputs([3]).__enter__()", DTypeError, "collect_outputs modules"),
    ("nn.Sequential(nn.ReLU()) + 1.0", DTypeError, "Sequential.__add__ values"),
    ("nn.ModuleList([nn.ReLU()])['a']", DTypeError, "ModuleList index"),
    ("nn.ParameterDict({'a': mt.ones(2)})[1.0]", MissingNameError, "ParameterDict key"),
    ("np.ones(2) in nn.ModuleDict({'a': nn.ReLU()})", DTypeError, "ModuleDict key"),
    ("format(mt.ones(2), '.3f')", DTypeError, "format spec"),
    ("format(mt.tensor(2.0), 'x')", ArgumentError, "format spec"),
    ("setattr(mt.ones(2), 'data', 3)", DTypeError, "data"),
    ("setattr(mt.ones(2), 'data', np.array(['a']))", DTypeError, "data"),
    ("mt.amp.GradScaler().step(3)", DTypeError, "GradScaler.step optimizer"),
    ("mt.Generator().manual_seed(float('nan'))", ArgumentError, "Generator.manual_seed seed"),
    ("mt.LongTensor(mt.ones(2), 3)", ArgumentError, "LongTensor data"),
    ("nn.CosineSimilarity()(mt.ones(3), mt.ones(2))", ShapeError, "cosine_similarity x1 x2"),
    ("mt.memory.track(3)", DTypeError, "track owners"),
    ("mt.tracing.LineRecording(['no.py'])", DataError, "LineRecording no.py"),
    ("mt.tracing.Recording(nn.Linear)", DTypeError, "Recording expand"),
    ("mt.data.CharTokenizer('ab').encode(3)", DTypeError, "CharTokenizer text"),
    ("mt.data.CharTokenizer('ab').decode([float('nan')])", DTypeError, "CharTokenizer.decode ids"),
    ("mt.data.WordTokenizer(3)", DTypeError, "WordTokenizer vocabulary"),
    ("mt.data.TextBatches(range(9), 1.5, 3)", ArgumentError, "TextBatches batch_size"),
    ("mt.data.BucketedBatches([1, 2], 1e308)", ArgumentError, "BucketedBatches batch_size"),
    ("mt.data.ShuffledBatches([np.ones(3)], 'x')", MiniTorchError, "ShuffledBatches batch_size"),
    ("mt.data.digits_split(test_share=2)", ArgumentError, "digits_split test_share"),
    ("mt.data.ImageProcessor(2.0)", DTypeError, "ImageProcessor mean"),
    ("mt.viz.image_rows_figure([[]], [])", ArgumentError, "image_rows_figure rows"),
    ("mt.viz.image_rows_figure([[np.ones(3)]], ['a'])", ShapeError, "image_rows_figure rows"),
    ("mt.viz.cross_attention_figure([(np.ones(3), 'a', 'b')])", ShapeError, "figure maps"),
    ("mt.viz.masks_figure('x')", ArgumentError, "masks_figure masks"),
    ("mt.viz.windows_figure(10**7)", ArgumentError, "windows_figure height"),
    ("mt.viz.loss_figure(3)", DTypeError, "loss_figure metrics"),
])  # fmt: skip
def test_invalid_calls_name_the_function_and_the_argument(call, error, words):
    with pytest.raises(error) as caught:
        eval(call)
    for word in words.split():
        assert word in str(caught.value)


@pytest.mark.parametrize("call", [
    "x + b", "b - x", "x * b", "x / b", "x == b", "b >= x", "mt.maximum(x, b)",
    "mt.where(x > 0, x, b)", "x.masked_fill(x > 0, b)", "mt.add(x, b, alpha=2.0)",
    "mt.sub(x, 2, alpha=b)",
])  # fmt: skip
@pytest.mark.parametrize("b", [10**400, -(10**400)], ids=["positive", "negative"])
def test_integers_that_no_float_can_hold(call, b):
    with pytest.raises(ArgumentError, match="other|value") as caught:
        eval(call, {"mt": mt, "x": mt.ones(2), "b": b})
    assert re.search(r"an integer of 1,3\d\d bits", str(caught.value))


@pytest.mark.parametrize("hook", ["register_forward_pre_hook", "register_full_backward_hook"])
def test_hooks_that_return_3(hook):
    layer = nn.Linear(2, 3)
    options = {"with_kwargs": True} if "pre" in hook else {}
    getattr(layer, hook)(lambda *arguments: 3, **options)
    with pytest.raises(DTypeError, match=hook):
        layer(mt.ones(2, 2, requires_grad=True)).sum().backward()


def test_a_call_that_does_not_fit_the_signature_is_a_type_error():
    for call in (lambda: nn.Linear(3), lambda: nn.Linear(3, 3)(), lambda: mt.einsum()):
        with pytest.raises(TypeError, match="missing") as caught:
            call()
        assert type(caught.value) is TypeError


class Failing(nn.Module):
    def forward(self, x):
        return {}["a"]


def test_errors_of_code_outside_the_library_stay_as_they_are():
    for call in (
        lambda: Failing()(3),
        lambda: nn.Sequential(Failing())(3),
        lambda: mt.checkpoint(lambda x: {}["a"], 3),
        lambda: list(mt.utils.data.DataLoader([1, 2], collate_fn=lambda batch: {}["a"])),
    ):
        with pytest.raises(KeyError) as caught:
            call()
        assert type(caught.value) is KeyError


def test_the_cause_is_kept():
    with pytest.raises(DTypeError) as caught:
        nn.init.normal_(3)
    assert isinstance(caught.value.__cause__, AttributeError)


def test_only_the_function_that_the_user_called_is_named():
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.AdditiveAttention(-1, 2, 3)

    with pytest.raises(ArgumentError, match="^AdditiveAttention: Linear: in_features"):
        Mine()


@pytest.mark.parametrize("call", ["mt.ones(3, 4) + mt.ones(3)", "mt.ones(3, 4).add(mt.ones(3))"])
def test_an_operation_that_names_itself_is_not_named_again(call):
    with pytest.raises(MiniTorchError) as caught:
        eval(call)
    assert caught.value.message == "add(input, other): the shapes do not broadcast"
    assert caught.value.got == "input (3, 4) and other (3,)"


def test_an_assignment_that_is_not_written_yet_says_so():
    def missing(*args):
        raise mt.errors.NotYetWritten("Attention.forward")

    with pytest.raises(mt.errors.NotYetWritten, match="^Attention.forward: you have not"):
        mt.checkpoint(missing, 3)


def test_arrays_of_one_number_are_numbers():
    x = mt.ones(2, 3)
    assert x.sum(0, keepdim=np.bool_(True)).shape == (1, 3)
    assert (x + np.float32(2)).dtype == mt.float32
    np.testing.assert_array_equal((x * np.array(3)).numpy(), 3)


# Public functions with arguments that `names_arguments` does not decorate, by the reason.
UNNAMED = {
    "a basic operation, called many times in a step: it checks its arguments itself": """
        mt.abs mt.add mt.alias mt.bmm mt.cast mt.cat mt.clone mt.div mt.eq mt.exp mt.expand
        mt.flatten mt.ge mt.getitem mt.gt mt.le mt.linear mt.log mt.log_softmax mt.lt
        mt.masked_fill mt.matmul mt.maximum mt.mean mt.minimum mt.mm mt.mul mt.ne mt.neg mt.permute
        mt.pow mt.relu mt.reshape mt.rsqrt mt.setitem mt.sigmoid mt.silu mt.softmax mt.split mt.sqrt
        mt.square mt.squeeze mt.stack mt.sub mt.sum mt.tanh mt.transpose mt.unbind mt.unsqueeze
        mt.view mt.where F.relu F.silu mt.autograd.sum_to_shape""",
    "reads or writes files: its errors name the file, whose URL may contain a password": """
        mt.load mt.save mt.data.cifar10 mt.data.download mt.data.local_path mt.data.mnist
        mt.data.read_idx mt.data.read_image mt.data.read_parallel mt.data.read_text
        mt.data.read_tsv""",
    "passes its arguments on to a function or class that names them": """
        mt.trace mt.memory.track mt.autograd.op_log""",
    "does nothing with its arguments, or accepts all": """
        mt.is_tensor mt.compile mt.use_deterministic_algorithms mt.jit.annotate mt.jit.compile
        mt.jit.export mt.jit.ignore mt.jit.script mt.jit.unused""",
    "checks its only argument itself": """
        mt.cuda.get_device_name mt.profiling.ceilings""",
    "a context manager, through which the errors of the user's block pass": """
        nn.collect_attention nn.collect_outputs nn.evaluating nn.watch_attention""",
}
MODULES = """
mt F nn nn.init nn.utils nn.utils.rnn mt.masks mt.linalg mt.fft mt.optim mt.optim.lr_scheduler
mt.generation mt.utils mt.utils.data mt.autograd mt.amp mt.jit mt.cuda mt.backends mt.gradcheck
mt.data mt.viz mt.memory mt.tracing mt.profiling mt.training mt.einops mt.distributed
mt.distributed.functional
"""


def is_named(function):
    """Return True if `names_arguments` has decorated a function, perhaps below other decorators."""
    while getattr(function, "__code__", None) not in guards:
        if not hasattr(function, "__wrapped__"):
            return False
        function = function.__wrapped__
    return True


def test_every_public_function_names_its_arguments_or_has_a_reason():
    reasons = {name for names in UNNAMED.values() for name in names.split()}
    without, named = set(), set()
    for module in MODULES.split():
        holder = eval(module, {"mt": mt, "nn": nn, "F": nn.functional})
        names = {*vars(holder), *getattr(holder, "_DEFINED_IN", ())}
        for name in getattr(holder, "__all__", names):
            value = getattr(holder, name)
            ours = str(getattr(value, "__module__", "")).startswith("minitorch_attn")
            function = isinstance(value, types.FunctionType) and not name.startswith("_")
            if ours and function and inspect.signature(value).parameters:
                (named if is_named(value) else without).add((value, f"{module}.{name}"))
    listed = {value for value, name in without if name in reasons}
    assert sorted(name for value, name in without if value not in listed) == []
    assert reasons - {name for _, name in without} == set()  # all of the list are such functions
    assert len(named) > 400


def test_functions_without_names_on_purpose_have_errors_with_names():
    """Basic operations check their arguments themselves, so that the decorator is not needed."""
    for name in next(iter(UNNAMED.values())).split():
        function = eval(name, {"mt": mt, "F": nn.functional})
        count = sum(p.default is p.empty and p.kind != p.VAR_POSITIONAL
                    for p in inspect.signature(function).parameters.values())  # fmt: skip
        for value in ("x", None, [[]], 10**400, np.array(["a"])):
            with pytest.raises(MiniTorchError):
                function(*[value] * count)


def test_tensors_in_lists_and_tuples_are_described_by_their_shapes():
    with pytest.raises(MiniTorchError) as caught:
        mt.viz.attention_maps(mt.nn.Linear(12, 3), mt.randn(1, 4, 12))
    assert "inputs=(a Tensor of shape (1, 4, 12))" in str(caught.value)
    shape = "a Tensor of shape (2, 3)"
    assert f"[{shape}, {shape}, {shape}, ...]" in _short([mt.ones(2, 3)] * 5)
