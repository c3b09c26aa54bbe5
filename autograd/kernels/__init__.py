"""The GPU path: CUDA C++ sources, compiled at run time, and the quick implementations of ops that use them.

Importing this package registers these implementations.
"""

from . import attention_op, graphs, linear, ops, products
