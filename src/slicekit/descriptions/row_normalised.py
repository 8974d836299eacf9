"""Blocks whose rows have an absolute sum of at most one, as a description."""

from dataclasses import dataclass
from typing import ClassVar

from slicekit.descriptions.base import Facts
from slicekit.descriptions.blocks import Blocks


@dataclass(frozen=True)
class RowNormalised(Blocks):
    """Blocks of I + B(Δω), rows divided by their absolute sums; see `slicekit.RowNormalised`."""

    linear_instead = "BlockDiagonal"
    facts: ClassVar[Facts] = Facts(
        model="BD-LRU",
        matrix="rows of BlockDiag(I + B), |row| <= 1",
        parameters="dω dh b",
        recurrent="dω dh b",
        composition="dh b²",
        closed=True,
        expressive=False,
        theorem="no state ever grows",
        efficient="tokens",
        citations=("dubinin2026statemixing",),
    )
