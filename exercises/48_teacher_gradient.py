"""A teacher that gets a gradient.

In DINO, a student learns to predict the output of a teacher for the same image:

    loss = mean of -sum_k p_k log q_k,
    p = softmax((teacher - center) / 0.04),   q = softmax(student / 0.1)

The teacher is a moving average of the student, and it must not receive a gradient. The function
returns the loss and the gradient of the teacher's output. The gradient check passes. Yet both
networks soon give the same output for every image. Read which properties fail, then find and fix
the one mistake.
"""

import minitorch_attn as mt
from minitorch_attn.autograd import gradcheck_report


def loss_and_teacher_gradient(student, teacher, center):
    """Return the loss, of shape (1,), followed by dL/dteacher, flattened, in one tensor."""
    # student: (batch, K)   teacher: (batch, K) of float32   center: (K,) of float32
    with mt.enable_grad():
        teacher = teacher.detach().to(student.dtype).requires_grad_()
        logits = (teacher - center) / 0.04
        target = logits.softmax(-1)
        log_q = (student / 0.1).log_softmax(-1)
        loss = -(target * log_q).sum(-1).mean()
        (gradient,) = mt.autograd.grad(loss, [teacher], create_graph=True, allow_unused=True)
    if gradient is None:  # the loss does not depend on the teacher
        gradient = mt.zeros_like(teacher)
    return mt.cat([loss.reshape(1), gradient.flatten()])


if __name__ == "__main__":
    student = mt.randn(3, 5, dtype=mt.float64) * 0.1
    given = (student.requires_grad_(), mt.randn(3, 5) * 0.1, mt.randn(5) * 0.1)
    print(gradcheck_report(loss_and_teacher_gradient, given).facts())
    print("\nthe gradient of the teacher's output:")
    print(loss_and_teacher_gradient(*given)[1:].detach().numpy().reshape(3, 5).round(3))
