"""Does the test suite notice a wrong derivative? Break each one in many ways, and see.

`python -m tools.mutate` changes one thing at a time in the body of every `backward`, and in the
functions that only backwards call: a sign, a constant, an axis, a dropped term. The tests that
execute the changed statement must then fail. A change that no test notices is a survivor: a hole
in the tests, or a change without an effect, declared with its reason in `equivalent.toml`.

    targets.py   which functions are changed
    mutants.py   which changes there are
    forks.py     running a job in a forked process, with a limit
    trial.py     running the tests of one changed function
    command.py   the command line, the progress line and the table
"""
