"""Generation: turn the logits of a model into text."""

from types import ModuleType

from .config import *  # noqa: F403
from .constraints import *  # noqa: F403
from .ctc_decoding import *  # noqa: F403
from .generate import *  # noqa: F403
from .mask_predict import *  # noqa: F403
from .output import *  # noqa: F403
from .processors import *  # noqa: F403
from .sample_characters import *  # noqa: F403
from .stopping import *  # noqa: F403
from .streaming import *  # noqa: F403
from .translate import *  # noqa: F403
from .warpers import *  # noqa: F403
from .word_error_rate import *  # noqa: F403

__all__ = [
    name
    for name, value in globals().items()
    if not name.startswith("_") and not isinstance(value, ModuleType) and name != "ModuleType"
]
