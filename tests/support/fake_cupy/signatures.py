"""What of CuPy the stand-in offers: names, and the parameters that CuPy's functions take.

NumPy's functions of the same names take more (where=, initial=, kind=, mode=, ...); code that uses those would fail on
a device, so the stand-in refuses them. A contract test compares this table with the real package.
"""

from __future__ import annotations

UFUNCS = [
    "abs", "absolute", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh",
    "bitwise_and", "bitwise_or", "ceil", "copysign", "cos", "cosh", "divide", "divmod", "equal", "exp", "exp2", "expm1",
    "floor", "floor_divide", "greater", "greater_equal", "hypot", "invert", "isfinite", "isinf", "isnan",
    "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not",
    "logical_or", "logical_xor", "maximum", "minimum", "mod", "multiply", "negative", "not_equal", "power",
    "reciprocal", "remainder", "rint", "sign", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh",
    "true_divide", "trunc",
]  # fmt: skip

# Functions with the names of their parameters.
FUNCTIONS = {
    line.split()[0]: tuple(line.split()[1:])
    for line in """
all a axis out keepdims
allclose a b rtol atol equal_nan
any a axis out keepdims
arange start stop step dtype
argmax a axis dtype out keepdims
argmin a axis dtype out keepdims
argpartition a kth axis
argsort a axis kind
array obj dtype copy order subok ndmin blocking
array_equal a1 a2 equal_nan
asarray a dtype order blocking
ascontiguousarray a dtype
asnumpy a stream order out blocking
bincount x weights minlength
broadcast_to array shape
clip a a_min a_max out
concatenate tup axis out dtype casting
cumprod a axis dtype out
cumsum a axis dtype out
diagonal a offset axis1 axis2
dot a b out
einsum operands kwargs
empty shape dtype order
empty_like prototype dtype order subok shape
expand_dims a axis
eye N M k dtype order
flatnonzero a
flip a axis
full shape fill_value dtype order
full_like a fill_value dtype order subok shape
inner a b
isclose a b rtol atol equal_nan
lexsort keys
matmul args axes axis keepdims casting dtype signature order out
max a axis out keepdims
may_share_memory a b max_work
mean a axis dtype out keepdims
min a axis out keepdims
moveaxis a source destination
nonzero a
ones shape dtype order
ones_like a dtype order subok shape
outer a b out
pad array pad_width mode kwargs
partition a kth axis
prod a axis dtype out keepdims
ravel a order
repeat a repeats axis
reshape a newshape order
result_type arrays_and_dtypes
roll a shift axis
round a decimals out
searchsorted a v side sorter
sort a axis kind
split ary indices_or_sections axis
squeeze a axis
stack tup axis out dtype casting
std a axis dtype out ddof keepdims
sum a axis dtype out keepdims
swapaxes a axis1 axis2
take a indices axis out
take_along_axis a indices axis
tensordot a b axes
tile A reps
trace a offset axis1 axis2 dtype out
transpose a axes
tril m k
triu m k
unique ar return_index return_inverse return_counts axis equal_nan
var a axis dtype out ddof keepdims
vdot a b
where condition x y
zeros shape dtype order
zeros_like a dtype order subok shape
""".strip().splitlines()
}

CONSTANTS = ("inf", "nan", "pi", "e", "newaxis")
DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

# Methods of arrays, with the names of their parameters.
METHODS = {
    line.split()[0]: tuple(line.split()[1:])
    for line in """
all axis out keepdims
any axis out keepdims
argmax axis out dtype keepdims
argmin axis out dtype keepdims
argsort axis
astype dtype order casting subok copy
clip min max out
copy order
cumprod axis dtype out
cumsum axis dtype out
diagonal offset axis1 axis2
dot b out
fill value
flatten order
max axis out keepdims
mean axis dtype out keepdims
min axis out keepdims
prod axis dtype out keepdims
ravel order
repeat repeats axis
squeeze axis
std axis dtype out ddof keepdims
sum axis dtype out keepdims
swapaxes axis1 axis2
take indices axis out
trace offset axis1 axis2 dtype out
var axis dtype out ddof keepdims
view dtype type
""".strip().splitlines()
}
# Methods of free form.
FREE_METHODS = ("get", "item", "reshape", "set", "tolist", "transpose", "scatter_add")
ATTRIBUTES = ("T", "base", "data", "device", "dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides")
