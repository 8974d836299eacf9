"""Training on series: pooled logits, all validation cases, and runs that can be resumed."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slicekit import BlockDiagonal, Differences, Euler, LogODE, SequenceModel, SLiCE
from slicekit.layers import Mean
from slicekit.tasks import Batch, SeriesTask
from slicekit.tasks.archives import Series
from slicekit.tasks.losses import CrossEntropy
from slicekit.training import Score, Settings, evaluate, train
from slicekit.training import evaluation as room
from slicekit.training import objective as objective_room
from slicekit.training.diagnosis import diagnose
from slicekit.training.evaluation import tally
from slicekit.training.objective import Objective
from slicekit.training.processes import Processes
from tests.training.small import Notes, StopAfter, assert_same_runs, assert_same_weights

SETTINGS = Settings(
    steps=40, batch=8, rate=3e-2, evaluate_every=10, checkpoint_every=10, consistency=0.1
)


def turns(cases: int, seed: int) -> Series:
    """Circles that turn left or right, of unequal lengths."""
    generator = torch.Generator().manual_seed(seed)
    answers, lengths = torch.arange(cases) % 2, torch.randint(9, 16, (cases,), generator=generator)
    angles = (2 * answers[:, None] - 1) * torch.arange(15) / 3
    angles = angles + 6 * torch.rand(cases, 1, generator=generator)
    values = torch.stack([angles.cos(), angles.sin()], -1)
    values = values * (torch.arange(15) < lengths[:, None])[..., None]
    return Series.from_padded(values, lengths, answers, ("left", "right"), None, "turns")


def a_task() -> SeriesTask:
    return SeriesTask(turns(30, 0), turns(11, 1), turns(13, 2))


def a_model(seed: int = 0) -> SequenceModel:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return SequenceModel(
            channels=2,
            outputs=2,
            width=8,
            mixer=lambda width: SLiCE(width, BlockDiagonal(width, 2), drive=Differences()),
            pool=Mean(),
        )


class Sums(nn.Module):
    """Answers from the sum of a series, and carries no state."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 2)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.head(inputs.sum(1))


def test_the_objective_is_the_cross_entropy_of_the_answers() -> None:
    model, batch = Sums(), a_task().whole("train")
    with Objective(model, CrossEntropy(), Settings(), Processes()) as objective:
        figures = objective.backward(batch, None)
    found = [x.grad.clone() for x in model.parameters() if x.grad is not None]
    logits, answers = model(batch.inputs), batch.targets.squeeze(1)
    expected = F.cross_entropy(logits, answers)
    right = (logits.argmax(-1) == answers).float().mean()
    torch.testing.assert_close(figures[:3], torch.stack([expected, expected, right]).detach())
    torch.testing.assert_close(found, list(torch.autograd.grad(expected, list(model.parameters()))))


@pytest.mark.parametrize("model", [a_model(), Sums()], ids=["with state", "without"])
@pytest.mark.parametrize("at_once", [1, 40, 2**17])
def test_counts_are_those_of_one_series_at_a_time(
    model: nn.Module, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "POSITIONS", at_once)
    batch = a_task().whole("test")
    found = tally(model, batch, part=4)
    right, loss = 0, 0.0
    for row in range(13):
        one = batch.inputs[row : row + 1, : batch.lengths[row]]
        logits = model(one).detach()
        right += int(logits.argmax() == batch.targets[row, 0])
        loss += float(F.cross_entropy(logits, batch.targets[row]))
    assert (found.positions, found.ends, found.right, found.right_ends) == (13, 13, right, right)
    assert found.loss == pytest.approx(loss, rel=1e-4)


def test_validation_and_test_take_every_case_once() -> None:
    task, model, notes = a_task(), a_model(), Notes()
    result = train(model, task, SETTINGS, watch=notes)
    counts = [round(report.accuracy * 11, 6) % 1 for report in notes.validations]
    assert len(counts) == 4 and set(counts) == {0.0}
    expected = tally(model, task.whole("test"))
    assert evaluate(model, task) == [Score(15, 13, expected.right / 13, expected.right / 13)]
    assert result.best_accuracy > 0.9, "left and right are easy to tell apart"


def test_validation_sees_the_weights_of_its_step() -> None:
    """Also if the model keeps what it derives from its weights while nothing is trained."""
    flow = LogODE(2, 4, Euler())
    layer = SLiCE(2, BlockDiagonal(4, 2), drive=Differences(), flow=flow)
    model = SequenceModel(channels=2, outputs=2, width=4, embed=False, blocks=[layer], pool=Mean())
    task, notes = a_task(), Notes()
    train(model, task, replace(SETTINGS, consistency=0.0), watch=notes)
    fresh = copy.deepcopy(model)
    found = tally(fresh, task.whole("validation"))
    assert notes.validations[-1].loss == pytest.approx(found.loss / 11)


def test_a_batch_that_is_mostly_padding_has_the_gradient_of_one_that_is_not_cut_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = torch.Generator().manual_seed(0)
    values = 0.01 * torch.randn(9, 300, 2, generator=generator).cumsum(1)
    lengths = torch.tensor([3, 4, 300, 5, 3, 9, 120, 3, 4])
    batch = Batch.series(values, torch.arange(9) % 2, lengths)

    def found() -> tuple[Tensor, list[Tensor], list[tuple[int, ...]]]:
        model, shapes = a_model(), []
        model.register_forward_pre_hook(lambda _, given: shapes.append(tuple(given[0].shape[:2])))
        with Objective(model, CrossEntropy(), Settings(), Processes()) as objective:
            figures = objective.backward(batch, None)
        return figures, [x.grad for x in model.parameters() if x.grad is not None], shapes

    figures, gradients, shapes = found()
    assert shapes == [(1, 300), (1, 120), (2, 9), (5, 4)]
    monkeypatch.setattr(objective_room, "MOSTLY", 1e9)
    whole, expected, shapes = found()
    assert shapes == [(9, 300)]
    torch.testing.assert_close(figures, whole)
    torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-5)


def test_one_long_series_among_short_ones_is_trained_and_tested_on() -> None:
    lengths = torch.tensor([20_000, *[2] * 2_000])
    answers = torch.arange(2_001) % 2
    steps = torch.rand(24_000, 2, generator=torch.Generator().manual_seed(0)) - 0.5
    task = SeriesTask(*[Series(steps, lengths, answers, ("a", "b"), name="long")] * 3)
    with pytest.raises(ValueError, match="are 80040000 values"):
        task.whole("test")
    assert (
        train(Sums(), task, replace(SETTINGS, steps=2, evaluate_every=2, consistency=0)).steps == 2
    )
    assert [(x.length, x.sequences) for x in evaluate(Sums(), task)] == [(20_000, 2_001)]


def test_the_batch_may_be_larger_than_the_set() -> None:
    assert train(a_model(), a_task(), replace(SETTINGS, steps=2, batch=100)).steps == 2


def test_interrupted_and_resumed_it_comes_to_the_same_bits(tmp_path: Path) -> None:
    whole = train(a_model(), a_task(), SETTINGS, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(a_model(), a_task(), SETTINGS, folder=tmp_path / "parts", watch=StopAfter(23))
    model = a_model(seed=5)
    parts = train(model, a_task(), SETTINGS, folder=tmp_path / "parts", resume=True)
    assert_same_weights(parts.model, whole.model)
    assert_same_runs(tmp_path / "parts", tmp_path / "whole")


def test_what_does_not_fit_a_finite_set_is_named() -> None:
    model, task = a_model(), a_task()
    with pytest.raises(ValueError, match=r"^lengths=\[5\], but turns has a test set of its own"):
        evaluate(model, task, [5])
    with pytest.raises(ValueError, match=r"^diagnose is for tokens of any length, but turns"):
        diagnose(model, task)
    everywhere = SequenceModel(
        channels=2, outputs=2, width=4, mixer=lambda n: SLiCE(n, BlockDiagonal(n, 2))
    )
    with pytest.raises(ValueError, match=r"the model's output has shape \(8, 1\d, 2\); expected"):
        train(everywhere, task, SETTINGS)


def test_generated_tasks_need_lengths() -> None:
    from slicekit import tasks

    with pytest.raises(ValueError, match=r"^lengths is missing: parity can be tested at any"):
        evaluate(a_model(), tasks.make("parity"))
