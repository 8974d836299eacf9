"""Blocks whose rows have an absolute sum of at most one, as a description."""

from dataclasses import dataclass
from typing import Any, ClassVar

from slicekit.descriptions.base import Facts, no_brackets
from slicekit.descriptions.blocks import Blocks


@dataclass(frozen=True)
class RowNormalised(Blocks):
    """Blocks of I + B(Δω), rows divided by their absolute sums; see `slicekit.RowNormalised`."""

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

    @property
    def bracketed(self) -> Any:
        """Nowhere: rows that are divided by their sums are not linear in Δω.

        Raises:
            ValueError: always.
        """
        raise no_brackets(self, "BlockDiagonal")
