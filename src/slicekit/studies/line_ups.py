"""Models that the paper's tables and figures compare, by the names of the catalogue."""

from collections.abc import Sequence

SLICES = (
    "bd-slice",
    "dplr-slice",
    "wh-slice",
    "s-slice",
    "de-lncde",
    "d-slice",
    "d-de-slice",
)
"""The paper's own."""

OTHERS = ("householder-slice", "row-normalised-slice", "permutation-slice")
"""SLiCEs with the matrices of other models."""

BASELINES = (
    "lstm",
    "slstm",
    "xlstm",
    "deltanet",
    "deltanet-neg",
    "gated-deltanet",
    "gated-deltaproduct",
    "rwkv7",
    "mlstm",
    "transformer",
    "mamba",
    "s4d",
)
"""Those that it compares with on tokens, in the order of its table of regular languages."""

SIZES = (
    "d-slice:dim=128",
    "d-slice:dim=512",
    "wh-slice:dim=128",
    "wh-slice:dim=512",
    "bd-slice:dim=256,block=2",
    "bd-slice:dim=128,block=4",
    "bd-slice:dim=64,block=8",
    "bd-slice:dim=32,block=16",
    "d-de-slice:dim=510,block=2",
    "d-de-slice:dim=500,block=4",
    "d-de-slice:dim=456,block=8",
    "d-de-slice:dim=272,block=16",
    "dplr-slice:dim=171,rank=1",
    "dplr-slice:dim=102,rank=2",
    "dplr-slice:dim=57,rank=4",
    "dplr-slice:dim=30,rank=8",
)
"""The sixteen sizes of the appendix's table of regular languages."""

FIELDS = ("ncde", "nrde", "log-ncde")
"""Nonlinear CDEs, whose steps on long series take seconds."""

SERIES = (*SLICES, "lru", "s5", "s6", "mamba", *FIELDS)
"""The fourteen models of the paper's tables of time series."""

GROUPS = {
    "slices": SLICES,
    "others": OTHERS,
    "baselines": BASELINES,
    "sizes": SIZES,
    "series": SERIES,
}
"""Line-ups that stand for all of their models where models are named."""


def expand(names: Sequence[str]) -> tuple[str, ...]:
    """Names of models, each once, with those of a group in its place.

    >>> expand(["orthogonal-slice", "slices", "bd-slice"])[:3]
    ('orthogonal-slice', 'bd-slice', 'dplr-slice')
    """
    models = [model for name in names for model in GROUPS.get(name, (name,))]
    return tuple(dict.fromkeys(models))
