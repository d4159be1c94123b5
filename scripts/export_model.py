#!/usr/bin/env python
"""Writes a model as one directory that can be moved; this is the command bert-fused-export."""

from bert_fused_plugin.commands.export_model import main

if __name__ == "__main__":
    main()
