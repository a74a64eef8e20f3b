"""Grade submissions: each runs in a separate process, and this process judges the results."""
