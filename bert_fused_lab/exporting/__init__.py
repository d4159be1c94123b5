"""Finished models as files: means of checkpoints, and directories that can be moved."""
