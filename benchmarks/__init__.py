"""Figures that slicekit must reach, measured: `python -m benchmarks.scans`."""
