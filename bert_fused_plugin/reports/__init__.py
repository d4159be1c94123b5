"""Does BERT help on my data?  The report of ``bert-fused-compare``, and attention as ``bert-fused-attention`` draws it.

The commands are ``commands/compare.py`` and ``commands/plot_attention.py``.

| what | where |
| --- | --- |
| checkpoints and their tasks | ``runs.py`` |
| translations and speed | ``decoding.py`` |
| scores and significance | ``scoring.py``, ``buckets.py`` |
| all figures in one dictionary, and their sentences | ``comparison.py``, ``verdicts.py`` |
| what the command does now | ``progress.py`` |
| BERT switched off, shuffled, random | ``bert_ablations.py`` |
| attention, its entropy, gates | ``attention.py``, ``words.py`` |
| curves of training | ``training_log.py``, ``charts.py`` |
| the page | ``page.py``, ``templates/`` |
"""
