"""Everything that is only for speed on a CPU: threads, compiled loops, MKL, and the quick forms of ops."""
