"""The scan on C++ kernels, of transitions made from a path or given (`passes`)."""
