"""Arguments of fuzzed calls: usual values for each parameter name, and unusual or invalid values.

Every value is a Python expression, so that a call can be printed as a line of code that reproduces
it. The expressions use the names `mt`, `nn`, `np`, `F`, `nan` and `inf`.
"""

__all__ = ["HOSTILE", "TENSORS", "usual"]

TENSORS = """
mt.ones(2, 3)|mt.rand(2, 3)|mt.rand(3, 2)|mt.rand(2, 3, 5)|mt.rand(2, 3, 7, 7)|mt.rand(2, 4)
mt.rand(4)|mt.tensor(2.0)|mt.tensor(1)|mt.arange(6).reshape(2, 3)|mt.zeros(2, dtype=mt.int64)
mt.tensor([True, False])|mt.rand(2, 3) > 0.5|mt.rand(2, 3, requires_grad=True)
mt.rand(2, 3, dtype=mt.float64)|mt.rand(2, 3).half()|mt.rand(3, 3)|mt.rand(2, 4, 4)
mt.rand(2, 2, 4, 4)|mt.rand(2, 8)|mt.rand(2, 5, 8)|mt.tensor([0, 1])|mt.tensor([[0, 1, 2]])
mt.rand(1, 3, 5, 5, 5)|mt.rand(3, 4).t()|mt.ones(3).expand(2, 3)|mt.randint(0, 3, (2, 5))
"""
TENSORS = [value for line in TENSORS.strip().split("\n") for value in line.split("|")]

HOSTILE = """
None|'x'|''|'1'|b'x'|True|False|0|1|-1|2|-7|2**31|2**63|-(2**63)|10**12|10**30|0.0|0.5|-0.5|1.0
1.5|2.7|1e308|nan|inf|-inf|1j|[]|()|{}|set()|[[]]|[None]|[None, None]|['a']|[1, 'a']|[[1], [2, 3]]
(0,)|(1, 2)|[1, 2, 3]|(-1,)|(0, 0)|(2, -1)|(2.5,)|(nan,)|(2**63,)|(10**12,)|(10**6, 10**6)|[True]
{'a': 1}|range(3)|slice(None)|slice('a')|...|object()|print|lambda *a: 3|lambda *a: None
iter([])|mt|mt.float32|mt.device('cpu')|'cuda:9'|'int64'|[mt.ones(2)]|[mt.ones(2), None]
(mt.ones(2), 3)|[mt.ones(2), mt.ones(3)]|mt.zeros(0)|mt.zeros(0, 3)|mt.zeros(2, 0)|mt.tensor(nan)
mt.tensor([inf, nan])|mt.zeros([1] * 64)|(1,) * 65|mt.ones(2, dtype=mt.uint8)
mt.ones(2, dtype=mt.bool)|mt.tensor(-1)|mt.tensor([-1, 99])|mt.tensor([2**62])
mt.rand(2, requires_grad=True)|mt.ones(2, dtype=mt.float16)|mt.tensor([[1, 2], [3, 4]])|np.ones(2)
np.ones((2, 3), dtype=np.float32)|np.array(3)|np.float32(2)|np.int64(1)|np.bool_(True)
np.array([1, None])|np.array(['a', 'b'])|np.array([1j])|np.array(None)|np.zeros((0, 3))
np.datetime64('2020-01-01')|nn.Linear(3, 3)|nn.Linear|nn.Parameter(mt.ones(2))|mt.no_grad()
[[mt.ones(2)], [mt.ones(2)]]|[mt.tensor(1), mt.tensor(2)]|mt.Tensor|mt.ones|70_000|2**31 - 1
10**400|-(10**30)|[10**30]|(10**9, 0)|'\\ud800'|'a\\0b'|'x' * 10**5|bytearray(3)|frozenset({1})
[None] * 3|mt.ones(2, device='strict')|mt.rand(2, 3, device='strict')|'strict'|mt.device('strict')
'cuda'|mt.ones([1] * 33)|np.zeros((1,) * 64)|np.array([[1, 2], [3, 4]], dtype=object)
np.ones(2, dtype='>f4')|np.array([10**30, 1], dtype=object)
np.ones(2, dtype=[('a', int)])|np.float16(nan)|np.uint64(2**64 - 1)|np.array([True, False])
np.array('a')|memoryview(b'xy')|__import__('fractions').Fraction(1, 3)
__import__('decimal').Decimal('nan')|type('A', (), {})()
type('A', (), {'__array__': lambda *a, **k: 3})()|type('A', (), {'__index__': lambda a: 2})()
type('A', (), {'shape': 3, 'dtype': 4})()|[[]] * 2|[[[[1]]]]|{1: mt.ones(2)}|mt.ones(2).grad_fn
mt.Generator()|F.relu|NotImplemented|Ellipsis|type|1 + 0j|-0.0|5e-324|slice(None, None, -1)
slice(mt.tensor(0), None)|[slice(None)]|((),)|(mt.tensor([0, 1]), mt.tensor([5, 6]))|[True, False]
[10**400]|'1' * 5000|(2, 'a')|[1.5, 2]
"""
HOSTILE = [value for line in HOSTILE.strip().split("\n") for value in line.split("|")]

_DIM, _SIZE = "0|1|-1|-2|2|(0, 1)|None", "1|2|3|4|8"
_FLAG, _PAIR = "True|False", "1|2|3|(1, 2)|(3, 3)|(1,)|0"
_FLOAT = "0.1|0.5|1.0|0.0|1e-5|2.0|1"
_USUAL = {
    "dim dim0 dim1 dim2 axis axis0 axis1 start_dim end_dim source destination dims offset": _DIM,
    "keepdim keepdims bias inplace affine elementwise_affine batch_first training normalize "
    "largest sorted descending stable unbiased is_causal ceil_mode replacement align_corners "
    "requires_grad track_running_stats shuffle drop_last amsgrad nesterov maximize": _FLAG,
    "size sizes shape output_size normalized_shape newshape": "(2, 3)|2|3|(6,)|(3, 2)|-1|(1,)|()",
    "kernel_size stride padding dilation output_padding scale_factor": _PAIR,
    "n m k in_features out_features embed_dim num_heads d_model nhead in_channels out_channels "
    "input_size hidden_size num_layers num_embeddings embedding_dim num_features num_groups groups "
    "steps chunks sections split_size_or_sections repeats num_classes head_dim max_length window "
    "dim_feedforward length batch_size num_samples diagonal upscale_factor downscale_factor "
    "query_len key_len steps_per_epoch step_size total_iters T_max max_len top_k width": _SIZE,
    "eps p lr alpha beta momentum weight_decay gamma value other std mean low high a b gain "
    "dropout attn_drop exponent min max threshold negative_slope label_smoothing lambd delta "
    "temperature penalty scale max_norm clip_value start_factor end_factor factor": _FLOAT,
    "betas": "(0.9, 0.999)|(0.0, 0.0)|[0.9, 0.9]",
    "reduction": "'mean'|'sum'|'none'|'x'",
    "mode": "'nearest'|'bilinear'|'reflect'|'constant'|'linear'|'min'|True|False",
    "approximate": "'none'|'tanh'",
    "nonlinearity": "'relu'|'tanh'|'linear'|'leaky_relu'",
    "activation": "'relu'|'gelu'|F.relu|'silu'",
    "dtype": "mt.float32|mt.float64|mt.int64|mt.bool|'float16'|None",
    "device": "'cpu'|None|mt.device('cpu')",
    "generator": "None",
    "index indices mask condition": "mt.tensor([0, 1])|mt.tensor([[0, 1, 0]])|mt.rand(2, 3) > 0.5"
    "|mt.zeros(2, 3, dtype=mt.int64)|0|(0, 1)|(mt.tensor([0]),)|...|slice(None, 1)",
    "target": "mt.rand(2, 3)|mt.tensor([0, 1])|mt.tensor([0.0, 1.0])"
    "|mt.zeros(2, 5, dtype=mt.int64)",
    "weight": "mt.rand(3)|mt.rand(4, 3)|mt.rand(4, 3, 3)|mt.rand(4, 3, 2, 2)|None|mt.rand(10, 3)",
    "tensors": "[mt.ones(2, 3), mt.ones(2, 3)]|(mt.ones(2), mt.ones(2))|[mt.ones(2)]|mt.ones(2, 3)",
    "parameters params": "[mt.rand(3, requires_grad=True)]|nn.Linear(2, 3).parameters()|[]"
    "|[{'params': [mt.rand(3, requires_grad=True)], 'lr': 0.1}]",
    "equation": "'ij,jk->ik'|'ii'|'i,j'|'bij,bjk->bik'|'...i->...'|'ij'",
    "modules": "nn.Linear(3, 3)|[nn.Linear(3, 3), nn.ReLU()]|{'a': nn.ReLU()}",
    "module model": "nn.Linear(3, 3)|nn.ReLU()",
    "hook fn function closure": "lambda *a: None|lambda *a: 3|lambda *a: a[-1]",
    "input_ids": "mt.tensor([[1, 2, 3]])|mt.tensor([[0, 1, 1, 1], [2, 2, 3, 4]])",
    "scores logits": "mt.rand(1, 8)|mt.rand(2, 8)",
    "eos_token_id bos_token_id": "1|[1, 2]|None|[0]",
    "milestones": "[1, 2]|[2]|[]",
    "lr_lambda": "lambda t: 0.5|lambda t: 1|[lambda t: 1]",
    "last_epoch": "-1|0|3",
    "dataset": "list(range(6))|mt.utils.data.TensorDataset(mt.rand(6, 2))",
    "state_dict": "{}|{'a': mt.ones(2)}|{'weight': mt.ones(3, 3), 'bias': mt.ones(3)}",
}  # fmt: skip
_USUAL = {name: values.split("|") for names, values in _USUAL.items() for name in names.split()}


def usual(name):
    """Return expressions that are valid for many functions with a parameter of this name."""
    return _USUAL.get(name.rstrip("_"), TENSORS)
