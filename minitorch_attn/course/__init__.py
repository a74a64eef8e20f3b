"""The lessons: what they call, where they are, and how they are run, stepped through and opened.

A lesson imports `minitorch_attn.course.lesson`; the command `mta lesson` uses the rest.
"""
