"""Does BERT help on my data?  The report of ``bert-fused-compare``, and the attention behind it.

| what | where |
| --- | --- |
| the command | ``compare.py`` |
| checkpoints and their tasks | ``runs.py`` |
| translations and speed | ``decoding.py`` |
| scores and significance | ``scoring.py``, ``buckets.py`` |
| BERT switched off, shuffled, random | ``bert_tests.py`` |
| attention, its entropy, gates | ``attention.py``, ``words.py`` |
| curves of training | ``training_log.py``, ``charts.py`` |
| the page | ``page.py``, ``templates/`` |
"""
