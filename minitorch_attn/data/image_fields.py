"""Types of the fields of `preprocessor_config.json` and of timm's `pretrained_cfg`."""

from ..schema import (
    FLAG,
    INTEGER,
    SIZE,
    TEXT,
    Kind,
    choice,
    either,
    list_of,
    map_of,
    number_from,
    optional,
    record,
)  # fmt: skip

__all__ = ["PREPROCESSOR", "TIMM_WEIGHTS"]

_EDGE = Kind("an integer from 1 to 65535", lambda n: SIZE.accepts(n) and n < 1 << 16)
_SIZE = either(_EDGE, list_of(_EDGE, 2), map_of(optional(_EDGE)))
_MEAN = list_of(number_from(-1000, 1000), 1, 3)
_STD = list_of(number_from(1e-6, 1000), 1, 3)

PREPROCESSOR = record(
    {},
    {
        **dict.fromkeys(
            ("do_resize", "do_rescale", "do_normalize", "do_center_crop", "do_pad"), optional(FLAG)
        ),
        "size": optional(_SIZE), "crop_size": optional(_SIZE),
        "image_mean": optional(_MEAN), "image_std": optional(_STD),
        "rescale_factor": optional(number_from(1e-9, 1000)),
        "resample": optional(either(choice(*range(6)), TEXT)),
        "image_processor_type": optional(TEXT), "feature_extractor_type": optional(TEXT),
    },
)  # fmt: skip
TIMM_WEIGHTS = record(
    {},
    {
        "input_size": optional(list_of(_EDGE, 3)), "crop_pct": optional(number_from(0.05, 20)),
        "crop_mode": optional(TEXT), "interpolation": optional(TEXT), "mean": optional(_MEAN),
        "std": optional(_STD), "fixed_input_size": optional(FLAG), "global_pool": optional(TEXT),
        "num_classes": optional(INTEGER),
    },
)  # fmt: skip
