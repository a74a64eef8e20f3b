"""Grade submissions: run each in its own process, and judge the results in the grader's process."""
