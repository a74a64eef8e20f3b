"""Reports on a graded class, generated from the JSON documents that the grader writes."""
