"""Loss, accuracy and spread against naive implementations, values and gradients."""

import pytest
import torch
from torch import Tensor

from slicekit.tasks import Batch, accuracy
from slicekit.tasks.losses import CrossEntropy
from slicekit.training.processes import Processes
from slicekit.training.terms import Labels, spread

CPU = torch.device("cpu")


def some_batch(share: float) -> Batch:
    supervised = torch.rand(6, 7) < share
    targets = torch.randint(4, (6, 7)) * supervised
    return Batch(torch.zeros(6, 7).long(), targets, supervised, torch.full((6,), 7))


@pytest.mark.parametrize("share", [0.3, 2.0], ids=["some", "all"])
def test_loss_and_accuracy_count_supervised_positions_alone(share: float) -> None:
    batch, logits = some_batch(share), torch.randn(6, 7, 4).double().requires_grad_()
    labels = Labels.of(batch, CPU)
    chosen = labels.select(logits)
    total = CrossEntropy().total(chosen, labels.targets, labels.weights)
    expected = torch.zeros(())
    for i, j in batch.supervised.nonzero().tolist():
        expected = expected - logits[i, j].log_softmax(0)[batch.targets[i, j]]
    torch.testing.assert_close(total, expected.double())
    found, wanted = (torch.autograd.grad(x, logits)[0] for x in (total, expected))
    torch.testing.assert_close(found, wanted)
    right = CrossEntropy().right(chosen, labels.targets)
    assert right.float().mean() == accuracy(logits, batch)


def test_the_largest_logit_is_torchs_also_on_ties_and_nan() -> None:
    logits = torch.tensor([[1.0, 1.0, 0.0], [0.0, float("nan"), 3.0], [0.0, 0.0, 0.0]])
    for target in range(3):
        targets = torch.full((3,), target)
        right = CrossEntropy().right(logits, targets)
        assert torch.equal(right, logits.argmax(-1) == targets)


def test_half_precision_is_compared_in_single() -> None:
    labels = Labels.of(some_batch(2.0), CPU)
    assert labels.select(torch.zeros(6, 7, 4, dtype=torch.bfloat16)).dtype == torch.float32
    assert labels.select(torch.zeros(6, 7, 4, dtype=torch.float64)).dtype == torch.float64


def naive_spread(features: Tensor, targets: Tensor) -> Tensor:
    """With gradients through all means."""
    within = torch.zeros((), dtype=features.dtype)
    for target in targets.unique():
        own = features[targets == target]
        within = within + (own - own.mean(0)).square().sum()
    return within / (features - features.mean(0)).square().sum()


def test_the_spread_and_its_gradient_are_those_through_the_means() -> None:
    features = torch.randn(50, 6, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(5, (50,)) + 2
    counts = torch.bincount(targets)
    value, expected = (
        spread(features, targets, counts, Processes()),
        naive_spread(features, targets),
    )
    torch.testing.assert_close(value, expected)
    found, wanted = (torch.autograd.grad(3 * x, features)[0] for x in (value, expected))
    torch.testing.assert_close(found, wanted)


def test_the_spread_is_zero_for_features_that_are_their_class_and_one_for_one_class() -> None:
    targets = torch.randint(4, (30,))
    centres = torch.randn(4, 8)
    counts = torch.bincount(targets, minlength=4)
    assert spread(centres[targets], targets, counts, Processes()) < 1e-10
    noise, one = torch.randn(200, 8), torch.zeros(200).long()
    assert spread(noise, one, torch.tensor([200]), Processes()) == pytest.approx(1)
    assert spread(noise * 0, one, torch.tensor([200]), Processes()) == 0


@pytest.mark.parametrize("value", [0.0, 3.7, 1e15])
def test_the_spread_of_equal_features_is_zero_with_its_gradient(value: float) -> None:
    features = torch.full((6, 3), value, requires_grad=True)
    targets = torch.tensor([0, 0, 1, 1, 1, 1])
    apart = spread(features, targets, torch.bincount(targets), Processes())
    (gradient,) = torch.autograd.grad(apart, features)
    assert apart == 0 and torch.equal(gradient, torch.zeros(6, 3))
