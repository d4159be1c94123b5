"""Reads checkpoints, also those of which a training began."""
