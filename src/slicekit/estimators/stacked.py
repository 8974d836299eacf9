"""The model of `Ridge`: paths, blocks of features, and a read-out of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slicekit.estimators.blocks import OBSERVED, Blocks, StepMemory
from slicekit.estimators.inputs import Cases
from slicekit.estimators.model import History, Model, Problem
from slicekit.estimators.path import Path, Trace, training_paths
from slicekit.estimators.readout import Readout, as_shares, fit_readout, join, sharpness
from slicekit.estimators.watching import Progress
from slicekit.paths import alike
from slicekit.training.seeds import derived_seed


@dataclass(frozen=True, eq=False)
class Member:
    """Blocks of features, and what is read from each.

    Args:
        blocks: of features.
        readouts: of the blocks, by name.
        weights: (readouts,) float32, of what they say; its factor makes logits of it.
    """

    blocks: Blocks
    readouts: dict[str, Readout]
    weights: Tensor

    def __call__(self, features: dict[str, Tensor]) -> Tensor:
        """(cases, features) by name -> (cases, outputs) float64."""
        said = [readout(features[name]) for name, readout in self.readouts.items()]
        return torch.einsum("bno,b->no", torch.stack(said), self.weights.double())


@dataclass(frozen=True, eq=False)
class StackedMemory:
    """What a stream of one series must remember: of its path, and of each member's blocks."""

    trace: Trace
    blocks: tuple[StepMemory | None, ...]


class Stacked(Model):
    """Members over one path.

    Args:
        path: from observations.
        members: their outputs are averaged.
        history: how the fit of each went.
    """

    def __init__(
        self, path: Path, members: tuple[Member, ...], history: tuple[History, ...]
    ) -> None:
        """Keep them."""
        self.path, self.members, self.history = path, members, history

    @property
    def timed(self) -> bool:
        """Whether it was fitted with times."""
        return self.path.timed

    @property
    def channels(self) -> int:
        """Of the series."""
        return self.path.channels

    def outputs(self, cases: Cases, threads: int) -> Tensor:
        """Of whole series: (members, cases, outputs)."""
        outputs = []
        for member in self.members:
            seen = looks(self.path, member.blocks, cases, threads)
            outputs.append(in_order([(some, member(x)) for some, x in seen]))
        return torch.stack(outputs)

    def advance(self, values: Tensor, times: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """Of series so far; each is a stream of its own."""
        before = [None] * len(values) if memory is None else memory
        answers = [
            self._advance(x, t, carried)
            for x, t, carried in zip(values, times.tolist(), before, strict=True)
        ]
        outputs = torch.stack([x for x, _ in answers], 1)
        return outputs, tuple(carried for _, carried in answers)

    def _advance(
        self, values: Tensor, time: float, memory: StackedMemory | None
    ) -> tuple[Tensor, StackedMemory]:
        trace, of_members = None, (None,) * len(self.members)
        if memory is not None:
            trace, of_members = memory.trace, memory.blocks
        elements, trace = self.path.advance(values, time, trace)
        blocks, outputs = [], []
        shares = (trace.known / trace.rows)[self.path.gaps].unsqueeze(0)
        for member, before in zip(self.members, of_members, strict=True):
            for element in elements.T:
                before = member.blocks.advance(element, before)
            blocks.append(before)
            seen = before
            if seen is None:  # nothing was observed yet: the mean stands for it
                seen = member.blocks.advance(torch.zeros(self.channels), None)
            outputs.append(member(observed(member.blocks.features(seen), shares))[0])
        return torch.stack(outputs), StackedMemory(trace, tuple(blocks))


def observed(features: dict[str, Tensor], shares: Tensor) -> dict[str, Tensor]:
    """Features with the shares of observed values (cases, gaps) among them."""
    return features | {OBSERVED: torch.cat([features[OBSERVED], shares], 1)}


def looks(
    path: Path, blocks: Blocks, cases: Cases, threads: int
) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    """The features of all cases, a few of similar lengths at once, and which cases they are."""
    lengths = torch.maximum(cases.lengths, path.lengths(cases))
    for group in alike(lengths):
        size = blocks.at_once(path.channels, int(lengths[group].max()))
        for some in group.split(size):
            part = cases.select(some)
            yield some, observed(blocks(*path(part), threads), path.shares(part))


def in_order(parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """What was found of some cases at a time, (some, ...) each, in the order of the cases."""
    order = torch.cat([some for some, _ in parts])
    return torch.cat([x for _, x in parts])[order.argsort()]


def fit_stacked(groups: int | None, members: int, problem: Problem) -> Stacked:
    """Draw blocks, look at the training series, and solve for the read-outs.

    Args:
        groups: of filters of one dilation, None to choose.
        members: how many.
        problem: what to fit.
    """
    path = Path.fit(problem.cases)
    targets = problem.targets.double()
    if problem.classes:
        targets = 2.0 * torch.nn.functional.one_hot(problem.targets, problem.outputs).double() - 1
    fitted = []
    with Progress(problem.verbose, members * 2) as progress:
        for number in range(members):
            random = np.random.default_rng(derived_seed(problem.seed, f"member {number}"))
            fitted.append(_fit_member(path, groups, problem, targets, random, progress))
    return Stacked(path, tuple(x for x, _ in fitted), tuple(x for _, x in fitted))


def _fit_member(
    path: Path,
    groups: int | None,
    problem: Problem,
    targets: Tensor,
    random: np.random.Generator,
    progress: Progress,
) -> tuple[Member, History]:
    blocks = Blocks.draw(training_paths(path, problem.cases), groups, random)
    features = _all_features(path, blocks, problem, progress)
    readouts, left_out = {}, []
    for name in list(features):
        progress.tell(f"read-out of {name}", 1 / len(features))
        readouts[name], said = fit_readout(
            features[name], targets, problem.weights, random, apart=not problem.classes
        )
        left_out.append(said)
        del features[name]
    member, joined, weights = _joined(blocks, readouts, left_out, targets, problem)
    error = (joined - targets).square().mean().item()
    return member, History(0, ((0, error),), tuple(zip(readouts, weights.tolist(), strict=True)))


def _joined(
    blocks: Blocks,
    readouts: dict[str, Readout],
    left_out: list[Tensor],
    targets: Tensor,
    problem: Problem,
) -> tuple[Member, Tensor, Tensor]:
    """A member, what it says of cases that were left out, and the weights of its blocks."""
    said = torch.stack(left_out)
    if problem.classes:
        weights = as_shares(join(left_out, targets, problem.weights))
        joined = torch.einsum("bno,b->no", said, weights)
        factor = sharpness(joined, problem.targets, problem.weights)
        return Member(blocks, readouts, (factor * weights).float()), joined, weights
    columns = [
        join([x[:, [n]] for x in left_out], targets[:, [n]], problem.weights)
        for n in range(targets.shape[1])
    ]
    weights = torch.stack(columns, 1)
    own = {name: x.times(w) for (name, x), w in zip(readouts.items(), weights, strict=True)}
    member = Member(blocks, own, torch.ones(len(own)))
    return member, torch.einsum("bno,bo->no", said, weights), weights.mean(1)


def _all_features(
    path: Path, blocks: Blocks, problem: Problem, progress: Progress
) -> dict[str, Tensor]:
    """Those of all training cases, in one array for each block."""
    count, collected = len(problem.cases), {}
    for some, features in looks(path, blocks, problem.cases, problem.threads):
        for name, x in features.items():
            if name not in collected:
                collected[name] = torch.empty(count, x.shape[1])
            collected[name][some] = x
        progress.tell("features", len(some) / count)
    return collected
