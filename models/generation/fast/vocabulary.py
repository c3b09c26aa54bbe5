"""Compute the log-sum-exp and the largest numbers of rows of logits on the threads of a `team`. It needs Numba."""

from ....autograd.fast.loops import largest_numbers, log_sum_exp
from .team import INTEGER, PARTS, floats, integers, job
from .team import run as run


@job
def sums(arguments, part):
    """Compute log sum exp of some rows; the arguments are the number of rows, their length, the numbers from one row to
    the next, and the addresses of the logits and of the result (rows,).
    """
    rows, vocabulary, step, logits_at, out_at = integers(arguments, 5)
    logits, out = floats(logits_at, (rows - 1) * step + vocabulary), floats(out_at, rows)
    log_sum_exp(logits, step, vocabulary, out, rows * part // PARTS, rows * (part + 1) // PARTS)


@job
def tops(arguments, part):
    """Find the k largest numbers of some rows; the arguments are those of `sums`, with the address of the values (rows,
    k) instead of the result, then the address of the ids (rows, k), and k.
    """
    rows, vocabulary, step, logits_at, values_at = integers(arguments, 5)
    ids_at, k = integers(arguments + 5 * INTEGER, 2)
    logits, values, ids = (
        floats(logits_at, (rows - 1) * step + vocabulary),
        floats(values_at, (rows, k)),
        integers(ids_at, (rows, k)),
    )
    largest_numbers(logits, step, vocabulary, values, ids, rows * part // PARTS, rows * (part + 1) // PARTS)
