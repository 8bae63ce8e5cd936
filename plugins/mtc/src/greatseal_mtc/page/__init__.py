"""The page of a log, for people."""
