"""The exercises: gradients with one mistake to find, and backward passes to write.

`load` knows the files, `work` the learner's copies, `check` runs a copy in a process of its own
and judges the arrays that come back by the library's own gradients.
"""
