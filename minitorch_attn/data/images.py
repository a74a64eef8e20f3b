"""Read images and preprocess them for a model (resize, crop, rescale, normalize)."""

import math
import os

import numpy as np

from ..errors import ArgumentError, DataError, DTypeError
from ..named_errors import NamedErrors
from ..schema import check, read_json
from ..tensor import tensor
from .image_fields import PREPROCESSOR, TIMM_WEIGHTS
from .image_sizes import exactly, in_proportion, rule_for, shortest_edge, two

__all__ = ["ImageProcessor", "read_image"]

# Formats that contain only pixels; Pillow also supports formats that run other programs.
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
_HALF = (0.5, 0.5, 0.5)
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_COMMON = {"do_resize": True, "do_rescale": True, "do_normalize": True, "rescale_factor": 1 / 255}
_SHORTEST = _COMMON | {
    "size": {"shortest_edge": 224}, "crop_size": 224, "do_center_crop": True, "resample": 3,
    "image_mean": _CLIP[0], "image_std": _CLIP[1], "do_convert_rgb": True,
}  # fmt: skip
# Default values for preprocessor_config.json, by the class that wrote the file.
_DEFAULTS = {
    "ViT": _COMMON | {"size": 224, "resample": 2, "image_mean": _HALF, "image_std": _HALF},
    "DeiT": _COMMON | {"size": 256, "crop_size": 224, "do_center_crop": True, "resample": 3,
                       "image_mean": _HALF, "image_std": _HALF},
    "CLIP": _SHORTEST,
    "Bit": _SHORTEST,
}  # fmt: skip


def read_image(path):
    """Open an image and rotate it according to its EXIF orientation.

    Parameters
    ----------
    path : str or path
        BMP, GIF (its first frame), JPEG, PNG, PPM, TIFF or WebP.

    Returns
    -------
    PIL.Image.Image

    Raises
    ------
    DataError
        If the file is not an image, is damaged, or exceeds Pillow's size limit.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    name = os.fspath(path)
    try:
        with Image.open(path, formats=_FORMATS) as image:
            return ImageOps.exif_transpose(image)
    except UnidentifiedImageError:
        raise DataError(
            f"{name} is not an image",
            expected=f"an image in one of the formats {', '.join(_FORMATS)}",
            hint="convert other formats to PNG with an image editor",
        ) from None
    except Image.DecompressionBombError as error:
        raise DataError(
            f"{name}: the image is too large",
            got=str(error), hint="reduce its size with an image editor",
        ) from None  # fmt: skip
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(
            f"{name} could not be read as an image",
            got=reason, hint="the file may be incomplete: download or copy it again",
        ) from None  # fmt: skip


class ImageProcessor(NamedErrors):
    """Preprocess images of any size into a batch, exactly as Hugging Face or timm do.

    Usually created by `from_pretrained`, `from_config` or `from_pretrained_cfg`.

    Parameters
    ----------
    mean, std : sequence of float, optional
        Mean and standard deviation of each channel for normalization. If they have one entry,
        images are converted to grayscale. Default: no normalization.
    new_size : callable, optional
        Function from an image's (height, width) to the (height, width) after resizing.
    resample : int or str, default "bilinear"
        Name or number of Pillow's resampling filter.
    crop_size : (int, int), optional
        Height and width of the center crop; smaller images are padded.
    place : callable, optional
        Function that takes the sizes of the image and of the crop along one axis, and returns the
        position where the crop starts.
    fill : sequence of int, optional
        Color of the padding, from 0 to 255. Default: black.
    rescale : callable, optional
        Function from uint8 to float32 values. Default: divide by 255.
    on_white : bool, default False
        If True, draw transparent images on white instead of dropping the transparency.

    Examples
    --------
    >>> processor = ImageProcessor.from_config({"size": 32})
    >>> picture = np.full((48, 64, 3), 255, dtype=np.uint8)
    >>> batch = processor([picture, picture])
    >>> batch.shape, batch.max().item()
    ((2, 3, 32, 32), 1.0)
    """

    def __init__(
        self, mean=None, std=None, *, channels=3, new_size=None, resample="bilinear",
        crop_size=None, place=None, fill=None, rescale=None, on_white=False,
    ):  # fmt: skip
        self.mean, self.std = (None if m is None else np.float32(m) for m in (mean, std))
        self.channels = channels if mean is None else len(mean)
        if self.channels not in (1, 3) or (mean is not None and len(std) != self.channels):
            raise ArgumentError(
                "ImageProcessor: the number of channels must be 1 or 3, and equal in mean and std",
                got=f"{self.channels} channels, std {std}",
            )
        self.new_size = new_size
        self.resample = _filter(resample)
        self.crop_size, self.place = crop_size, place or _place_of_torchvision
        self.fill = fill
        self.rescale = rescale or _divide_by_255
        self.on_white = on_white

    @classmethod
    def from_pretrained(cls, folder):
        """Read `preprocessor_config.json`, or the `pretrained_cfg` in timm's `config.json`.

        Parameters
        ----------
        folder : str or path

        Returns
        -------
        ImageProcessor
        """
        path = os.path.join(folder, "preprocessor_config.json")
        if os.path.isfile(path):
            return cls.from_config(read_json(path), where=path)
        path = os.path.join(folder, "config.json")
        config = read_json(path) if os.path.isfile(path) else {}
        if "pretrained_cfg" not in config:
            raise DataError(
                f"{os.fspath(folder)}: the image preprocessing configuration is missing",
                expected="preprocessor_config.json, or config.json with pretrained_cfg",
            )
        return cls.from_pretrained_cfg(config["pretrained_cfg"], where=f"{path}: pretrained_cfg")

    @classmethod
    def from_config(cls, config, where="preprocessor_config.json"):
        """Create a processor from the fields of `preprocessor_config.json` (transformers).

        Parameters
        ----------
        config : dict
            Fields for ViTImageProcessor (the default), or for the DeiT, CLIP or BiT processor.
        where : str or path
            Name of the configuration for error messages.

        Returns
        -------
        ImageProcessor
            Processor with the same results as the Pillow version of the transformers class.
        """
        check(config, PREPROCESSOR, where)
        kind = config.get("image_processor_type") or config.get("feature_extractor_type") or "ViT"
        for ending in ("Fast", "Pil", "ImageProcessor", "FeatureExtractor"):
            kind = kind.removesuffix(ending)
        if kind not in _DEFAULTS or config.get("do_pad"):
            raise DataError(
                "ImageProcessor: this image processor configuration is not supported",
                got="do_pad" if kind in _DEFAULTS else kind,
                expected=f"a processor for one of {', '.join(_DEFAULTS)}, without do_pad",
            )
        config = _DEFAULTS[kind] | {k: v for k, v in config.items() if v is not None}
        normalize, crop = config["do_normalize"], config.get("do_center_crop")
        if crop and "crop_size" not in config:  # not in the defaults of ViT
            raise DataError(
                f"{where}: crop_size is missing",
                got="do_center_crop: true", expected="crop_size, because do_center_crop is true",
                hint="copy the file from its source again",
            )  # fmt: skip
        return cls(
            config["image_mean"] if normalize else None,
            config["image_std"] if normalize else None,
            new_size=rule_for(config["size"], kind) if config["do_resize"] else None,
            resample=config["resample"],
            crop_size=two(config["crop_size"]) if crop else None,
            place=_place_of_transformers,
            rescale=_multiply(config["rescale_factor"] if config["do_rescale"] else 1),
            on_white=True,
        )

    @classmethod
    def from_pretrained_cfg(cls, config, where="pretrained_cfg"):
        """Create a processor from a timm model's `pretrained_cfg`.

        Parameters
        ----------
        config : dict
        where : str
            Name of the configuration for error messages.

        Returns
        -------
        ImageProcessor
            Processor with the same results as timm's evaluation transform.
        """
        check(config, TIMM_WEIGHTS, where)
        size = tuple((config.get("input_size") or (3, 224, 224))[1:])
        share, mode = config.get("crop_pct") or 0.875, config.get("crop_mode") or "center"
        larger = tuple(math.floor(length / share) for length in size)
        mean, std = (
            tuple(config.get(n) or d) for n, d in zip(("mean", "std"), _IMAGENET, strict=True)
        )
        if mode == "squash":
            new_size = exactly(larger)
        elif mode == "border":
            new_size = in_proportion(larger, max)
        elif mode == "center":
            square = larger[0] == larger[1]
            new_size = shortest_edge(larger[0]) if square else in_proportion(larger, min)
        else:
            raise DataError(
                "pretrained_cfg: crop_mode is not supported",
                got=repr(mode), expected="squash, border or center",
            )  # fmt: skip
        return cls(
            mean,
            std,
            new_size=new_size,
            resample=config.get("interpolation") or "bicubic",
            crop_size=size,
            fill=[min(max(round(255 * value), 0), 255) for value in mean]
            if mode == "border"
            else None,
        )

    def __call__(self, images, device=None):
        """Preprocess images.

        Parameters
        ----------
        images : image or sequence of images
            Paths, Pillow images, or uint8 arrays of shape (height, width) or (height, width,
            channels).
        device : str or Device, optional

        Returns
        -------
        float32 Tensor of shape (batch, channels, height, width)
        """
        if isinstance(images, str | os.PathLike) or hasattr(images, "getbands"):
            images = [images]
        elif isinstance(images, np.ndarray) and images.ndim < 4:
            images = [images]
        prepared = [self._prepare(image) for image in images]
        if len({image.shape for image in prepared}) > 1:
            raise DataError(
                "ImageProcessor: all images of a batch must have the same size after preprocessing",
                got=", ".join(sorted({str(image.shape[1:]) for image in prepared})),
                hint="use a processor that crops, or resizes to a fixed height and width",
            )
        if not prepared:
            raise ArgumentError("ImageProcessor: images must not be empty")
        return tensor(np.stack(prepared), device=device)

    def _prepare(self, image):
        """Preprocess one image to a float32 array of shape (channels, height, width)."""
        image = self._in_color(_opened(image))
        if self.new_size is not None:
            height, width = self.new_size(image.height, image.width)
            image = image.resize((width, height), self.resample)
        pixels = np.asarray(image)
        pixels = pixels.reshape(*pixels.shape[:2], self.channels)  # (height, width, channels)
        if self.crop_size is not None:
            pixels = self._crop(pixels)
        values = self.rescale(pixels)
        if self.mean is not None:
            values = (values - self.mean) / self.std
        return np.ascontiguousarray(values.transpose(2, 0, 1))

    def _in_color(self, image):
        """Convert an image to grayscale if `channels` is 1, otherwise to RGB."""
        see_through = "A" in image.getbands() or "transparency" in image.info
        if see_through and self.on_white:
            from PIL import Image

            image = image.convert("RGBA")
            white = Image.new("RGBA", image.size, (255, 255, 255, 255))
            image = Image.alpha_composite(white, image)
        return image.convert("L" if self.channels == 1 else "RGB")

    def _crop(self, pixels):
        """Return the center crop, padded if the image is too small."""
        result = np.zeros((*self.crop_size, self.channels), dtype=np.uint8)
        if self.fill is not None:
            result[:] = self.fill
        inside, outside = [], []
        for length, wanted in zip(pixels.shape, self.crop_size, strict=False):
            start = self.place(length, wanted)
            inside.append(slice(max(start, 0), min(start + wanted, length)))
            outside.append(slice(max(-start, 0), max(-start, 0) + min(wanted, length)))
        result[tuple(outside)] = pixels[tuple(inside)]
        return result


def _opened(image):
    from PIL import Image

    if isinstance(image, str | os.PathLike):
        return read_image(image)
    if isinstance(image, Image.Image):
        return image
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
        raise DTypeError(
            "ImageProcessor: the input is not an image",
            got=f"{type(image).__name__} of {getattr(image, 'dtype', 'no dtype')}",
            expected="a path, a Pillow image, or a uint8 array (height, width, channels)",
            hint='convert an array of floats from 0 to 1: (255 * image).astype("uint8")',
        )
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[:, :, 0]
    if image.ndim != 2 and not (image.ndim == 3 and image.shape[2] in (3, 4)):
        raise DTypeError(
            "ImageProcessor: an array of this shape is not an image",
            got=str(image.shape),
            expected="(height, width) or (height, width, channels), with 1, 3 or 4 channels",
            hint="if the channels come first, pass image.transpose(1, 2, 0)",
        )
    return Image.fromarray(image)


def _filter(resample):
    if resample in _FILTERS.values():
        return int(resample)
    if resample not in _FILTERS:
        raise ArgumentError(
            "ImageProcessor: resample is invalid", got=repr(resample), expected=str([*_FILTERS])
        )
    return _FILTERS[resample]


def _divide_by_255(pixels):
    return pixels.astype(np.float32) / np.float32(255)


def _multiply(factor):
    """Return a function that multiplies pixel values by `factor`, as transformers does.

    It multiplies in double precision and rounds the products to float32.
    """
    return lambda pixels: (pixels.astype(np.float64) * factor).astype(np.float32)


def _place_of_torchvision(length, wanted):
    """Return where a crop of `wanted` pixels starts; negative if padding comes first.

    When an odd number of pixels is cut off, the start is rounded to an even integer. When an odd
    number is added, the extra pixel is at the end.
    """
    return round((length - wanted) / 2) if length >= wanted else -((wanted - length) // 2)


def _place_of_transformers(length, wanted):
    """Return where a crop of `wanted` pixels starts; negative if padding comes first.

    When an odd number of pixels is cut off, the start is rounded down. When an odd number is added,
    the extra pixel is at the start.
    """
    return (length - wanted) // 2
