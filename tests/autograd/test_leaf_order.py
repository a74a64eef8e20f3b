"""Leaf order: after `number_early`, each gradient is complete before earlier layers are reached."""

import minitorch_attn as mt
from minitorch_attn.autograd.engine import add_accumulate_hook
from minitorch_attn.autograd.leaf_order import number_early


def order_of(leaves, forward, early=True):
    """Return the order in which gradients of the leaves and of the middle layer are complete."""
    found = []
    for name, leaf in leaves.items():
        add_accumulate_hook(leaf, lambda _, name=name: found.append(name))
    middle, loss = forward()
    middle.register_hook(lambda _: found.append("middle"))
    if early:
        number_early([loss], [leaf._current_edge()[0] for leaf in leaves.values()])
    loss.backward()
    return found


def test_the_last_layer_comes_first(make):
    leaves = {name: make(3) for name in ("first", "last", "both")}

    def forward():
        middle = (leaves["first"] * leaves["both"]).exp()
        return middle, (middle * leaves["last"] + leaves["both"]).sum()

    late = order_of(leaves, forward, early=False)
    assert late[0] == "middle"
    grads = {name: leaf.grad for name, leaf in leaves.items()}
    for leaf in leaves.values():
        leaf.grad = None
        leaf._edge[0].after_accumulate = None
    assert order_of(leaves, forward) == ["last", "middle", "both", "first"]
    for name, leaf in leaves.items():
        assert (leaf.grad == grads[name]).all()


def test_leaves_that_are_not_in_the_graph_are_returned(make):
    x, y, z = make(2), make(2), make(2)
    leaves = [leaf._current_edge()[0] for leaf in (x, y, z)]
    before = leaves[1].number
    assert number_early([(x * z).sum()], leaves) == {1} and leaves[1].number == before
    assert number_early([mt.ones(2)], leaves) == {0, 1, 2}
    assert number_early([x], leaves[:1]) == set()


def test_a_leaf_that_an_earlier_graph_uses_can_keep_its_number(make):
    x = make(2)
    (leaf,) = leaves = [x._current_edge()[0]]
    number_early([x.exp().sum()], leaves)
    before = leaf.number
    number_early([x.exp().sum()], leaves, keep=True)
    assert leaf.number == before
    number_early([x.exp().sum()], leaves)
    assert leaf.number > before
