"""The installed commands, one in each file; `setup.py` names them."""
