"""autocast and GradScaler for CUDA devices, under their older names as in `torch.cuda.amp`."""

from .. import amp as _amp
from ..named_errors import names_arguments

__all__ = ["GradScaler", "autocast"]


class autocast(_amp.autocast):
    """`mt.autocast("cuda", ...)` with the arguments of `torch.cuda.amp.autocast`."""

    @names_arguments
    def __init__(self, enabled=True, dtype="float16", cache_enabled=True):
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(_amp.GradScaler):
    """`mt.amp.GradScaler("cuda", ...)` with the arguments of `torch.cuda.amp.GradScaler`."""

    def __init__(
        self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
        enabled=True,
    ):  # fmt: skip
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
