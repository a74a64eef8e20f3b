"""Every operation, one mathematical idea per file, forward and backward side by side."""

from types import ModuleType

from .activation import *  # noqa: F403
from .arrange import *  # noqa: F403
from .attention import *  # noqa: F403
from .batch_norm import *  # noqa: F403
from .blend import *  # noqa: F403
from .broadcast import *  # noqa: F403
from .cast import *  # noqa: F403
from .comparison import *  # noqa: F403
from .conv import *  # noqa: F403
from .creation import *  # noqa: F403
from .distance import *  # noqa: F403
from .dropout import *  # noqa: F403
from .einsum import *  # noqa: F403
from .elementwise import *  # noqa: F403
from .embedding import *  # noqa: F403
from .exponential import *  # noqa: F403
from .extreme import *  # noqa: F403
from .feed_forward import *  # noqa: F403
from .fold import *  # noqa: F403
from .gate import *  # noqa: F403
from .gru import *  # noqa: F403
from .index import *  # noqa: F403
from .interpolate import *  # noqa: F403
from .join import *  # noqa: F403
from .linear import *  # noqa: F403
from .logic import *  # noqa: F403
from .loss import *  # noqa: F403
from .loss_regression import *  # noqa: F403
from .lstm import *  # noqa: F403
from .matmul import *  # noqa: F403
from .norm import *  # noqa: F403
from .order import *  # noqa: F403
from .pad import *  # noqa: F403
from .pixel_shuffle import *  # noqa: F403
from .pool import *  # noqa: F403
from .power import *  # noqa: F403
from .promotion import promote_types, result_type  # noqa: F401
from .recurrent import *  # noqa: F403
from .reduce import *  # noqa: F403
from .rotary import *  # noqa: F403
from .rounding import *  # noqa: F403
from .scan import *  # noqa: F403
from .scatter import *  # noqa: F403
from .search import *  # noqa: F403
from .selection import *  # noqa: F403
from .shape import *  # noqa: F403
from .sigmoid import *  # noqa: F403
from .slices import *  # noqa: F403
from .sliding import *  # noqa: F403
from .softmax import *  # noqa: F403
from .triangle import *  # noqa: F403
from .trigonometric import *  # noqa: F403
from .variance import *  # noqa: F403
from .vector_norm import *  # noqa: F403

__all__ = [
    name
    for name, value in globals().items()
    if not name.startswith("_") and not isinstance(value, ModuleType) and name != "ModuleType"
]
