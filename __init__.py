"""handloom: a Transformer written from scratch, from a reverse-mode autograd engine up to a translator."""

from .autograd import Parameter, Tensor, enable_grad, grad, manual_seed, no_grad
from .errors import InputError

__version__ = "0.1.0"

__all__ = ["InputError", "Parameter", "Tensor", "enable_grad", "grad", "manual_seed", "no_grad"]
