"""Mutation testing of the backward passes: check that the tests detect wrong gradients.

`python -m tools.mutate` makes one change at a time (a mutant) in the body of a `backward` method or
of a function that only `backward` methods call. A change affects, for example, a sign, a constant,
an axis or a term. At least one test that executes the changed statement must then fail. A mutant
that no test detects survives: either a test is missing, or the change has no effect. Changes
without an effect are listed with their reasons in `equivalent.toml`.

    targets.py    find the functions to change
    mutants.py    make the changes
    forks.py      run a job in a forked process, with a time limit
    trial.py      run the tests of one changed function
    campaign.py   run the tests on every mutant and collect the verdicts
    command.py    command-line interface, progress display and results table
"""
