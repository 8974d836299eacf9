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
| `hall(channels, depth)`, `lyndon(channels, depth)` | bases of the free Lie algebra, β elements |
| `log_signatures(increments, basis, window)` | log S^N(ω) on each window, in that basis |
| `log_signatures_in_time(..., Duration(time))` | the same for windows of equal time |

A padded series ends in zero increments: the identity flow, so padding is exact.
"""

from slicekit.paths.composition import LogSignatures
from slicekit.paths.gaps import Causal, Filling, LastValue, Linear
from slicekit.paths.increments import increments
from slicekit.paths.lengths import alike, mask_past_end, pad, valid_mask
from slicekit.paths.lie_bases import Element, LieBasis, hall, lyndon
from slicekit.paths.log_signatures import chen, log_signatures
from slicekit.paths.tabulated import Tabulated
from slicekit.paths.tensor_algebra import signature, tensor_exp, tensor_log, tensor_product
from slicekit.paths.times import with_time
from slicekit.paths.windows import Duration, Pieces, log_signatures_in_time, split_at

__all__ = [
    "Causal",
    "Duration",
    "Element",
    "Filling",
    "LastValue",
    "LieBasis",
    "Linear",
    "LogSignatures",
    "Pieces",
    "Tabulated",
    "alike",
    "chen",
    "hall",
    "increments",
    "log_signatures",
    "log_signatures_in_time",
    "lyndon",
    "mask_past_end",
    "pad",
    "signature",
    "split_at",
    "tensor_exp",
    "tensor_log",
    "tensor_product",
    "valid_mask",
    "with_time",
]
