"""The parts of the figures in the papers, and what they need.  They import no other folder of the package."""
