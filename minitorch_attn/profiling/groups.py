"""Groups of profiled events, by operation or by module, with total time, FLOPs and bytes."""

__all__ = ["Group", "by_module", "by_op"]


class Group:
    """Total cost of the events of one operation or module.

    Attributes
    ----------
    name : str
        Name of the operation, or path of the module.
    around : tuple of str
        Paths of the enclosing modules, the outermost first.
    calls : int
        Number of forward calls.
    forward, backward : float
        Time in seconds.
    flops, nbytes, elements : int
        Totals for forward and backward.
    """

    def __init__(self, name, around=()):
        self.name, self.around = name, around
        self.calls = self.flops = self.nbytes = self.elements = 0
        self.forward = self.backward = 0.0

    @property
    def label(self):
        """Name of the group: for a module, its path relative to the enclosing module."""
        return self.name.removeprefix(f"{self.around[-1]}.") if self.around else self.name

    @property
    def seconds(self):
        """Total time in seconds for forward and backward."""
        return self.forward + self.backward

    def add(self, event):
        """Add the time, FLOPs, bytes and elements of an event. The caller must update `calls`."""
        if event.phase == "forward":
            self.forward += event.own_seconds
        else:
            self.backward += event.own_seconds
        self.flops += event.flops
        self.nbytes += event.nbytes
        self.elements += event.elements

    def __repr__(self):
        return f"<Group: {self.name}, {self.calls} calls, {self.seconds * 1e3:.3f} ms>"


def by_op(events):
    """Return one Group for each operation, sorted by decreasing time."""
    groups = {}
    for event in events:
        if event.phase != "module":
            group = groups.setdefault(event.name, Group(event.name))
            group.add(event)
            group.calls += event.phase == "forward"
    return sorted(groups.values(), key=lambda group: -group.seconds)


def by_module(events):
    """Return one Group for each module, in the order of their first calls.

    A module's Group contains all events inside the module, including those of its submodules.
    """
    calls = [event for event in events if event.phase == "module"]
    calls.sort(key=lambda event: (event.start, len(event.modules)))
    groups = {}
    for call in calls:
        group = groups.setdefault(call.name, Group(call.name, call.modules))
        group.calls += 1
    for event in events:
        if event.phase != "module":
            for path in dict.fromkeys(event.modules):
                if path in groups:
                    groups[path].add(event)
    return list(groups.values())
