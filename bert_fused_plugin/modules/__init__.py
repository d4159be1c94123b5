"""The parts of the figures in the papers.  They import nothing from the other folders of the package."""
