"""Chrome trace: export events in the format of chrome://tracing and ui.perfetto.dev."""

import json

__all__ = ["chrome_trace"]


def chrome_trace(events):
    """Return the events as JSON text in Chrome's trace format, with times in microseconds.

    Parameters
    ----------
    events : list of Event

    Returns
    -------
    str

    Notes
    -----
    Google's document "Trace Event Format" describes the format. Each event is a complete event
    ("ph": "X"). The viewer nests events of one thread by their times, so that operations appear
    inside the modules that called them.
    """
    entries = [
        {"name": "process_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "minitorch_attn"}}
    ]
    for event in sorted(events, key=lambda e: (e.start, -e.seconds, len(e.modules))):
        entries.append({
            "name": event.name if event.phase != "backward" else f"{event.name}.backward",
            "cat": event.phase,
            "ph": "X",
            "ts": event.start * 1e6,
            "dur": event.seconds * 1e6,
            "pid": 1,
            "tid": 1,
            "args": _details(event),
        })  # fmt: skip
    return json.dumps({"traceEvents": entries, "displayTimeUnit": "ms"})


def _details(event):
    if event.phase == "module":
        return {}
    shapes = ["-" if shape is None else str(shape) for shape in event.shapes]
    details = {"inputs": ", ".join(shapes), "bytes": event.nbytes, "flops": event.flops}
    if event.modules:
        details["module"] = event.modules[-1]
    return details
