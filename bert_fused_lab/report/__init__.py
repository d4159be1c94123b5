"""Does BERT help on my data?  Scores, tests and the page of ``bert-fused-report``.

What others offer was weighed.  sacreBLEU's PairedTest gives the p of two outputs, and the tests here equal it for one
seed; but it has no interval of the difference, no seeds and no other metrics.  compare-mt (Neubig et al. 2019) has
groups of sentences as well, but no seeds, and does not know whether a model uses BERT.  Trackers such as MLflow keep
figures and judge nothing.  All of them can read the files of evidence.
"""
