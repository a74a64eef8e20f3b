"""Events that belong together, summed up."""

__all__ = ["Group", "by_module", "by_op"]


class Group:
    """What some events have in common, and their sums.

    Attributes
    ----------
    name : str
        Of the operation, or the path of the module.
    around : tuple of str
        Paths of the modules around it, the outermost first.
    calls : int
        How often it ran forward.
    forward, backward : float
        Seconds.
    flops, nbytes, elements : int
        Of both together.
    """

    def __init__(self, name, around=()):
        self.name, self.around = name, around
        self.calls = self.flops = self.nbytes = self.elements = 0
        self.forward = self.backward = 0.0

    @property
    def label(self):
        """Its path from the module around it."""
        return self.name.removeprefix(f"{self.around[-1]}.") if self.around else self.name

    @property
    def seconds(self):
        """Of both together."""
        return self.forward + self.backward

    def add(self, event):
        """Add what an operation did; its call is counted by whoever knows what a call is."""
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
    """One Group for each operation, the longest first."""
    groups = {}
    for event in events:
        if event.phase != "module":
            group = groups.setdefault(event.name, Group(event.name))
            group.add(event)
            group.calls += event.phase == "forward"
    return sorted(groups.values(), key=lambda group: -group.seconds)


def by_module(events):
    """One Group for each module, with all that ran inside it, in the order of the first calls."""
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
