"""Reports on a graded class, all made from the documents that the grader writes."""
