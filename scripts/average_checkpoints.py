#!/usr/bin/env python
"""Averages checkpoints; this is the command bert-fused-average."""

from bert_fused_plugin.commands.average_checkpoints import main

if __name__ == "__main__":
    main()
