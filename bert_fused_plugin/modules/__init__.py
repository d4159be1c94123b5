"""The parts of the figure: BERT, drop-net, fusion, layers."""
