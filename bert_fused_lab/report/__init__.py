"""Does BERT help on my data?  Scores, tests and the page of ``bert-fused-compare``."""
