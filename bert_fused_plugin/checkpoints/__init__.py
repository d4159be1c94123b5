"""What checkpoints record of a model, how their files are read, and of which ones a training began."""
