"""Random attention calls, and checks that a method is about as exact as the plain path in the same precision."""

import mmap
from typing import Any

import numpy as np

from handloom.autograd import Generator, Tensor, grad, ops
from handloom.autograd.backend import to_device

# (queries, keys): single ones, primes, more queries than keys, lengths that are not a multiple of a tile size.
LENGTHS = [(1, 1), (1, 97), (97, 1), (2, 3), (13, 13), (61, 17), (64, 64), (97, 97), (113, 203), (203, 113), (128, 65)]
# head_dim and value_dim: multiples of 8 are copied 16 bytes at a time.
WIDTHS = [(1, 1), (5, 7), (24, 8), (32, 32), (40, 40), (64, 64), (64, 33)]
ULPS = 4  # of the largest number of a result; the kernels' exponential has an error of 2
RESTRICTIONS = ("causal", "window", "key_lengths", "mask", "bias", "alibi")


class Case:
    """Random inputs and conditions, determined by a seed. The inputs are normal, with standard deviation `size`.
    `stacked` contains the number of batch rows and the number of heads.
    """

    def __init__(
        self,
        seed: int,
        lengths: tuple[int, int],
        widths: tuple[int, int],
        chosen: frozenset[str] = frozenset(),
        *,
        size: float = 1.0,
        stacked: tuple[int, int] = (2, 2),
    ):
        rng = np.random.default_rng(seed)
        (queries, keys), (head_dim, value_dim), (batch, heads) = lengths, widths, stacked
        self.shape = (batch, heads, queries, keys)
        shapes = (batch, heads, queries, head_dim), (batch, heads, keys, head_dim), (batch, heads, keys, value_dim)
        self.arrays = [rng.standard_normal(shape) * size for shape in shapes]
        self.g = rng.standard_normal((*self.shape[:3], value_dim))
        self.options: dict[str, Any] = {"causal": "causal" in chosen}
        if "window" in chosen:
            self.options["window"] = int(rng.integers(0, 40))
        if "key_lengths" in chosen:
            self.options["key_lengths"] = rng.integers(0, keys + 1, batch)
        if "mask" in chosen:
            mask = rng.random([side if rng.random() < 0.7 else 1 for side in self.shape]) < 0.8
            mask[..., 0, :] = False  # a query that can attend to no key
            rows, columns = (slice(*sorted(rng.integers(0, side + 1, 2))) for side in mask.shape[2:])
            mask[:, :, rows, columns] = False  # a large region hides whole tiles of the kernels
            self.options["mask"] = mask
        if "alibi" in chosen:
            self.options["alibi_slopes"] = 2.0 ** -np.arange(1, heads + 1)
        if "bias" in chosen:
            bias = rng.standard_normal([side if rng.random() < 0.7 else 1 for side in self.shape])
            self.arrays.append(bias[(0,) * int(rng.integers(0, 4))])  # leading axes may be missing

    def run(self, dtype: Any, *, device: str = "cpu", **options: Any) -> list[np.ndarray]:
        """Return the output and the gradients of query, key, value and bias, computed on `device`."""
        tensors = [Tensor(to_device(array.astype(dtype), device), requires_grad=True) for array in self.arrays]
        bias = {"bias": tensors[3]} if len(tensors) == 4 else {}
        own = {key: to_device(x, device) if isinstance(x, np.ndarray) else x for key, x in self.options.items()}
        out = ops.attention(*tensors[:3], **bias, **own, **options)
        assert out.dtype == dtype
        return [out.numpy(), *(g.numpy() for g in grad(out, tensors, to_device(self.g.astype(dtype), device)))]

    def check(self, dtype: Any, **options: Any) -> None:
        """Check that errors are at most 2 (output) or 3 (gradients) times those of the plain path, plus some ulps.

        A gradient may be zero as a difference of nonzero numbers. Its ulp is then the ulp of the numbers' product.
        The magnitude of the scores allows nothing: what rounding a score costs, it costs the plain path, too.
        """
        found, plain = self.run(dtype, **options), self.run(dtype, method="standard")
        self.arrays = [array.astype(dtype).astype(np.float64) for array in self.arrays]
        self.g = self.g.astype(dtype).astype(np.float64)
        truth = self.run(np.float64, method="standard")
        query, key = (np.abs(array).max(initial=0) for array in self.arrays[:2])
        # The rounding error of a sum of products is proportional to the sum of their magnitudes.
        change = 3 * (np.abs(self.g) @ np.abs(self.arrays[2]).swapaxes(-1, -2)).max(initial=0)
        scale = abs(self.options.get("scale", self.arrays[0].shape[-1] ** -0.5))
        floors = (0, change * key * scale, change * query * scale, 0, change)
        for place, (a, b, c) in enumerate(zip(found, plain, truth, strict=True)):
            assert np.isfinite(a).all()
            error, plain_error = np.abs(a - c).max(initial=0), np.abs(b - c).max(initial=0)
            places = np.finfo(a.dtype).eps * (ULPS * np.abs(c).max(initial=0) + floors[place])
            allowed = (2 if place == 0 else 3) * plain_error + places
            assert error <= allowed, f"result {place}: error {error}, the plain path's error {plain_error}, {allowed=}"

    def check_dropout(self, dtype: Any, dropout: float, *, device: str = "cuda", **options: Any) -> None:
        """Check that output and gradients are those of the composed ops with the mask that the method draws."""
        own = {key: to_device(x, device) if isinstance(x, np.ndarray) else x for key, x in self.options.items()}
        leaves = [Tensor(to_device(array.astype(dtype), device), requires_grad=True) for array in self.arrays]
        generator, g = Generator(3), to_device(self.g.astype(dtype), device)
        generator.next_call(leaves[0].data)  # the mask also depends on the number of the call
        bias = (*leaves, None)[3]
        out = ops.attention(*leaves[:3], bias=bias, **own, **options, dropout=dropout, generator=generator)
        found = grad(out, leaves, g, retain_graph=True)
        assert out._origin is not None
        wide = [Tensor(leaf.data.astype(np.float64), requires_grad=True) for leaf in leaves]
        expected = out._origin.node.composed(*wide)
        truth = grad(expected, wide, g.astype(np.float64))
        units = (30 if dtype == np.float16 else 200) * float(np.finfo(dtype).eps)
        for a, b in zip([out, *found], [expected, *truth], strict=True):
            want = b.numpy()
            np.testing.assert_allclose(a.numpy(), want, rtol=0, atol=units * max(1, np.abs(want).max()))


def sparse_case(seed: int, lengths: tuple[int, int], width: int = 32) -> Case:
    """Return a case whose mask lets a few queries see two keys each, and hides most tiles of the kernels."""
    case = Case(seed, lengths, (width, width))
    first = np.random.default_rng(seed).random(case.shape) < 1 / 16000
    case.options["mask"] = first | np.roll(first, 1, axis=-1)  # the weight of a single key is constant: no gradient
    return case


def far_apart(array: np.ndarray) -> np.ndarray:
    """Return a copy (2, 2, rows, width) whose batch rows, heads and rows all lie about 2^31 elements apart.

    Almost all of its 24 GiB stay untouched and take no memory. Some lie before the copy, where wrong offsets may lead.
    """
    beyond = 1 << 31
    steps = beyond + (1 << 12), beyond + (1 << 16), beyond + (1 << 20), 1
    size = sum(step * (side - 1) for step, side in zip(steps, array.shape, strict=True)) + 1
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    memory = np.frombuffer(mmap.mmap(-1, (2 * beyond + size) * array.itemsize, flags=flags), array.dtype)[2 * beyond :]
    copy = np.lib.stride_tricks.as_strided(memory, array.shape, [step * array.itemsize for step in steps])
    copy[...] = array
    return copy
