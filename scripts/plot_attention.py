#!/usr/bin/env python
"""Draws what one sentence's translation attends to; this is the command bert-fused-attention."""

from bert_fused_plugin.commands.plot_attention import main

if __name__ == "__main__":
    main()
