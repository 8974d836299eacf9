"""The paper's Table 1 for given sizes, from the facts on the structures' classes."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from slicekit.descriptions.words import lie_size
from slicekit.structures import (
    DPLR,
    BlockDiagonal,
    Dense,
    Diagonal,
    DiagonalDense,
    Facts,
    Householder,
    JointDPLR,
    Orthogonal,
    PermutationDiagonal,
    RowNormalised,
    Sparse,
    Structure,
    WalshHadamard,
)


@dataclass(frozen=True)
class Sizes:
    """What the table is computed for; of density and epsilon, one is None."""

    dim: int
    channels: int
    block: int
    rank: int
    density: float | None
    epsilon: float | None
    length: int
    window: int = 12
    log_depth: int = 2

    @property
    def depth(self) -> int:
        """Depth of a parallel scan, log2(length) rounded up."""
        return (self.length - 1).bit_length()

    @property
    def windows(self) -> int:
        """Steps under the Log-ODE method."""
        return -(-self.length // self.window)


LISTED: dict[type[Structure], Callable[[Sizes], Structure]] = {
    Dense: lambda s: Dense(s.dim),
    Diagonal: lambda s: Diagonal(s.dim),
    BlockDiagonal: lambda s: BlockDiagonal(s.dim, s.block),
    DiagonalDense: lambda s: DiagonalDense(s.dim, s.block),
    DPLR: lambda s: DPLR(s.dim, s.rank),
    JointDPLR: lambda s: JointDPLR(s.dim, s.rank),
    Sparse: lambda s: Sparse(s.dim, density=s.density, epsilon=s.epsilon),
    WalshHadamard: lambda s: WalshHadamard(s.dim),
    Orthogonal: lambda s: Orthogonal(s.dim, s.block),
    Householder: lambda s: Householder(s.dim, s.rank),
    RowNormalised: lambda s: RowNormalised(s.dim, s.block),
    PermutationDiagonal: lambda s: PermutationDiagonal(s.dim, s.block),
}
"""The rows of the table: each structure, and how it is made from the sizes."""


@dataclass(frozen=True)
class LogRow:
    """A structure under the Log-ODE method, where a step is a window; its parameters are the same.

    Attributes:
        channels: β, the entries of a log-signature; those of matrices that commute have depth 1.
        inside: whether brackets stay in the structure; they are dense otherwise.
        recurrent, composition: of a window, as in `Row`.
    """

    channels: int
    inside: bool
    recurrent: int
    composition: int


@dataclass(frozen=True)
class Row:
    """A structure's facts and its numbers; where it can't take the sizes, the reason instead.

    `log` is None where A(Δω) is not linear in Δω, so that there are no brackets.
    """

    structure: str
    facts: Facts
    parameters: int | None = None
    recurrent: int | None = None
    composition: int | None = None
    log: LogRow | None = None
    reason: str | None = None


def compare(sizes: Sizes) -> list[Row]:
    """One row for each of `LISTED`."""
    return [_row(kind, make, sizes) for kind, make in LISTED.items()]


def _row(kind: type[Structure], make: Callable[[Sizes], Structure], sizes: Sizes) -> Row:
    try:
        structure = make(sizes)
    except ValueError as error:
        return Row(kind.__name__, kind.facts, reason=str(error))
    with torch.device("meta"):  # counting must not allocate
        parameters = structure.parameter_count(sizes.channels)
    return Row(
        kind.__name__,
        kind.facts,
        parameters,
        structure.step_cost(sizes.channels),
        structure.composition_cost(),
        _log_row(structure, sizes),
    )


def _log_row(structure: Structure, sizes: Sizes) -> LogRow | None:
    try:
        lifted = structure.lift(sizes.log_depth)
    except ValueError:
        return None
    depth = 1 if structure.commutes else sizes.log_depth
    channels = lie_size(sizes.channels, depth)
    inside = depth == 1 or type(lifted) is type(structure)
    costs = lifted.step_cost(channels), lifted.composition_cost()
    return LogRow(channels, inside, *costs)


def as_data(sizes: Sizes, rows: list[Row]) -> dict[str, Any]:
    """The table as plain data."""
    return {"sizes": asdict(sizes), "structures": [_entry(sizes, row) for row in rows]}


def _entry(sizes: Sizes, row: Row) -> dict[str, Any]:
    facts = row.facts
    return {
        "structure": row.structure,
        "model": facts.model,
        "matrix": facts.matrix,
        "parameters": {"formula": facts.parameters, "count": row.parameters},
        "recurrent": {"formula": facts.recurrent, "multiplications": row.recurrent},
        "parallel": {
            "depth": sizes.depth,
            "formula": facts.composition,
            "multiplications": row.composition,
        },
        "log": None if row.log is None else asdict(row.log) | {"steps": sizes.windows},
        "closed": facts.closed,
        "efficient": facts.efficient,
        "expressive": facts.expressive,
        "theorem": facts.theorem,
        "reason": row.reason,
    }


COSTS = ("parameters", "recurrent:\none step", "parallel:\ncomposition")
LOG_COLUMNS = {"model": 20, "brackets": 8, "channels β": 13, "one step": 13, "composition": 13}
"""And the widths of their columns."""

LEAST = (19, 9, 11, 11, 11, 6, 7)
ROOMY = (19, 24, 17, 17, 22, 6, 7)
"""Widths of model, matrix, the three costs, closed and expressivity: with the least nothing is cut
and all fit in 80 columns, with the roomy ones nothing is wrapped."""


def show(sizes: Sizes, rows: list[Row], console: Console) -> None:
    """Print the table, and below it what its symbols and numbers stand for."""
    model, matrix, *costs, closed, expressive = _widths(console.width)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 1, 0), show_edge=False, pad_edge=False)
    table.add_column("model,\nstructure", width=model, overflow="fold")
    table.add_column("matrix Aⁱ", width=matrix, overflow="fold")
    table.add_column(_side_by_side(COSTS, costs), width=sum(costs) + 2)
    table.add_column("closed\nfast", width=closed)
    table.add_column("maximal\nexpres-\nsivity", width=expressive)
    theorems = list(dict.fromkeys(row.facts.theorem for row in rows))
    for row in rows:
        facts = row.facts
        table.add_row(
            f"{facts.model}\n{row.structure}",
            facts.matrix,
            row.reason or _side_by_side(_costs(row), costs),
            f"{_yes(facts.closed)}\n{facts.efficient}",
            f"{_yes(facts.expressive)} ({1 + theorems.index(facts.theorem)})",
        )
    console.print(table)
    for line in (*_legend(sizes), "Maximal expressivity:"):
        console.print(line, markup=False)
    for note, theorem in enumerate(theorems, 1):
        console.print(f"  ({note}) {theorem}", markup=False)
    _show_logs(sizes, rows, console)


def _show_logs(sizes: Sizes, rows: list[Row], console: Console) -> None:
    """The rows of the Log-ODE method."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name, width in LOG_COLUMNS.items():
        table.add_column(name, width=width, overflow="fold")
    for row in rows:
        if row.log is None:
            continue
        log = row.log
        table.add_row(
            f"Log-{row.facts.model}",
            "inside" if log.inside else "dense",
            f"{log.channels:,}",
            _number(log.recurrent),
            _number(log.composition),
        )
    console.print()
    console.print(table)
    depth = (sizes.windows - 1).bit_length()
    told = (
        f"With the Log-ODE method at depth N = {sizes.log_depth} over windows of s = "
        f"{sizes.window}: {sizes.windows:,} steps in place of n, a scan of depth {depth}, the same "
        "parameters. Orders: a step dω^(N-1) times that above, or dω^N dh² where brackets are "
        "dense. Not for matrices that are not linear in Δω, or can't take the sizes."
    )
    console.print(told, markup=False)


def _widths(available: int) -> list[int]:
    """The least widths, widened from the left while there is room."""
    left = available - sum(LEAST) - (len(LEAST) - 1)
    widths = []
    for least, roomy in zip(LEAST, ROOMY, strict=True):
        more = min(max(left, 0), roomy - least)
        left -= more
        widths.append(least + more)
    return widths


def _side_by_side(cells: tuple[str, ...], widths: list[int]) -> Table:
    """The costs as one cell, which a row that has none can use for its reason."""
    grid = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    for width in widths:
        grid.add_column(width=width, overflow="fold")
    grid.add_row(*cells)
    return grid


def _costs(row: Row) -> tuple[str, ...]:
    facts = row.facts
    composed = "" if facts.closed else "\nas dense"
    return (
        f"{facts.parameters}\n{_number(row.parameters)}",
        f"{facts.recurrent}\n{_number(row.recurrent)}",
        f"{facts.composition}\n{_number(row.composition)}{composed}",
    )


def _number(count: int | None) -> str:
    """Exact while it fits in the narrowest column."""
    assert count is not None, "only rows with a reason have no numbers"
    exact = f"{count:,}"
    return exact if len(exact) <= min(LEAST[2:5]) else f"{count:.4g}"


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def _legend(sizes: Sizes) -> tuple[str, ...]:
    sparsity = f"ε = {sizes.epsilon}" if sizes.density is None else f"density {sizes.density}"
    return (
        f"dh = {sizes.dim} (state), dω = {sizes.channels} (channels), b = {sizes.block} (block), "
        f"r = {sizes.rank} (rank), {sparsity}, n = {sizes.length:,} (steps).",
        f"Formulas are orders, costs are multiplications. A parallel scan over n steps has depth "
        f"log2(n) = {sizes.depth}; it composes transitions, as dense matrices where the structure "
        "is not closed under products.",
        "Fast: whether kernels run it on a CPU, ahead of a recurrence and of associative scans "
        "(slicekit study scan-costs); tokens: on tables of tokens alone.",
    )


MARKDOWN = ("structure", "Aⁱ", "parameters", "one step", "composing two", "products stay inside")
PRACTICE = ("kernels here", "maximally expressive")


def as_markdown() -> str:
    """The facts of all structures as a table, for any sizes."""
    lines = [(*MARKDOWN, *PRACTICE), ("---",) * (len(MARKDOWN) + len(PRACTICE))]
    for kind in LISTED:
        facts = kind.facts
        costs = (facts.parameters, facts.recurrent, facts.composition)
        practice = {"tokens": "on tokens"}.get(facts.efficient, facts.efficient)
        shown = f"{_yes(facts.expressive)} ({facts.theorem})"
        lines.append(
            (f"`{kind.__name__}`", facts.matrix, *costs, _yes(facts.closed), practice, shown)
        )
    lines.append(LOG_FORM)
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


LOG_FORM = (
    "any linear one with `LogODE(N, s)`",
    "and brackets of N",
    "the same",
    "dω^(N-1) times that, n / s steps",
    "the same, or dh³ where brackets are dense",
    "as above",
    "as above",
    "as above",
)
"""The paper's row of Log-X-SLiCEs; its dω is dh, and it counts the composition with its making."""
