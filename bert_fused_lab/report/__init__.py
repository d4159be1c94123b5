"""Does BERT help on my data?  What ``bert-fused-compare`` reports, and what ``bert-fused-attention`` draws."""
