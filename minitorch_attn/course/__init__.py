"""Course: lessons (as scripts, cells and notebooks), exercises, and the user's progress.

A lesson imports `minitorch_attn.course.lesson`. The command `mta lesson` uses the other modules.
"""
