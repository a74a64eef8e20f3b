"""Neural network layers: modules with parameters, named as in PyTorch."""

from ..absent_names import absent as _absent
from . import functional, init, masks, utils  # noqa: F401
from .activation import *  # noqa: F403
from .attention import *  # noqa: F403
from .batch_norm import *  # noqa: F403
from .collect_attention import *  # noqa: F403
from .containers import *  # noqa: F403
from .conv import *  # noqa: F403
from .data_parallel import DataParallel  # noqa: F401
from .dropout import *  # noqa: F403
from .embedding import *  # noqa: F403
from .eval_mode import *  # noqa: F403
from .feed_forward import *  # noqa: F403
from .flatten import *  # noqa: F403
from .kv_cache import *  # noqa: F403
from .layer_norm import *  # noqa: F403
from .linear import *  # noqa: F403
from .loss import *  # noqa: F403
from .luong_attention import *  # noqa: F403
from .masks import Mask  # noqa: F401
from .module import *  # noqa: F403
from .multihead_attention import *  # noqa: F403
from .padding import *  # noqa: F403
from .parameter import *  # noqa: F403
from .pooling import *  # noqa: F403
from .positional import *  # noqa: F403
from .recurrent_attention import *  # noqa: F403
from .rnn import *  # noqa: F403
from .rnn_cell import *  # noqa: F403
from .summary import *  # noqa: F403
from .transformer import *  # noqa: F403
from .upsample import *  # noqa: F403


def __getattr__(name):
    if name == "parallel":  # imports `distributed`
        from importlib import import_module

        return import_module(f"{__name__}.parallel")
    return _absent(__name__)(name)
