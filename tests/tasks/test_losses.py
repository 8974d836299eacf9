"""Losses of single answers, and what validation makes of them."""

import torch

from slicekit.tasks.losses import CrossEntropy, SquaredError


def test_validation_is_judged_without_smoothing() -> None:
    logits, targets = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    smooth, plain = CrossEntropy(0.3), CrossEntropy()
    torch.testing.assert_close(
        smooth.plain().each(logits, targets), -logits.log_softmax(-1)[range(5), targets]
    )
    mixed = 0.7 * plain.each(logits, targets) - 0.3 * logits.log_softmax(-1).mean(-1)
    torch.testing.assert_close(smooth.each(logits, targets), mixed)


def test_a_weight_counts_an_answer_as_often() -> None:
    logits, targets = torch.randn(4, 3), torch.tensor([2, 0, 1, 1])
    twice = torch.tensor([0, 0, 1, 3])
    for loss, wanted in ((CrossEntropy(0.1), targets), (SquaredError(), torch.randn(4, 3))):
        found = loss.total(logits, wanted, torch.tensor([2.0, 1.0, 0.0, 1.0]))
        torch.testing.assert_close(found, loss.total(logits[twice], wanted[twice], None))


def test_numbers_are_chosen_by_their_loss_and_classes_as_one_likes() -> None:
    assert SquaredError().score(0.5, 0.0) > SquaredError().score(0.6, 0.0)
    assert CrossEntropy().score(9.0, 0.8) > CrossEntropy().score(0.1, 0.7)
    chosen = CrossEntropy(0.1, by_loss=True).plain()
    assert chosen.score(0.1, 0.7) > chosen.score(9.0, 0.8)
