"""`python -m benchmarks gpu`: test and measure on a GPU, unattended, in under 35 minutes.

command.py     the command: one process for each part, a time limit for each, results kept
parts.py       what such a process runs
workloads.py   W1 to W7 beside PyTorch
kernels.py     every kernel beside the composed version of its operation
attention.py   attention by number of tokens
graphs.py      a step as a CUDA graph beside the same step, launched call by call
calls.py       kernel launches, copies and memsets of a step
timing.py      rounds in which every engine takes its turn
page.py        the tables in docs/devices.md
"""
