#!/usr/bin/env python
"""Compares runs on a test set, and writes one HTML page; this is the command bert-fused-compare."""

from bert_fused_plugin.commands.compare import main

if __name__ == "__main__":
    main()
