"""What every rank needs, imported once by the server that they are forked from."""

import slicekit.parallel
import slicekit.training  # noqa: F401
import tests.mixers.market
import tests.scans.problems  # noqa: F401
