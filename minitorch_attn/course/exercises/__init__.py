"""Exercises: find a mistake in a gradient, or write a backward pass.

The module `load` reads the exercises, and `work` manages the learner's copies. `check` runs a copy
in a separate process, and compares the returned arrays with the library's own results.
"""
