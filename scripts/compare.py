#!/usr/bin/env python
"""Compares runs on a test set, and writes one HTML page; the same as the command bert-fused-compare."""

from bert_fused_plugin.reports.compare import main

if __name__ == "__main__":
    main()
