"""Paths: what drives the state? From observations to the increments of a path.

Observations may be irregular in time, have gaps, and come in padded batches; they leave this room
as increments, which is all that a linear controlled differential equation sees of them.

| here | in the paper |
|---|---|
| `values`, (batch, length, channels) | the input X, observed at times t_0 < ... < t_n |
| `with_time(values, times)` | the path ω^X = (t, X) through the observations, linear between them |
| `increments(values, times)` | Δω, that is ω^X_{t_{j+1}} − ω^X_{t_j} |
| `channels` of the increments | d_ω |
| `Tabulated(table, index)` | Δω where X is a token: one row of the table for each |

A padded series ends in zero increments: the identity flow, so padding is exact.
"""

from slicekit.paths.gaps import Causal, Filling, LastValue, Linear
from slicekit.paths.increments import increments
from slicekit.paths.lengths import mask_past_end, pad, valid_mask
from slicekit.paths.tabulated import Tabulated
from slicekit.paths.times import with_time

__all__ = [
    "Causal",
    "Filling",
    "LastValue",
    "Linear",
    "Tabulated",
    "increments",
    "mask_past_end",
    "pad",
    "valid_mask",
    "with_time",
]
