"""GitHub Actions workflow that grades the assignment in a student's repository."""

import re

from ...errors import ArgumentError

__all__ = ["workflow"]


def workflow(name, version):
    """Return the text of `.github/workflows/grade.yml`.

    The job reads the grade from `results.json`. The exit status of the student's code has no
    effect.

    Parameters
    ----------
    name : str
        Name of the assignment.
    version : str
        Version of the package to install.

    Returns
    -------
    str
    """
    for word in (name, version):
        if not re.fullmatch(r"[A-Za-z0-9_.+-]+", word):
            raise ArgumentError(
                "workflow: name and version must consist of letters, digits, _, ., + and -",
                got=repr(word),
            )
    return _WORKFLOW.replace("NAME", name).replace("VERSION", version)


_WORKFLOW = """\
name: grade
on: [push, workflow_dispatch]
permissions:
  contents: read
jobs:
  grade:
    runs-on: ubuntu-24.04
    timeout-minutes: 15
    steps:
      - uses: actions/checkout@v4
        with:
          path: submissions/work
          persist-credentials: false
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - name: Install the grader
        run: |
          sudo apt-get update && sudo apt-get install -y bubblewrap
          python -m pip install minitorch-attn==VERSION
      - name: Grade
        # As root, so that level 2 is available where namespaces are not allowed.
        run: |
          sudo "$(command -v python)" -m minitorch_attn course grade NAME submissions \\
            --out results --require-sandbox 2
      - name: Show the grades
        if: always()
        shell: python
        run: |
          import json, os
          with open("results/results.json", encoding="utf-8") as file:
              (document,) = json.load(file)["submissions"]
          rows = ["| check | points | of |", "| --- | --- | --- |"]
          for line in document["checks"]:
              rows.append(f"| {line['name']} | {line['points']:g} | {line['max_points']:g} |")
          rows += ["", f"**{document['score']:g} of {document['max_score']:g} points**"]
          with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as file:
              file.write("\\n".join(rows) + "\\n")
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: feedback
          path: results/students
"""
