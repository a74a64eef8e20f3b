"""Assignments made from the library itself: blank, release, strip for grading, and prove."""
