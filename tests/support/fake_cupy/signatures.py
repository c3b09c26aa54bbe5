"""The parts of CuPy that the stand-in offers: names, and the parameters of functions in the record of CuPy 13.

NumPy's functions of the same names have more parameters (where=, initial=, kind=, mode=, ...). Code that uses these
would fail on a device, so the stand-in refuses them. A contract test compares these names with the installed CuPy.
"""

import json

import numpy as np

from .contract import RECORD, parameters_in

_OFFERED = json.loads(RECORD.read_text(encoding="utf-8"))

UFUNCS = [name for name in _OFFERED["ufuncs"] if isinstance(getattr(np, name, None), np.ufunc)]

_FUNCTIONS = """
    all allclose any arange argmax argmin argpartition argsort array array_equal asarray ascontiguousarray asnumpy
    bincount broadcast_to clip concatenate cumprod cumsum diagonal dot einsum empty empty_like expand_dims eye
    flatnonzero flip full full_like inner isclose lexsort matmul max may_share_memory mean min moveaxis nonzero ones
    ones_like outer pad partition prod ravel repeat reshape result_type roll round searchsorted sort split squeeze stack
    std sum swapaxes take take_along_axis tensordot tile trace transpose tril triu unique var vdot where zeros
    zeros_like
"""
#: Functions, with the names of their parameters.
FUNCTIONS = {name: tuple(_OFFERED["functions"][name]) for name in _FUNCTIONS.split()}

CONSTANTS = ("inf", "nan", "pi", "e", "newaxis")
DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

_METHODS = """
    all any argmax argmin argsort astype clip copy cumprod cumsum diagonal dot fill flatten max mean min prod ravel
    repeat squeeze std sum swapaxes take trace var view
"""
#: Methods of arrays, with the names of their parameters.
METHODS = {name: parameters_in(_OFFERED["methods"][name]) for name in _METHODS.split()}
# Methods that array.py defines one by one.
FREE_METHODS = ("get", "item", "reshape", "tolist", "transpose")
ATTRIBUTES = ("T", "base", "data", "device", "dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides")
