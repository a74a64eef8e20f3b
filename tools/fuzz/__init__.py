"""Fuzzing: give the library invalid files and calls, and check that its own errors refuse them.

`python -m tools.fuzz readers --seed 0 --count 50000` gives mutated files to every reader, and
`python -m tools.fuzz calls --seed 0 --count 100000` gives invalid arguments to every function. The
only acceptable exceptions are the package's own errors, and TypeError for a wrong signature.
Each subcommand is a module of this package with a function `main(arguments)`.
"""
