"""All operations with their forward and backward passes, one mathematical idea per file."""

from types import ModuleType

from ..named_errors import names_arguments as _names_arguments
from ..named_errors import under_name as _under_name
from .arithmetic import *  # noqa: F403
from .attention import *  # noqa: F403
from .batch_norm import *  # noqa: F403
from .bilinear import *  # noqa: F403
from .broadcast import *  # noqa: F403
from .cast import *  # noqa: F403
from .cat_split import *  # noqa: F403
from .comparison import *  # noqa: F403
from .conv import *  # noqa: F403
from .creation import *  # noqa: F403
from .cross_entropy import *  # noqa: F403
from .ctc_loss import *  # noqa: F403
from .cumsum import *  # noqa: F403
from .distance import *  # noqa: F403
from .dropout import *  # noqa: F403
from .einsum import *  # noqa: F403
from .embedding import *  # noqa: F403
from .embedding_bag import *  # noqa: F403
from .exp_log import *  # noqa: F403
from .feed_forward import *  # noqa: F403
from .flip_roll_repeat import *  # noqa: F403
from .fold import *  # noqa: F403
from .gather_scatter import *  # noqa: F403
from .gelu import *  # noqa: F403
from .grid_sample import *  # noqa: F403
from .gru import *  # noqa: F403
from .gumbel_softmax import *  # noqa: F403
from .index_select import *  # noqa: F403
from .indexing import *  # noqa: F403
from .interpolate import *  # noqa: F403
from .layer_norm import *  # noqa: F403
from .lerp import *  # noqa: F403
from .linear import *  # noqa: F403
from .logical import *  # noqa: F403
from .loss_regression import *  # noqa: F403
from .lstm import *  # noqa: F403
from .matmul import *  # noqa: F403
from .max_min import *  # noqa: F403
from .pad import *  # noqa: F403
from .pixel_shuffle import *  # noqa: F403
from .plumbing import promotion as _promotion
from .plumbing.keyword_names import with_other_names as _with_other_names
from .pool import *  # noqa: F403
from .power import *  # noqa: F403
from .random import *  # noqa: F403
from .relu import *  # noqa: F403
from .reshape import *  # noqa: F403
from .rnn import *  # noqa: F403
from .rotary import *  # noqa: F403
from .rounding import *  # noqa: F403
from .scatter_reduce import *  # noqa: F403
from .searchsorted import *  # noqa: F403
from .sigmoid import *  # noqa: F403
from .sliding_windows import *  # noqa: F403
from .softmax import *  # noqa: F403
from .sort import *  # noqa: F403
from .sum_mean import *  # noqa: F403
from .triangle import *  # noqa: F403
from .trigonometric import *  # noqa: F403
from .unique import *  # noqa: F403
from .variance import *  # noqa: F403
from .vector_norm import *  # noqa: F403
from .where import *  # noqa: F403

# Aliases: other names of these functions in PyTorch and NumPy.
OTHER_NAMES = {
    "absolute": "abs", "clip": "clamp", "divide": "div", "greater": "gt", "greater_equal": "ge",
    "less": "lt", "less_equal": "le", "multiply": "mul", "negative": "neg", "not_equal": "ne",
    "subtract": "sub", "true_divide": "div",
}  # fmt: skip
for _name, _function in OTHER_NAMES.items():
    globals()[_name] = _under_name(_name, globals()[_function])

# Users get these wrapped versions, whose errors name the arguments; operations call the originals.
promote_types = _names_arguments(_promotion.promote_types)
result_type = _names_arguments(_promotion.result_type)

__all__ = [
    name
    for name, value in globals().items()
    if not name.startswith("_") and name.islower() and not isinstance(value, ModuleType)
]

for _name in __all__:
    globals()[_name] = _with_other_names(globals()[_name])
