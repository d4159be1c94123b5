"""The pre-trained encoder: its flags, loading, states, and what checkpoints record of it."""
