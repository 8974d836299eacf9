"""What a model does at one length: how often it is right, how surely, and where its states lie."""

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.tasks.base import Batch
from slicekit.tasks.losses import CrossEntropy
from slicekit.training.diagnosis.geometry import Classes, Means, Vectors, classes
from slicekit.training.evaluation import POSITIONS, carries_state, check_logits, device_of

NEAR = 2048
"""About how many positions count as near the end of a batch's sequences, over all of them."""

LOW = 0.01
"""The share of the positions whose margins are below the low margin."""


@dataclass(frozen=True)
class Reading:
    """What was seen at one length.

    Args:
        length: of the sequences.
        sequences: how many there were.
        overall: accuracy over all supervised positions.
        last: accuracy at the last supervised position of each sequence.
        near: accuracy over the last few supervised positions, which the rest is about too.
        positions: how many these are.
        chance: the accuracy there of always naming the most frequent class.
        margin: mean of the true class's logit minus the best other one.
        low_margin: their 1% quantile, which is positive while `near` is above 99%.
        margin_error: standard error of the quantile.
        states: of the last SLiCE, as directions; None if there is none.
        features: what enters the head; None if no module gives the logits.
        log_norms: mean logarithm of the norm of each SLiCE's state at the end.
    """

    length: int
    sequences: int
    overall: float
    last: float
    near: float
    positions: int
    chance: float
    margin: float
    low_margin: float
    margin_error: float
    states: Classes | None
    features: Classes | None
    log_norms: tuple[float, ...]


def mixers(model: nn.Module) -> list[nn.Module]:
    """The SLiCEs of a model, from first to last."""
    return [x for x in model.modules() if hasattr(x, "trajectory") and hasattr(x, "structure")]


def head_of(model: nn.Module, batch: Batch) -> nn.Module | None:
    """The innermost module that gives the logits of a batch; None if they are made in passing."""
    heard: list[tuple[nn.Module, Any, Any]] = []
    with ExitStack() as stack:
        for module in model.modules():
            hook = module.register_forward_hook(lambda *call: heard.append(call))
            stack.callback(hook.remove)
        device = device_of(model)
        logits = model(batch.inputs.to(device), lengths=batch.lengths.to(device))
    for module, arguments, result in heard:
        if result is logits and module is not model and _is_vectors(arguments, batch):
            return module
    return None


def _is_vectors(arguments: tuple[Any, ...], batch: Batch) -> bool:
    """Whether a module was given one vector for each position."""
    given = arguments[0] if arguments else None
    return isinstance(given, Tensor) and given.dim() == 3 and given.shape[:2] == batch.inputs.shape


class Observation:
    """What is gathered while a model runs: counts of all positions, and vectors near the end.

    Args:
        model: in evaluation mode.
        head: what `head_of` gave.
        batch: on the CPU, of sequences of one length.
        part: how many positions are run at a time, if the model carries a state; memory then does
            not grow with the length.
    """

    def __init__(self, model: nn.Module, head: nn.Module | None, batch: Batch, part: int) -> None:
        """Run the model on the whole batch."""
        self._supervised = self._right = self._ends = self._right_ends = 0
        self._kept: dict[str, list[Tensor]] = {}
        sequences, width = batch.inputs.shape
        size = min(part, width) if carries_state(model) else width
        rows = max(1, POSITIONS // size)
        reach = (batch.lengths // 8).clamp(1, max(1, NEAR // sequences))
        self._batch, self._size = batch, size
        self._near_from = (batch.lengths - reach).unsqueeze(1)
        self._last = (batch.supervised * torch.arange(1, width + 1)).amax(1, keepdim=True) - 1
        with _Listener(model, head) as listener:
            for top in range(0, sequences, rows):
                self._run(model, torch.arange(top, min(top + rows, sequences)), listener)
        if "targets" not in self._kept:
            raise ValueError(
                f"the task drew no supervised position near the end of sequences of {width}"
            )
        self._all = {name: torch.cat(pieces) for name, pieces in self._kept.items()}

    def _run(self, model: nn.Module, rows: Tensor, listener: "_Listener") -> None:
        device, width, state = device_of(model), self._batch.inputs.shape[1], None
        for start in range(0, width, self._size):
            places = torch.arange(start, min(start + self._size, width))
            piece = self._cut(rows, places)
            inputs, lengths = piece.inputs.to(device), piece.lengths.to(device)
            if self._size < width:
                logits, state = model(inputs, state=state, lengths=lengths, return_state=True)
            else:
                logits = model(inputs, lengths=lengths)
            check_logits(logits, piece)
            self._count(logits, piece, (places == self._last[rows]) & piece.supervised)
            near = (places >= self._near_from[rows]) & piece.supervised
            if bool(near.any()):
                self._keep_near(logits, piece.targets, near, rows, listener)
        if listener.log_norms:
            self._keep("log_norms", torch.stack(listener.log_norms, 1).cpu().double())

    def _cut(self, rows: Tensor, places: Tensor) -> Batch:
        first, stop = int(places[0]), int(places[-1]) + 1
        inputs, targets, supervised = (
            x[rows, first:stop]
            for x in (self._batch.inputs, self._batch.targets, self._batch.supervised)
        )
        lengths = (self._batch.lengths[rows] - first).clamp(0, stop - first)
        return Batch(inputs, targets, supervised, lengths)

    def _count(self, logits: Tensor, piece: Batch, at_end: Tensor) -> None:
        chosen = piece.supervised
        right = torch.zeros_like(chosen)
        right[chosen] = CrossEntropy().right(
            logits[chosen.to(logits.device)].cpu().float(), piece.targets[chosen]
        )
        self._supervised += int(chosen.sum())
        self._right += int(right.sum())
        self._ends += int(at_end.sum())
        self._right_ends += int((right & at_end).sum())

    def _keep_near(
        self, logits: Tensor, targets: Tensor, near: Tensor, rows: Tensor, listener: "_Listener"
    ) -> None:
        there = near.to(logits.device)
        self._keep("targets", targets[near])
        self._keep("sequences", rows.unsqueeze(1).expand_as(near)[near])
        self._keep("margins", _margins(logits[there].cpu().float(), targets[near]))
        if listener.states is not None:
            states = listener.states[there].cpu().double()
            self._keep("states", nn.functional.normalize(states, dim=1))
        if listener.features is not None:
            self._keep("features", listener.features[there].cpu().double())

    def _keep(self, name: str, piece: Tensor) -> None:
        self._kept.setdefault(name, []).append(piece)

    def vectors(self, name: str) -> Vectors | None:
        """The "states" or "features" near the end, None if there are none."""
        if name not in self._all:
            return None
        return Vectors(self._all[name], self._all["targets"], self._all["sequences"])

    def means(self) -> dict[str, Means]:
        """Of states and features, as far as there are any."""
        kinds = {name: self.vectors(name) for name in ("states", "features")}
        return {name: vectors.means() for name, vectors in kinds.items() if vectors is not None}

    def reading(self, length: int, reference: dict[str, Means]) -> Reading:
        """What was seen.

        Args:
            length: of the sequences.
            reference: `means` of short sequences.
        """
        targets, margins = self._all["targets"], self._all["margins"]
        lying: dict[str, Classes | None] = {"states": None, "features": None}
        for name, means in reference.items():
            vectors = self.vectors(name)
            assert vectors is not None
            lying[name] = classes(vectors, means)
        log_norms = self._all.get("log_norms", torch.zeros(1, 0)).mean(0)
        return Reading(
            length=length,
            sequences=len(self._batch.lengths),
            overall=self._right / self._supervised,
            last=self._right_ends / self._ends,
            near=float((margins > 0).double().mean()),
            positions=targets.numel(),
            chance=float(targets.bincount().max() / targets.numel()),
            margin=float(margins.mean()),
            low_margin=float(margins.quantile(LOW)),
            margin_error=_quantile_error(margins, len(self._all["sequences"].unique())),
            states=lying["states"],
            features=lying["features"],
            log_norms=tuple(log_norms.tolist()),
        )


def _margins(logits: Tensor, targets: Tensor) -> Tensor:
    """The true logit minus the best other: (positions, classes), (positions,) -> (positions,)."""
    right = targets.unsqueeze(1)
    others = logits.scatter(1, right, -math.inf).amax(1)
    return logits.gather(1, right).squeeze(1) - others


def _quantile_error(margins: Tensor, independent: int) -> float:
    """Half the distance between the quantiles one standard error of the share to either side."""
    error = math.sqrt(LOW * (1 - LOW) / independent)
    shares = torch.tensor([max(0.0, LOW - error), LOW + error]).clamp(0, 1)
    below, above = margins.quantile(shares.to(margins.dtype)).tolist()
    return (above - below) / 2


class _Listener:
    """Hears what the SLiCEs give and what the head is given, call after call."""

    def __init__(self, model: nn.Module, head: nn.Module | None) -> None:
        self._mixers, self._head, self._stack = mixers(model), head, ExitStack()
        self.log_norms: list[Tensor] = [torch.zeros(0)] * len(self._mixers)
        self.states: Tensor | None = None
        self.features: Tensor | None = None

    def __enter__(self) -> "_Listener":
        for number, mixer in enumerate(self._mixers):
            hook = mixer.register_forward_hook(self._of_mixer(number))
            self._stack.callback(hook.remove)
        if self._head is not None:
            hook = self._head.register_forward_pre_hook(self._of_head)
            self._stack.callback(hook.remove)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _of_mixer(self, number: int) -> Any:
        def keep(module: nn.Module, arguments: Any, result: Any) -> None:
            states, final = result if isinstance(result, tuple) else (result, None)
            self.log_norms[number] = _log_norm(states, final)
            self.states = states

        return keep

    def _of_head(self, module: nn.Module, arguments: Any) -> None:
        self.features = arguments[0]


def _log_norm(states: Tensor, final: Any) -> Tensor:
    """Of the last state of each sequence, (sequences,)."""
    last = states[:, -1] if final is None else final["hidden"]
    apart = None if final is None else final.get("log_norm")
    of_last = torch.linalg.vector_norm(last.double(), dim=-1).log()
    return of_last if apart is None else of_last + apart
