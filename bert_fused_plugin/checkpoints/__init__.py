"""Finished models as files: averages of checkpoints, and directories that can be moved."""
