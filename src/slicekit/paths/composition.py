"""Log-signatures that know their basis: change it, put intervals together, go on as data arrive.

The pieces of a path are enough for any interval that they make up. Of the prefixes of a path two
are enough, because the path walked back has the log-signature with its sign changed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from slicekit.checks import check_floating, check_shape
from slicekit.paths.lie_bases import LieBasis
from slicekit.paths.log_signatures import check_increments, chen, log_signatures


@dataclass(frozen=True, eq=False)
class LogSignatures:
    """Coefficients and the basis that they belong to.

    Args:
        coefficients: (..., basis.size), floating.
        basis: `hall(channels, depth)` or `lyndon(channels, depth)`.

    Raises:
        TypeError: if coefficients are not floating.
        ValueError: if the last axis does not fit the basis.

    >>> from slicekit.paths import hall
    >>> now = LogSignatures.empty(hall(2, 2), batch=1)
    >>> for step in torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]):
    ...     now = now.extend(step[:, None])
    >>> now.coefficients
    tensor([[1.0000, 1.0000, 0.5000]])
    """

    coefficients: Tensor
    basis: LieBasis

    def __post_init__(self) -> None:
        """Check that both fit."""
        check_shape("coefficients", self.coefficients, (..., self.basis.size))
        check_floating("coefficients", self.coefficients)

    @staticmethod
    def empty(
        basis: LieBasis,
        batch: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> "LogSignatures":
        """Those of paths that have not begun, (batch, basis.size)."""
        return LogSignatures(torch.zeros(batch, basis.size, dtype=dtype, device=device), basis)

    def expanded(self) -> Tensor:
        """As tensors, (..., channels + ... + channels^depth); the same from every basis."""
        return self.basis.expand(self.coefficients)

    def to(self, basis: LieBasis) -> "LogSignatures":
        """In another basis, of at most the same depth.

        Raises:
            ValueError: if it has other channels, or is deeper.
        """
        if basis.channels != self.basis.channels or basis.depth > self.basis.depth:
            raise ValueError(
                f"basis is {_call(basis)}; expected {self.basis.channels} channels "
                f"and a depth of at most {self.basis.depth}, as in {_call(self.basis)}"
            )
        if basis == self.basis:
            return self
        return LogSignatures(basis.project(self.expanded()[..., : basis.expanded_size]), basis)

    def compose(self, later: "LogSignatures") -> "LogSignatures":
        """Of these intervals, each followed by the later one, by Chen's relation.

        Raises:
            TypeError: if the dtypes differ.
            ValueError: if the bases or devices differ.
        """
        self._check_basis("later", later)
        return LogSignatures(chen(self.basis, self.coefficients, later.coefficients), self.basis)

    def extend(self, increments: Tensor) -> "LogSignatures":
        """Of these paths, (batch, size), gone on with: the cost does not depend on their past.

        Args:
            increments: (batch, length, channels), those that have arrived.
        """
        check_shape("coefficients", self.coefficients, ("batch", self.basis.size))
        check_increments(increments, self.basis)
        step = log_signatures(increments, self.basis, max(1, increments.shape[1]))
        return self.compose(LogSignatures(step.sum(1), self.basis))

    def interval(self, first: int, last: int) -> "LogSignatures":
        """Of pieces first, ..., last - 1 put together.

        Args:
            first: the first piece.
            last: one past the last piece; first ≤ last, and none gives zero.

        Returns:
            (..., size) from neighbouring pieces (..., pieces, size).

        Raises:
            ValueError: if there are no such pieces.
        """
        check_shape("coefficients", self.coefficients, (..., "pieces", self.basis.size))
        count = self.coefficients.shape[-2]
        if not 0 <= first <= last <= count:
            raise ValueError(f"first={first}, last={last}; expected 0 <= first <= last <= {count}")
        pieces = self.coefficients[..., first:last, :]
        if first == last:
            return LogSignatures(self.coefficients.sum(-2) * 0, self.basis)
        while pieces.shape[-2] > 1:
            even = pieces.shape[-2] // 2 * 2
            pairs = chen(self.basis, pieces[..., 0:even:2, :], pieces[..., 1:even:2, :])
            pieces = torch.cat([pairs, pieces[..., even:, :]], -2)
        return LogSignatures(pieces[..., 0, :], self.basis)

    def since(self, earlier: "LogSignatures") -> "LogSignatures":
        """Of what came after an earlier prefix of the same path.

        Costs the same for every interval, but subtracts: digits are lost where the interval is far
        smaller than what came before it.

        Raises:
            TypeError: if the dtypes differ.
            ValueError: if the bases or devices differ.
        """
        self._check_basis("earlier", earlier)
        return LogSignatures(chen(self.basis, -earlier.coefficients, self.coefficients), self.basis)

    def _check_basis(self, name: str, other: "LogSignatures") -> None:
        if other.basis != self.basis:
            raise ValueError(
                f"{name} is in {_call(other.basis)}, but this is in {_call(self.basis)}; "
                f"use {name}.to(basis) first"
            )


def _call(basis: LieBasis) -> str:
    return f"{basis.name}({basis.channels}, {basis.depth})"
