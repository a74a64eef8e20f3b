"""Progress of a training run, shown as a bar on a terminal or as lines in a file or pipe."""

import time

__all__ = ["Progress", "duration"]

_FIELDS = ("loss", "validation", "accuracy", "speed", "left")


class Progress:
    """Show loss, validation loss, speed and remaining time.

    This is a context manager. Pass it to `Loop` as `on_log`, and its `advance` as `on_step`.

    Parameters
    ----------
    steps : int
        Number of steps in the whole run.
    units_per_step : int
        Number of units, such as tokens, per step.
    start : int, default 0
        First step of a resumed run.
    console : rich.console.Console, optional
        Console for the output. Default: a console for standard output, which respects NO_COLOR.
    line_seconds : float, default 10
        Maximum time in seconds between two lines if the output is not a terminal. Each evaluation
        also prints a line.
    unit : str, default "tokens"
        Unit for the speed.
    """

    def __init__(
        self, steps, units_per_step, start=0, console=None, line_seconds=10.0, unit="tokens"
    ):
        from rich.console import Console

        self.steps = steps
        self.units_per_step = units_per_step
        self.unit = unit
        self.start = start
        self.console = Console(highlight=False) if console is None else console
        self.line_seconds = line_seconds
        self.loss = self.validation_loss = self.accuracy = None
        self.bar = _bar(self.console) if self.console.is_terminal else None
        self.started = self.last_shown = time.perf_counter()

    def __enter__(self):
        self.started = self.last_shown = time.perf_counter()
        if self.bar is not None:
            self.bar.start()
            fields = dict.fromkeys(_FIELDS, "")
            self.task = self.bar.add_task("", total=self.steps, completed=self.start, **fields)
        return self

    def __exit__(self, *exc_info):
        if self.bar is not None:
            self.bar.stop()
        return False

    def __call__(self, entry):
        """Show one log entry."""
        now = time.perf_counter()
        if entry["step"] == self.start:
            self.started = now  # ignore the evaluation before the first step
        self.loss = entry.get("loss", self.loss)
        self.validation_loss = entry.get("validation_loss", self.validation_loss)
        self.accuracy = entry.get("accuracy", self.accuracy)
        if self.bar is not None:
            self._refresh(entry["step"], now)
        elif "validation_loss" in entry or now - self.last_shown >= self.line_seconds:
            self.last_shown = now
            count = f"step {entry['step']:>{len(str(self.steps))}}/{self.steps}"
            texts = self._texts(entry["step"], now).values()
            self.console.print("  ".join([count, *filter(None, texts)]), soft_wrap=True)

    def advance(self, step):
        """Update the bar after a step. If the output is not a terminal, do nothing."""
        now = time.perf_counter()
        if self.bar is not None and now - self.last_shown >= 0.2:
            self._refresh(step, now)

    def _refresh(self, step, now):
        self.last_shown = now
        self.bar.update(self.task, completed=step, refresh=True, **self._texts(step, now))

    def _texts(self, step, now):
        """Format the losses, accuracy, speed and remaining time for the bar or for a line."""
        done, elapsed = step - self.start, now - self.started
        rate = done / elapsed if done and elapsed else None  # steps per second
        narrow = self.bar is not None and self.console.width < 100
        return {
            "loss": _number("loss", self.loss),
            "validation": _number("val" if narrow else "validation", self.validation_loss),
            "accuracy": "" if self.accuracy is None else f"accuracy {100 * self.accuracy:.1f} %",
            "speed": f"{rate * self.units_per_step:,.0f} {self.unit}/s" if rate else "",
            "left": f"{duration((self.steps - step) / rate)} left" if rate else "",
        }


def _number(name, value):
    return "" if value is None else f"{name} {value:.3f}"


def _bar(console):
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    return Progress(
        MofNCompleteColumn(),
        BarColumn(bar_width=None if console.width < 100 else 40),
        *[TextColumn(f"{{task.fields[{name}]}}") for name in _FIELDS],
        console=console,
        expand=console.width < 100,
        auto_refresh=False,
    )


def duration(seconds):
    """Format a duration in seconds for display.

    Examples
    --------
    >>> duration(8.4), duration(75), duration(3720)
    ('8 s', '1 min 15 s', '1 h 2 min')
    """
    seconds = max(round(seconds), 0)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    return f"{minutes // 60} h {minutes % 60} min"
