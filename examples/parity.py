"""Parity of a stream of bits: two dense dimensions are exact, no diagonal ones are.

The example of the paper's appendix. The increments are the bits, the flow is exponential:

    h_n = exp(A x_n) ... exp(A x_1) h_0 = exp(A S_n) h_0,    S_n = x_1 + ... + x_n,

and the stream is called odd where r^T h_n < c. With A = [[0, π], [-π, 0]] every 1 turns the plane
by half a circle, so h_n = (-1)^{S_n} h_0: exact at any length. With A = diag(a_1, ..., a_d),

    r^T h_n - c = Σ_i r_i exp(a_i S_n) - c

changes its sign at most d times as S_n grows, while parity changes it every time. Here the best
such a, r and c are searched for on short streams, and both are then run on long ones.

    python examples/parity.py [--length 100000] [--out FOLDER]
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import slicekit as sk

LONGEST_FITTED = 16

SHORT = 128
MANY, FEW = 2048, 8
"""Streams of up to SHORT steps, and longer ones, in which every position is a trial."""


@dataclass(frozen=True)
class Model:
    """An LNCDE with a linear read-out: odd where readout^T h < threshold."""

    name: str
    structure: sk.Dense | sk.Diagonal | sk.Orthogonal
    parameters: dict[str, Tensor]
    initial_state: Tensor
    readout: Tensor
    threshold: float = 0.0

    def states(self, bits: Tensor) -> Tensor:
        """h_1, ..., h_length: (batch, length, dim) for integer bits (batch, length)."""
        increments = bits.unsqueeze(-1).to(self.readout)
        start = self.initial_state.expand(bits.shape[0], -1)
        states, _ = sk.solve(
            self.structure, self.parameters, increments, start, flow=sk.Exponential()
        )
        return states

    def predict(self, bits: Tensor) -> Tensor:
        """Whether the number of ones so far is called odd, at every position."""
        return self.states(bits) @ self.readout < self.threshold


def dense(dtype: torch.dtype) -> Model:
    """The paper's: a rotation by π for every 1."""
    a = torch.tensor([[0, math.pi], [-math.pi, 0]], dtype=dtype)
    first = torch.tensor([1, 0], dtype=dtype)
    name = f"Dense(2)\n{_short(dtype)}"
    return Model(name, sk.Dense(2), {"blocks": a.view(1, 1, 2, 2)}, first, first)


def orthogonal(dtype: torch.dtype) -> Model:
    """The same matrix with its one free angle as the only parameter."""
    angles = torch.full((1, 1, 1), math.pi, dtype=dtype)
    first = torch.tensor([1, 0], dtype=dtype)
    name = f"Orthogonal(2)\n{_short(dtype)}"
    return Model(name, sk.Orthogonal(2, block=2), {"angles": angles}, first, first)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def fitted_diagonal(dim: int, candidates: int = 2000, seed: int = 0) -> Model:
    """The best of many diagonal LNCDEs on streams of 1 to 16 random bits.

    Rates a are drawn at random; for each draw, read-out and threshold are fitted by logistic
    regression to parity. A state depends on the stream through S alone, so the stream of ones shows
    all states, and each S counts as often as it occurs. Rates need not grow: multiplying by
    exp(-max(a) S) changes no sign, and makes of the largest rate the threshold's.
    """
    source = torch.Generator().manual_seed(seed)
    rates = -3 * torch.rand(candidates, dim, generator=source, dtype=torch.float64)
    weights = _occurrences(LONGEST_FITTED)
    odd = (torch.arange(LONGEST_FITTED + 1) % 2).double()
    features = _features(rates)
    basis, triangle = torch.linalg.qr(features)
    fitted = _logistic_regression(basis, odd, weights)
    correct = ((basis @ fitted).squeeze(-1) > 0) == odd.bool()
    best = (correct * weights).sum(-1).argmax()
    solution = torch.linalg.solve_triangular(triangle[best], fitted[best], upper=True).squeeze(-1)
    return Model(
        f"Diagonal({dim})\nfitted",
        sk.Diagonal(dim),
        {"values": rates[best].view(1, dim)},
        torch.ones(dim, dtype=torch.float64),
        readout=-solution[:-1],
        threshold=solution[-1].item(),
    )


def _features(rates: Tensor) -> Tensor:
    """States after S = 0, 1, ... ones, and a constant: (candidates, 1 + longest, dim + 1)."""
    candidates, dim = rates.shape
    ones = torch.ones(1, LONGEST_FITTED, 1, dtype=rates.dtype)
    start = torch.ones(1, candidates * dim, dtype=rates.dtype)
    side_by_side = sk.Diagonal(candidates * dim)
    values = {"values": rates.view(1, -1)}
    states, _ = sk.solve(side_by_side, values, ones, start, flow=sk.Exponential())
    states = torch.cat([start.unsqueeze(1), states], 1).view(-1, candidates, dim).transpose(0, 1)
    return torch.cat([states, torch.ones_like(states[..., :1])], -1)


def _occurrences(longest: int) -> Tensor:
    """How often S = 0..longest ones occur in streams of 1..longest random bits."""
    counts = [[math.comb(n, s) / 2**n for s in range(longest + 1)] for n in range(1, longest + 1)]
    return torch.tensor(counts, dtype=torch.float64).mean(0)


def _logistic_regression(basis: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Newton's method for all candidates at once; basis (candidates, points, features)."""
    ridge = 1e-6
    labels, weights = labels.unsqueeze(-1), weights.unsqueeze(-1)
    unit = torch.eye(basis.shape[-1], dtype=basis.dtype)
    found = basis.new_zeros(basis.shape[0], basis.shape[-1], 1)
    for _ in range(30):
        chance = torch.sigmoid(basis @ found)
        slope = basis.mT @ (weights * (chance - labels)) + ridge * found
        curvature = basis.mT @ (weights * chance * (1 - chance) * basis) + ridge * unit
        step = torch.linalg.solve(curvature, slope)
        found = found - step * (20 / step.abs().amax((1, 2), keepdim=True)).clamp_max(1)
    return found


def marks(length: int) -> list[int]:
    """The lengths that are shown: 1, 2, 4, ... and the last."""
    return [n for n in (2**k for k in range(length.bit_length())) if n < length] + [length]


def accuracies(model: Model, length: int, seed: int = 1) -> dict[int, float]:
    """Share of correct predictions at positions n/2 < l <= n of random streams, for each mark n."""
    source = torch.Generator().manual_seed(seed)
    found: dict[int, float] = {}
    for streams, steps in ((MANY, min(length, SHORT)), (FEW, length)):
        ends = [n for n in marks(length) if n <= steps and n not in found]
        if ends:
            bits = torch.randint(2, (streams, steps), generator=source)
            correct = model.predict(bits) == (bits.cumsum(1) % 2).bool()
            found |= {n: correct[:, n // 2 : n].double().mean().item() for n in ends}
    return found


def answers(model: Model, most: int) -> list[bool]:
    """Whether S = 0..most ones are called odd."""
    first = model.initial_state @ model.readout < model.threshold
    later = model.predict(torch.ones(1, most, dtype=torch.int64))
    return [bool(first), *later[0].tolist()]


def changes(model: Model, most: int = 4 * LONGEST_FITTED) -> int:
    """How often the answer changes as S goes from 0 to most."""
    said = answers(model, most)
    return sum(before != after for before, after in pairwise(said))


def show(models: list[Model], measured: list[dict[int, float]]) -> None:
    """Print the accuracies: a rich table if rich is installed, plain columns otherwise."""
    heads = ["length", *(model.name for model in models)]
    rows = [[f"{n:,}", *(f"{own[n]:.2%}" for own in measured)] for n in measured[0]]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        lines = [[head.replace("\n", " ") for head in heads], *rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = zip(line, widths, strict=True)
            print("  ".join(cell.rjust(width) for cell, width in cells))
        return
    table = Table(title="correct predictions of parity", padding=(0, 0))
    for head in heads:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(*row)
    console = Console()
    Console(width=max(console.width, 80)).print(table)


def plot(models: list[Model], measured: list[dict[int, float]], folder: Path) -> Path | None:
    """Save accuracy against length, and what is said after each number of ones, if possible."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9}):
        figure, (left, right) = pyplot.subplots(
            1, 2, figsize=(10, 3.8), width_ratios=(3, 2), layout="constrained"
        )
        _plot_accuracies(left, models, measured)
        _plot_answers(right, models)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "parity.png"
        figure.savefig(path, dpi=160)
        pyplot.close(figure)
    return path


def _plot_accuracies(axes: Any, models: list[Model], measured: list[dict[int, float]]) -> None:
    lengths = list(measured[0])
    axes.axvspan(1, LONGEST_FITTED, color="0.94", lw=0)
    axes.text(1.15, 0.425, f"diagonals fitted\nup to length {LONGEST_FITTED}", color="0.4")
    axes.axhline(0.5, color="0.5", lw=0.8, ls=":")
    axes.text(lengths[-1], 0.485, "chance", color="0.4", ha="right", va="top")
    looks = (
        {"color": "#1b6ca8", "lw": 2, "marker": "o", "ms": 4},
        {"color": "#5aae61", "lw": 6, "ls": (0, (1, 1.5)), "zorder": 1},
        {"color": "#e08214", "lw": 2, "marker": "o", "ms": 4},
        {"color": "#b2182b", "lw": 2, "marker": "o", "ms": 4},
    )
    for model, own, look in zip(models, measured, looks, strict=True):
        exact = min(own.values()) == 1
        remark = "exact" if exact else f"its answer changes {changes(model)} times"
        axes.plot(lengths, list(own.values()), label=f"{_plain(model)}: {remark}", **look)
    axes.set(xscale="log", xlim=(1, max(2, lengths[-1])), ylim=(0.4, 1.04))
    axes.set(xlabel="length of the stream", ylabel="accuracy")
    axes.set_title("Parity of random bits", loc="left")
    axes.xaxis.set_major_formatter(lambda length, _: f"{length:,.0f}")
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.legend(frameon=False, loc="center right")


def _plot_answers(axes: Any, models: list[Model]) -> None:
    most = 24
    truth = [s % 2 == 1 for s in range(most + 1)]
    rows = {"parity": truth} | {_plain(model): answers(model, most) for model in models}
    for row, answer in enumerate(rows.values()):
        shades = ["0.25" if said else "0.85" for said in answer]
        axes.bar(range(most + 1), 0.7, 0.9, bottom=row - 0.35, color=shades)
        wrong = [s for s in range(most + 1) if answer[s] != truth[s]]
        axes.plot(wrong, [row] * len(wrong), "x", color="#e31a1c", ms=5, mew=1.5)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set(xlim=(-0.6, most + 0.6), xlabel="number S of ones so far")
    axes.set_title("Called odd (dark) or even; × is wrong", loc="left")
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _plain(model: Model) -> str:
    return model.name.split("\n")[0]


def main(argv: Sequence[str] | None = None) -> None:
    """Fit the diagonals, run all models, print the table and save the plot."""
    parser = argparse.ArgumentParser(description="Parity with dense and diagonal LNCDEs.")
    parser.add_argument("--length", type=int, default=100_000, help="the longest stream")
    parser.add_argument("--out", type=Path, default=Path(), help="folder for parity.png")
    options = parser.parse_args(argv)
    if options.length < 1:
        parser.error(f"--length {options.length}: expected at least 1")
    exact = [
        make(dtype) for make in (dense, orthogonal) for dtype in (torch.float32, torch.float64)
    ]
    diagonal = [fitted_diagonal(dim) for dim in (2, 8)]
    models = [*exact, *diagonal]
    measured = [accuracies(model, options.length) for model in models]
    show(models, measured)
    for model in diagonal:
        print(
            f"{_plain(model)}: its answer changes {changes(model)} times as ones are counted; "
            f"no diagonal of size {model.structure.dim} can change it more often."
        )
    chosen = [1, 3, 4, 5]
    path = plot([models[i] for i in chosen], [measured[i] for i in chosen], options.out)
    if path is None:
        print("No plot without matplotlib: pip install 'slicekit[plot]'")
    else:
        print(f"Plot saved to {path.resolve()}")


if __name__ == "__main__":
    main()
