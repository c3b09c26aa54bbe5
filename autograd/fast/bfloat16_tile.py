"""The instructions of the bfloat16 product (`bfloat16.py`), generated through LLVM: Numba has no type for bfloat16.

`vdpbf16ps` multiplies 16 pairs of bfloat16 numbers by 16 other pairs, and adds both products of each pair to one of 16
float32 sums. Numba's compiler doesn't know the instruction, so the tile is written as LLVM's intermediate code.
"""

from typing import Any

from llvmlite import binding, ir
from numba import extending, types

#: Sums of a tile. 6 rows of 4 vectors are 24 registers; 4 vectors of the right operand and one number of the left
#: operand, repeated, are 5 more. A processor with AVX-512 has 32.
ROWS, VECTORS = 6, 4
COLUMNS = 16 * VECTORS

binding.initialize_native_asmparser()
_INT, _LONG = ir.IntType(32), ir.IntType(64)
_FLOATS, _PAIRS = ir.VectorType(ir.FloatType(), 16), ir.VectorType(_INT, 16)
_BITS = types.CPointer(types.uint32)


intrinsic: Any = extending.intrinsic


@intrinsic
def tile(context, left, row, step, right, out, stride, pairs, add):
    """Compute a tile of the product, (ROWS, COLUMNS), from `pairs` pairs of inner indices.

    Args:
        left, row, step: pairs of the left operand; pair p of row i is at left[i * row + p * step].
        right: pairs of the right operand; pair p of column j is at right[p * COLUMNS + j].
        out, stride: the bits of float32 sums; the sum of row i and column j is at out[i * stride + j].
        add: whether the products are added to `out`. Otherwise they are written.
    """

    def generate(context, builder, signature, arguments):
        left, row, step, right, out, stride, pairs, add = arguments

        def at(pointer, *terms, kind=None):
            for term in terms:
                pointer = builder.gep(pointer, [term])
            return pointer if kind is None else builder.bitcast(pointer, kind.as_pointer())

        def times(number, value):
            return builder.mul(value, ir.Constant(_LONG, number))

        def vector(pointer, j, kind):
            return at(pointer, ir.Constant(_LONG, 16 * j), kind=kind)

        before, loop = builder.block, builder.append_basic_block("loop")
        builder.branch(loop)
        builder.position_at_end(loop)
        p = builder.phi(_LONG)
        p.add_incoming(ir.Constant(_LONG, 0), before)
        sums = [builder.phi(_FLOATS) for _ in range(ROWS * VECTORS)]
        columns = [builder.load(vector(at(right, times(COLUMNS, p)), j, _PAIRS), align=4) for j in range(VECTORS)]
        multiply_add, new = ir.FunctionType(_FLOATS, [_FLOATS, _PAIRS, _PAIRS]), []
        for i in range(ROWS):
            pair = builder.load(at(left, times(i, row), builder.mul(p, step)))
            first = builder.insert_element(ir.Constant(_PAIRS, ir.Undefined), pair, ir.Constant(_INT, 0))
            repeated = builder.shuffle_vector(first, ir.Constant(_PAIRS, ir.Undefined), ir.Constant(_PAIRS, [0] * 16))
            for j in range(VECTORS):
                operands = [sums[i * VECTORS + j], columns[j], repeated]
                new.append(builder.asm(multiply_add, "vdpbf16ps $3, $2, $0", "=v,0,v,v", operands, False))
        following = builder.add(p, ir.Constant(_LONG, 1))
        p.add_incoming(following, builder.block)
        for old, value in zip(sums, new, strict=True):
            old.add_incoming(ir.Constant(_FLOATS, [0.0] * 16), before)
            old.add_incoming(value, builder.block)
        done = builder.append_basic_block("done")
        builder.cbranch(builder.icmp_signed("<", following, pairs), loop, done)
        builder.position_at_end(done)
        with builder.if_else(builder.trunc(add, ir.IntType(1))) as (adding, writing):
            for block, adds in ((adding, True), (writing, False)):
                with block:
                    for i in range(ROWS):
                        for j in range(VECTORS):
                            place = vector(at(out, times(i, stride)), j, _FLOATS)
                            value = new[i * VECTORS + j]
                            if adds:
                                value = builder.fadd(builder.load(place, align=4), value)
                            builder.store(value, place, align=4)

    long = types.intp
    return types.void(_BITS, long, long, _BITS, _BITS, long, long, types.uint8), generate


@intrinsic
def bits_at(context, address, offset):
    """Return a pointer to the 32-bit number `offset` of an array, whose first is at `address`."""

    def generate(context, builder, signature, arguments):
        return builder.gep(builder.inttoptr(arguments[0], _INT.as_pointer()), [arguments[1]])

    return _BITS(types.intp, types.intp), generate
