"""BERT's input and states for the sentences of fairseq's data sets."""
