"""Diagram of messages between ranks: a column per rank, a row per round, an arrow per message."""

from ..errors import ArgumentError
from ..named_errors import names_arguments
from .style import COLOURS, new_figure

__all__ = ["messages_figure"]


@names_arguments
def messages_figure(messages, ranks, label=None, title="Messages", color=None):
    """Plot each message as an arrow from the rank that sends it to the rank that receives it.

    Parameters
    ----------
    messages : list of Message
        Messages from `course.ranks.run_ranks`, with `source`, `target`, `round` and `values`.
    ranks : int
        Number of ranks.
    label : callable, optional
        Function that returns the text for the arrow of a message. By default, the text is the size
        of the message in bytes.
    title : str
    color : callable, optional
        Function that returns an integer for a message; messages with the same integer have the
        same color. By default, this is the rank that sends the message.

    Returns
    -------
    matplotlib.figure.Figure
        An arrow from the last rank to the first leaves the figure on the right and enters it again
        on the left.
    """
    if not messages:
        raise ArgumentError("messages_figure: there are no messages", hint="run several ranks")
    outside = {m.source for m in messages} | {m.target for m in messages}
    if not outside <= set(range(ranks)):
        raise ArgumentError(
            "messages_figure: ranks must be greater than every rank in the messages",
            got=f"ranks={ranks}, and messages that involve the ranks {sorted(outside)}",
        )
    label = label or (lambda message: f"{message.values.nbytes} B")
    color = color or (lambda message: message.source)
    rounds = max(message.round for message in messages)
    figure = new_figure(1.5 * ranks + 1.5, 0.42 * rounds + 1.3)
    axes = figure.subplots()
    for rank in range(ranks):
        axes.axvline(rank, color="0.85", linewidth=1, zorder=0)
    for message in messages:
        for start, stop in _pieces(message, ranks):
            _draw_arrow(axes, start, stop, message, label(message), color(message))
    goes_around = any(len(_pieces(message, ranks)) > 1 for message in messages)
    margin = 0.75 if goes_around else 0.35
    axes.set_xlim(-margin, ranks - 1 + margin)
    axes.set_ylim(rounds + 0.5, 0.4)
    axes.set_xticks(range(ranks), [f"rank {rank}" for rank in range(ranks)])
    axes.set_yticks(range(1, rounds + 1))
    axes.set_ylabel("round")
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11)
    return figure


def _pieces(message, ranks):
    """Return (start, stop) of a message's arrow, or of its two pieces if the arrow wraps around."""
    source, target = message.source, message.target
    if ranks > 2 and source == ranks - 1 and target == 0:
        return ((source, ranks - 0.3), (-0.7, 0))
    return ((source, target),)


def _draw_arrow(axes, start, stop, message, text, number):
    """Draw an arrow with its text above it; arrows to the left are drawn slightly lower."""
    height = message.round + (0.12 if stop < start else -0.12)
    color = COLOURS[number % len(COLOURS)]
    arrow = {"arrowstyle": "-|>", "color": color, "linewidth": 1.4, "shrinkA": 2, "shrinkB": 2}
    axes.annotate("", (stop, height), (start, height), arrowprops=arrow)
    if abs(stop - start) >= 1:  # the shorter piece is too short for text
        middle = (start + stop) / 2
        axes.text(middle, height - 0.06, text, ha="center", va="bottom", fontsize=8, color=color)
    elif stop > start >= 0:
        axes.text(stop, height - 0.06, text, ha="right", va="bottom", fontsize=8, color=color)
