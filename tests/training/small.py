"""What the tests of training share: a tiny model, parity, and settings that use everything."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from slicekit import Learned, Orthogonal, SequenceModel, SLiCE, TimeAndInput
from slicekit.tasks import Batch, Task, draw_lengths
from slicekit.training import Settings, Watcher
from slicekit.training.checkpoints import list_checkpoints, read_checkpoint

ROOT = Path(__file__).parents[2]
TIMES = ("seconds", "tokens_per_second")
"""Fields of the metrics that no two runs share."""

EVERYTHING = Settings(
    steps=40,
    batch=8,
    seed=3,
    decay=0.1,
    clip=0.5,
    penalty=1e-3,
    consistency=0.2,
    average=0.9,
    grow_at=0.3,
    grow_by=1,
    evaluate_every=7,
    validation_batches=2,
    record_every=4,
    checkpoint_every=5,
)


class Parity(Task):
    """Whether token 2 has come an even number of times, asked at every position."""

    name, vocabulary, outputs = "running parity", 3, 3
    train_lengths, validation_lengths, test_lengths = (3, 10), (5, 12), (5, 40)

    def sample(
        self,
        batch: int,
        lengths: tuple[int, int],
        generator: torch.Generator,
        split: str = "train",
    ) -> Batch:
        if split == "validation" and lengths[1] > 40:
            raise ValueError(f"lengths={lengths}; expected at most 40")
        drawn = draw_lengths(batch, lengths, generator)
        tokens = torch.randint(1, 3, (batch, lengths[1]), generator=generator)
        return Batch.every_position(tokens, 1 + (tokens == 2).cumsum(1) % 2, drawn)


class ParityWithPairs(Parity):
    """The same, with an extra batch of pairs at each step."""

    def helper(self, batch: int, generator: torch.Generator) -> Batch:
        return self.sample(batch // 2, (2, 2), generator)


def small_model(
    *, dropout: float = 0.0, seed: int = 0, width: int = 8, dtype: torch.dtype = torch.float32
) -> SequenceModel:
    """A model that takes a few milliseconds a step, the same one for the same arguments."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return SequenceModel(
            vocabulary=3,
            outputs=3,
            width=width,
            dropout=dropout,
            mixer=lambda width: SLiCE(
                width,
                Orthogonal(width, block=4),
                drive=TimeAndInput(dt=1.0),
                initial=Learned(),
            ),
        ).to(dtype)


class Notes(Watcher):
    """Remembers all that it is told."""

    def __init__(self) -> None:
        self.starts: list[tuple[int, int]] = []
        self.steps: list[Any] = []
        self.validations: list[Any] = []
        self.results: list[Any] = []

    def started(self, total_steps: int, from_step: int) -> None:
        self.starts.append((total_steps, from_step))

    def stepped(self, report: Any) -> None:
        self.steps.append(report)

    def evaluated(self, report: Any) -> None:
        self.validations.append(report)

    def finished(self, result: Any) -> None:
        self.results.append(result)


class StopAfter(Watcher):
    """Interrupts a run, as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, report: Any) -> None:
        if report.step == self.step:
            raise KeyboardInterrupt


def records(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run, without the times."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: x for k, x in line.items() if k not in TIMES} for line in lines]


def assert_same_tensors(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        assert found[name].dtype == x.dtype and torch.equal(found[name], x), name


def assert_same_weights(found: nn.Module, expected: nn.Module) -> None:
    assert_same_tensors(found.state_dict(), expected.state_dict())


def assert_same_runs(found: Path, expected: Path) -> None:
    """Bit for bit: models, checkpoints and metrics; only times may differ."""
    for name in ("model.safetensors", "best.safetensors"):
        assert_same_tensors(load_file(found / name), load_file(expected / name))
    assert records(found) == records(expected)
    ours, theirs = (list_checkpoints(folder / "checkpoints") for folder in (found, expected))
    assert [path.name for path in ours] == [path.name for path in theirs]
    for one, other in zip(ours, theirs, strict=True):
        own, wanted = read_checkpoint(one), read_checkpoint(other)
        assert_same_tensors(own.tensors, wanted.tensors)
        assert _without_times(own.numbers) == _without_times(wanted.numbers)


def _without_times(numbers: dict[str, Any]) -> Any:
    if not isinstance(numbers, dict):
        return numbers
    return {k: _without_times(x) for k, x in numbers.items() if k not in TIMES}
