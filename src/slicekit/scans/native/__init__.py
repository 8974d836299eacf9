"""The scan on C++ kernels: transitions made from a path (`made`) or given (`given`)."""
