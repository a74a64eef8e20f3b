"""Mutation testing of the backward passes: check that the tests detect wrong gradients.

`python -m tools.mutate` creates mutants: copies of a `backward` method, or of a function that only
`backward` methods call, with one change each. A change affects, for example, a sign, a constant, an
axis or a term. At least one test that executes the changed statement must then fail. If all tests
pass, the mutant survives: either a test is missing, or the change has no effect. The file
`equivalent.toml` lists the changes without an effect, with the reasons.

    targets.py    find the functions to change
    mutants.py    make the changes
    forks.py      run a job in a forked process, with a time limit
    trial.py      run the tests of one changed function
    campaign.py   run the tests on every mutant and collect the verdicts
    command.py    command-line interface, progress display and results table
"""
