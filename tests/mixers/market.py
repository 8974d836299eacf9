"""All mixers, small: what the contract is tested on."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.mixers import (
    market_continuous,
    market_delta,
    market_recurrent,
    market_state_space,
)

MIXERS: dict[str, Callable[[], Any]] = {
    **market_recurrent.MIXERS,
    **market_state_space.MIXERS,
    **market_delta.MIXERS,
    **market_continuous.MIXERS,
}

every_mixer = pytest.mark.parametrize("name", MIXERS)

SAME_GRAPH = ("lstm-forget", "slstm-recurrent", "slstm-late", "mlstm-wide", "lru-ring")
SAME_GRAPH += ("s6-constant", "attention-slow")
"""They differ from others of their class in sizes and initial values alone."""

every_graph = pytest.mark.parametrize("name", [x for x in MIXERS if x not in SAME_GRAPH])
