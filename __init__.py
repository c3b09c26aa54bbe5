"""handloom: the Transformer woven by hand, from a reverse-mode autograd engine up to a translator."""

__version__ = "0.1.0"
