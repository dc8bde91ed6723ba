"""The compiled matrix product of a few rows by a matrix in panels, in LLVM vectors.

The inner loop keeps one tile of the result in registers. It is written in LLVM vectors, which
become the vector registers of any processor. Part j of `benchmarks/speed.py` measures how much
longer plain loops take, which keep the result in memory. Imported when something is compiled.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from stacktrans.kernels.batches import REGISTERS, VECTOR_BYTES, VECTORS
from stacktrans.kernels.unroll import product

# A tile of `rows` by VECTORS vectors, one panel row and one factor fill the registers.
_MAX_ROWS = min(12, (REGISTERS - 2) // VECTORS - 1)


class _Tile:
    """A writer of the code for one tile: some rows of the result by one panel."""

    def __init__(self, builder: Any, scalar: Any, lanes: int) -> None:
        self.builder = builder
        self.lanes = lanes
        self.vector = ir.VectorType(scalar, lanes)
        self.align = 8 if isinstance(scalar, ir.DoubleType) else 4
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        name, module = f"llvm.fmuladd.v{lanes}f{8 * self.align}", builder.module
        self.multiply_add = module.globals.get(name) or ir.Function(module, kind, name)

    def _at(self, pointer: Any, vector: int) -> Any:
        """The address of a vector, by its number after `pointer`."""
        offset = ir.Constant(ir.IntType(64), vector * self.lanes)
        return self.builder.bitcast(self.builder.gep(pointer, [offset]), self.vector.as_pointer())

    def _everywhere(self, number: Any) -> Any:
        """A vector filled with `number`."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        index = ir.IntType(32)
        first = self.builder.insert_element(undefined, number, ir.Constant(index, 0))
        zeros = ir.Constant(ir.VectorType(index, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, undefined, zeros)

    def write(self, depth: Any, left: list[Any], panel: Any, out: list[Any]) -> None:
        """Set each `out` to the product of a row of the left operand, K >= 1 long, by the panel."""
        builder = self.builder
        word = depth.type
        before = builder.block
        loop = builder.append_basic_block("tile")
        after = builder.append_basic_block("tiled")
        builder.branch(loop)

        builder.position_at_end(loop)
        k = builder.phi(word)
        k.add_incoming(ir.Constant(word, 0), before)
        sums = [[builder.phi(self.vector) for _ in range(VECTORS)] for _ in left]
        row = builder.gep(panel, [builder.mul(k, ir.Constant(word, VECTORS * self.lanes))])
        weights = [
            builder.load(self._at(row, vector), align=self.align) for vector in range(VECTORS)
        ]
        zero = ir.Constant(self.vector, [0.0] * self.lanes)
        totals = []
        for pointer, accumulators in zip(left, sums, strict=True):
            factor = self._everywhere(builder.load(builder.gep(pointer, [k])))
            total = [
                builder.call(self.multiply_add, [factor, weight, accumulator])
                for weight, accumulator in zip(weights, accumulators, strict=True)
            ]
            for accumulator, new in zip(accumulators, total, strict=True):
                accumulator.add_incoming(zero, before)
                accumulator.add_incoming(new, loop)
            totals.append(total)
        following = builder.add(k, ir.Constant(word, 1))
        k.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)

        builder.position_at_end(after)
        for pointer, total in zip(out, totals, strict=True):
            for vector, new in enumerate(total):
                builder.store(new, self._at(pointer, vector), align=self.align)


def _write_multiply_tile(
    _context: Any, left: Any, first: Any, rows: Any, matrix: Any, panel: Any, out: Any
) -> Any:
    """out[first : first + rows, of the panel] = left[first : first + rows] @ the panel."""
    signature = types.void(left, types.intp, types.intp, matrix, types.intp, out)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args

        def opened(index: int) -> tuple[Any, list[Any]]:
            array = context.make_array(kinds[index])(context, builder, args[index])
            sizes = range(kinds[index].ndim)
            return array.data, [builder.extract_value(array.shape, axis) for axis in sizes]

        left_data, _ = opened(0)
        matrix_data, (_, depth, width) = opened(3)
        out_data, (_, out_width) = opened(5)
        first, rows, panel = args[1], args[2], args[4]
        scalar = context.get_data_type(kinds[0].dtype)
        lanes = VECTOR_BYTES // (kinds[0].dtype.bitwidth // 8)
        start = builder.gep(matrix_data, [builder.mul(builder.mul(panel, depth), width)])
        column = builder.mul(panel, width)

        end = builder.append_basic_block("multiplied")
        switch = builder.switch(rows, end)
        for count in range(1, _MAX_ROWS + 1):
            block = builder.append_basic_block(f"rows{count}")
            switch.add_case(ir.Constant(rows.type, count), block)
            builder.position_at_end(block)
            numbers = [builder.add(first, ir.Constant(first.type, i)) for i in range(count)]
            left_rows = [builder.gep(left_data, [builder.mul(i, depth)]) for i in numbers]
            out_rows = [
                builder.gep(out_data, [builder.add(builder.mul(i, out_width), column)])
                for i in numbers
            ]
            _Tile(builder, scalar, lanes).write(depth, left_rows, start, out_rows)
            builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return signature, generate


_multiply_tile: Any = intrinsic(_write_multiply_tile)


@overload(product, jit_options={"error_model": "numpy"}, strict=False)
def _product(left: Any, first: Any, rows: Any, matrix: Any, out: Any) -> Any:
    return _product_in_tiles


def _product_in_tiles(left, first, rows, matrix, out):  # type: ignore[no-untyped-def]
    depth = matrix.shape[1]
    if depth == 0:
        out.fill(0)
        return
    tiles = (rows + _MAX_ROWS - 1) // _MAX_ROWS
    for panel in range(matrix.shape[0]):
        for tile in range(tiles):
            # Tiles of nearly equal sizes: one of 12 rows and one of 1 would take longer.
            start = tile * rows // tiles
            count = (tile + 1) * rows // tiles - start
            _multiply_tile(left, first + start, count, matrix, panel, out)
