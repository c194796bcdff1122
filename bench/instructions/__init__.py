"""Instructions per call of the C hot paths: the one measurement that repeats to the last digit."""
