"""The criterions."""
