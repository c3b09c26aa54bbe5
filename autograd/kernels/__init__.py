"""CUDA C++ sources, compiled at run time."""
