"""Grade submissions: run each submission in its own process, and judge its results in this one."""
