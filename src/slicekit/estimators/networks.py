"""The model of `Gradient`: features of elements and windows, and networks over them."""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from slicekit.estimators.features import Features
from slicekit.estimators.fitting import Examples, Fit, chunks, fit_network
from slicekit.estimators.inputs import Cases
from slicekit.estimators.model import History, Model, Problem
from slicekit.estimators.network import Recipe
from slicekit.estimators.splitting import split
from slicekit.estimators.watching import watch_for
from slicekit.tasks.losses import CrossEntropy, SquaredError
from slicekit.training.seeds import derived_seed
from slicekit.training.settings import Settings

if TYPE_CHECKING:
    from slicekit.estimators.solvers import Gradient

SMOOTHING = 0.1
FEWEST_STEPS, EPOCHS = 400, 12
"""How long a network is trained by default: so many steps, or passes if those are more."""

BETAS = (0.9, 0.99)
MOST_STEPS = 256
"""Longer series are summed up in windows."""


class Networks(Model):
    """Networks over the features of series.

    Args:
        features: that they see.
        networks: the members.
        recipe: what they are made of.
        history: how the training of each went.
    """

    def __init__(
        self,
        features: Features,
        networks: tuple[nn.Module, ...],
        recipe: Recipe,
        history: tuple[History, ...],
    ) -> None:
        """Keep them."""
        self.features, self.networks, self.recipe = features, networks, recipe
        self.history = history

    @property
    def timed(self) -> bool:
        """Whether it was fitted with times."""
        return self.features.preparation.timed

    @property
    def channels(self) -> int:
        """Of the series."""
        return self.features.preparation.inputs

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return next(self.networks[0].parameters()).device

    def outputs(self, cases: Cases, threads: int) -> Tensor:
        """Of whole series, in batches: (members, cases, outputs)."""
        device, outputs = self.device, []
        for some in chunks(cases.lengths):
            features, lengths = (x.to(device) for x in self.features(cases.select(some)))
            said = [network(features, lengths=lengths) for network in self.networks]
            outputs.append(torch.stack(said).cpu())
        return torch.cat(outputs, 1)

    def advance(self, values: Tensor, times: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """Of series so far; the networks' states are those after the last complete window."""
        carried, states = (None, (None,) * len(self.networks)) if memory is None else memory
        features, carried, complete = self.features.advance(values, times, carried)
        features = features.to(self.device)
        outputs, after = [], []
        for network, state in zip(self.networks, states, strict=True):
            output, later = network.step(features, state)  # type: ignore[operator]
            outputs.append(output)
            after.append(later)
        return torch.stack(outputs).cpu(), (carried, tuple(after) if complete else states)


def fit_networks(solver: "Gradient", problem: Problem) -> Networks:
    """Train networks, each judged by cases that were held out."""
    longest = int(problem.cases.lengths.max())
    window = -(-longest // MOST_STEPS) if solver.window is None else solver.window
    features = Features.fit(problem.cases, int(window))
    targets = problem.targets if problem.classes else problem.targets.float()
    examples = Examples(*features(problem.cases), targets, problem.weights.float())
    recipe = Recipe(
        structure=solver.structure,
        width=int(solver.width),
        layers=int(solver.layers),
        dropout=float(solver.dropout),
    )
    loss = CrossEntropy(SMOOTHING, by_loss=True) if problem.classes else SquaredError()
    fitted = []
    for member in range(solver.members):
        random = np.random.RandomState(problem.seed)
        chosen, held = split(problem.groups, solver.validation_fraction, member, random)
        task = Fit(examples.select(chosen), examples.select(held), loss, problem.outputs)
        seed = derived_seed(problem.seed, f"member {member}")
        with watch_for(problem.verbose, f"network {member + 1} of {solver.members}") as watch:
            fitted.append(
                fit_network(
                    partial(recipe.build, features.channels, problem.outputs, examples.length),
                    task,
                    _settings(solver, len(chosen), seed),
                    problem.device,
                    watch,
                )
            )
    networks, history = (tuple(x) for x in zip(*fitted, strict=True))
    return Networks(features, networks, recipe, history)


def _settings(solver: "Gradient", cases: int, seed: int) -> Settings:
    epoch = max(1, cases // min(solver.batch_size, cases))
    steps = solver.max_steps
    if steps is None:
        steps = 10**9 if solver.max_epochs is not None else max(FEWEST_STEPS, EPOCHS * epoch)
    if solver.max_epochs is not None:
        steps = min(steps, solver.max_epochs * epoch)
    return Settings(
        steps=int(steps),
        batch=int(min(solver.batch_size, cases)),
        seed=seed,
        rate=float(solver.learning_rate),
        decay=float(solver.weight_decay),
        betas=BETAS,
        patience=None if solver.patience is None else int(solver.patience),
        evaluate_every=max(1, min(max(epoch, 20), int(steps))),
    )
