"""Image sizes: functions that compute the size of an image after resizing."""

from ..errors import DataError

__all__ = ["exactly", "in_proportion", "rule_for", "shortest_edge", "two"]


def two(size):
    """Convert a size, which is a number, a pair or a JSON object, to (height, width)."""
    if isinstance(size, int):
        return size, size
    if not isinstance(size, dict):
        return tuple(size)
    if size.get("height") is None or size.get("width") is None:
        raise DataError(
            "preprocessor_config.json: height or width is missing from a size", got=str(size)
        )
    return size["height"], size["width"]


def rule_for(size, kind):
    """Return a function that maps an image's (height, width) to its size after resizing.

    `size` is the field of preprocessor_config.json. `kind` is the model name in the class name of
    the image processor, such as "CLIP" in `CLIPImageProcessor`.
    """
    if isinstance(size, int) and kind in ("CLIP", "Bit"):
        size = {"shortest_edge": size}
    if isinstance(size, dict):
        size = {name: edge for name, edge in size.items() if edge is not None}
    if isinstance(size, dict) and set(size) == {"shortest_edge"}:
        return shortest_edge(size["shortest_edge"])
    if not isinstance(size, dict) or {"height", "width"} <= set(size):
        return exactly(two(size))
    raise DataError(
        "preprocessor_config.json: size is not supported",
        got=str(size), expected="height and width, or shortest_edge",
    )  # fmt: skip


def exactly(size):
    """Return a function that returns `size`, a (height, width), for an image of any size."""
    return lambda height, width: size


def shortest_edge(edge):
    """Return a function that keeps the aspect ratio and sets the shortest edge to `edge`."""

    def rule(height, width):
        longest = int(edge * max(height, width) / min(height, width))
        return (edge, longest) if height <= width else (longest, edge)

    return rule


def in_proportion(size, choose):
    """Return a function that scales (height, width) to a target, keeping the aspect ratio.

    `size` is the target (height, width). If `choose` is `min`, neither edge of the resized image is
    shorter than the target's edge. If it is `max`, neither edge is longer.
    """

    def rule(height, width):
        ratio = choose(height / size[0], width / size[1])
        return round(height / ratio), round(width / ratio)

    return rule
