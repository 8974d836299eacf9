"""The command line as `python -m slicekit`, and so also as `torchrun -m slicekit`."""

from slicekit.cli import main

if __name__ == "__main__":
    main()
