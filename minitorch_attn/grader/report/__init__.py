"""Reports for a graded class of students, made from the JSON documents that the grader writes."""
