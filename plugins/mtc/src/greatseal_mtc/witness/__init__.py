"""The witness: cosigns the checkpoints of other logs, each only after the one before."""
