"""`python -m benchmarks gpu`: test and measure on a GPU, unattended, in under 35 minutes.

command.py     the command: runs each part in a process with a time limit, and stores the results
parts.py       the program that such a process runs
workloads.py   W1 to W7, compared with PyTorch
kernels.py     every kernel, compared with the composed version of its operation
attention.py   attention by sequence length
graphs.py      a step as a CUDA graph, compared with the same step launched call by call
calls.py       kernel launches, copies and memsets of a step
timing.py      time several steps, which take turns
page.py        the tables in docs/devices.md
"""
