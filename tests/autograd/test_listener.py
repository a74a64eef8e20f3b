"""Listeners: what they receive, in which order, and only from their own thread."""

import threading

import pytest

import minitorch_attn as mt
from minitorch_attn.autograd import modes
from minitorch_attn.autograd.listener import Listener


class Diary(Listener):
    def __init__(self):
        self.entries = []

    def before_forward(self, ctx, inputs):
        self.entries.append(f"{ctx.function.__name__} of {len(inputs)}")

    def record_forward(self, ctx, inputs, outputs):
        self.entries.append(f"{ctx.function.__name__} made {outputs.shape}")

    def before_backward(self, ctx, grads):
        self.entries.append(f"backward of {ctx.function.__name__}")

    def record_backward(self, ctx, grads, results):
        self.entries.append(f"{len(results)} from {ctx.function.__name__}")

    def record_gradient(self, tensor):
        self.entries.append(f"gradient {tensor.grad.shape}")

    def enter_module(self, module):
        self.entries.append(f"into {type(module).__name__}")

    def leave_module(self, module):
        self.entries.append(f"out of {type(module).__name__}")


def test_the_order_of_a_step(make):
    x = make(3)
    with Diary() as diary:
        mt.nn.ReLU()(x).sum().backward()
    assert diary.entries == [
        "into ReLU", "Relu of 1", "Relu made (3,)", "out of ReLU", "Sum of 1", "Sum made ()",
        "backward of Sum", "1 from Sum", "backward of Relu", "1 from Relu", "gradient (3,)",
    ]  # fmt: skip
    count = len(diary.entries)
    x.exp()
    assert len(diary.entries) == count and modes.watchers == 0


def test_a_module_that_raises_is_left_and_hooks_still_run(make):
    class Broken(mt.nn.Module):
        def forward(self, x):
            raise ZeroDivisionError

    seen, layer = [], mt.nn.ReLU()
    layer.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    with Diary() as diary, pytest.raises(ZeroDivisionError):
        layer(make(3))
        Broken()(make(3))
    assert diary.entries[-2:] == ["into Broken", "out of Broken"] and seen == [(3,)]


def test_many_threads_may_start_and_stop_listening():
    def work():
        for _ in range(2000):
            with Listener():
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert modes.watchers == 0
