#!/usr/bin/env python
"""Converts a checkpoint of bert-nmt, the authors' fork of fairseq; this is the command bert-fused-import."""

from bert_fused_plugin.commands.import_bert_nmt import main

if __name__ == "__main__":
    main()
