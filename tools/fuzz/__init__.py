"""Fuzz the library: give it invalid files and arguments, and check that it raises its own errors.

`python -m tools.fuzz readers --seed 0 --count 50000` gives mutated files to every reader, and
`python -m tools.fuzz calls --seed 0 --count 100000` gives invalid arguments to every function. The
only acceptable exceptions are the package's own errors, and a TypeError if the arguments do not fit
the signature. Each subcommand is a module of this package with a function `main(arguments)`.
"""
