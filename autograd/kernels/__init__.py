"""Everything that is only for a GPU: CUDA C++ sources, compiled at run time, and the quick forms of ops by them.

Importing it registers these.
"""

from . import attention_op, graphs, linear, ops, products
