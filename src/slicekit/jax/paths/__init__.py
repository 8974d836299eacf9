"""Paths: what drives the state? From observations to the increments of a path, over arrays."""

from slicekit.jax.paths.gaps import Causal, Filling, LastValue, Linear
from slicekit.jax.paths.increments import increments
from slicekit.jax.paths.lengths import mask_past_end, valid_mask
from slicekit.jax.paths.lie_bases import LieBasis, hall, lyndon
from slicekit.jax.paths.log_signatures import chen, log_signatures
from slicekit.jax.paths.tabulated import Tabulated
from slicekit.jax.paths.tensor_algebra import signature, tensor_exp, tensor_log, tensor_product
from slicekit.jax.paths.times import with_time
from slicekit.jax.paths.windows import Duration, Pieces, log_signatures_in_time, split_at

__all__ = [
    "Causal",
    "Duration",
    "Filling",
    "LastValue",
    "LieBasis",
    "Linear",
    "Pieces",
    "Tabulated",
    "chen",
    "hall",
    "increments",
    "log_signatures",
    "log_signatures_in_time",
    "lyndon",
    "mask_past_end",
    "signature",
    "split_at",
    "tensor_exp",
    "tensor_log",
    "tensor_product",
    "valid_mask",
    "with_time",
]
