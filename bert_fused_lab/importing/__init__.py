"""Converts a checkpoint of the authors' own implementation, bert-nmt, into one of this package.

Their flags have these meanings, where nmt and bert are the outputs of the two branches of a layer:

- A layer computes ``encoder_ratio`` nmt + ``bert_ratio`` bert, in training and in evaluation.
- With ``encoder_bert_dropout`` it has drop-net of p_net = 2 ``encoder_bert_dropout_ratio`` in training, and it computes
  1/2 nmt + 1/2 bert in evaluation, whatever the ratios.
- With a closed gate it always computes ``encoder_ratio`` nmt.

Stacked layers, and those without attention to BERT, use none of these flags.
"""
