#!/usr/bin/env python
"""Measures speed, memory and start-up of the models side by side with fairseq's own; see benchmarks/benchmark.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from benchmark import main

if __name__ == "__main__":
    main()
