"""The grader: a submission computes in a process of its own, and this process judges."""
