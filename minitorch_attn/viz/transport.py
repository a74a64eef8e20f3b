"""Transport figures: which words of a sentence are aligned with which regions of an image."""

from ..errors import ShapeError
from ..named_errors import names_arguments
from .style import check_axes, host, new_figure

__all__ = ["transport_figure"]


@names_arguments
def transport_figure(scenes, title="Transport plans"):
    """Plot each image with numbered regions, and next to it the transport plan (word, region).

    Parameters
    ----------
    scenes : sequence of (image, boxes, words, plan)
        Image of shape (height, width) with values from 0 (paper) to 1 (ink); boxes of shape
        (region, 4), as left, top, right and bottom in pixels; list of words; and transport plan of
        shape (word, region).
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ShapeError
        If an array has the wrong number of axes, or a plan does not match its words and boxes.
    """
    for image, boxes, words, plan in scenes:
        check_axes(image, 2, "transport_figure", "scenes", "(height, width)")
        check_axes(plan, 2, "transport_figure", "scenes", "(word, region)")
        if plan.shape != (len(words), len(boxes)):
            raise ShapeError(
                "transport_figure: a plan does not match its words and boxes",
                got=f"a plan of shape {plan.shape} for {len(words)} words and {len(boxes)} boxes",
            )
    rows = max(len(scenes), 1)
    figure = new_figure(6.0, 2.3 * rows + 0.5)
    grid = figure.subplots(rows, 2, squeeze=False)
    for axes in grid.ravel():
        axes.set_axis_off()
    for (left, right), (image, boxes, words, plan) in zip(grid, scenes, strict=False):
        _draw_scene(left, host(image), host(boxes))
        _draw_plan(right, words, host(plan))
    figure.suptitle(title, fontsize=12)
    return figure


def _draw_scene(axes, image, boxes):
    axes.set_axis_on()
    axes.set_xticks([])
    axes.set_yticks([])
    axes.imshow(image, cmap="gray_r", vmin=0, vmax=1.3)
    for number, (left, top, right, bottom) in enumerate(boxes, 1):
        x = [left, right, right, left, left]
        axes.plot([v - 0.5 for v in x], [v - 0.5 for v in (top, top, bottom, bottom, top)],
                  color="#0072b2", linewidth=1.2)  # fmt: skip
        axes.text(left - 1, top - 1, str(number), color="#0072b2", ha="right", va="center")


def _draw_plan(axes, words, plan):
    axes.set_axis_on()
    axes.imshow(plan, cmap="Oranges", vmin=0, vmax=max(plan.max(initial=0), 1e-12), aspect="auto")
    axes.set_xticks(range(plan.shape[1]), [str(n + 1) for n in range(plan.shape[1])])
    axes.set_yticks(range(len(words)), words)
    axes.set_xlabel("region")
    axes.tick_params(length=0)
