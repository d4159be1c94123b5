"""From fairseq's token ids to BERT's input."""
