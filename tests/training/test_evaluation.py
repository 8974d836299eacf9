"""Scores against brute force, whatever the part, and the parity that must be learned."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from slicekit import Learned, Orthogonal, SequenceModel, SLiCE, TimeAndInput, tasks
from slicekit.tasks import Batch
from slicekit.training import Score, Settings, evaluate, train
from slicekit.training import evaluation as room
from slicekit.training.evaluation import tally
from tests.training.small import Parity, small_model


class Uneven(Parity):
    """Lengths below the one asked for, and labels that end before the sequence does."""

    def sample(self, batch: int, lengths: tuple[int, int], generator: Any, split: str = "train"):
        drawn = super().sample(batch, (1, lengths[1]), generator, split)
        supervised = drawn.supervised & (torch.rand(drawn.inputs.shape, generator=generator) < 0.4)
        return Batch(drawn.inputs, drawn.targets * supervised, supervised, drawn.lengths)


class Growing(nn.Module):
    """Answers from the sum of the tokens so far, and carries no state."""

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        return torch.sin(inputs.cumsum(1).unsqueeze(-1) * torch.tensor([1.0, 2.0, 3.0]))


def brute_force(model: nn.Module, batch: Batch) -> tuple[float, float, float]:
    """Accuracy over all and over the last positions, and the mean loss, one position at a time."""
    right, ends, losses = [], [], []
    for i in range(batch.inputs.shape[0]):
        length = int(batch.lengths[i])
        logits = model(batch.inputs[i : i + 1, :length])[0]
        own = [j for j in range(length) if batch.supervised[i, j]]
        answers = [bool(logits[j].argmax() == batch.targets[i, j]) for j in own]
        losses += [-float(logits[j].log_softmax(0)[batch.targets[i, j]]) for j in own]
        right += answers
        ends += answers[-1:]
    return sum(right) / len(right), sum(ends) / len(ends), sum(losses) / len(losses)


@pytest.mark.parametrize("model", [small_model(), Growing()], ids=["with state", "without"])
@pytest.mark.parametrize("part", [1, 3, 8, 20, 4096])
def test_counts_are_those_of_brute_force_whatever_the_part(model: nn.Module, part: int) -> None:
    batch = Uneven().sample(16, (20, 20), torch.Generator().manual_seed(1))
    found = tally(model, batch, part)
    with torch.no_grad():
        overall, last, loss = brute_force(model, batch)
    assert found.positions == int(batch.supervised.sum())
    assert found.right / found.positions == pytest.approx(overall)
    assert found.right_ends / found.ends == pytest.approx(last)
    assert found.loss / found.positions == pytest.approx(loss, rel=1e-4)


def test_scores_do_not_depend_on_the_part_nor_on_other_lengths() -> None:
    model, task = small_model(), Parity()
    scores = evaluate(model, task, [7, 100, 31], sequences=5, part=9)
    assert scores == evaluate(model, task, [7, 100, 31], sequences=5, part=1000)
    assert scores[1:2] == evaluate(model, task, [100], sequences=5)
    assert [(score.length, score.sequences) for score in scores] == [(7, 5), (100, 5), (31, 5)]


def test_the_same_seed_gives_the_same_sequences() -> None:
    model = small_model()
    scores = [evaluate(model, Parity(), [64], seed=seed) for seed in (1, 1, 2)]
    assert scores[0] == scores[1] != scores[2]


def test_many_sequences_go_through_the_model_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    model, sizes = small_model(), []
    model.register_forward_pre_hook(lambda module, given: sizes.append(given[0].numel()))
    whole = evaluate(model, Parity(), [12], sequences=50)
    monkeypatch.setattr(room, "POSITIONS", 100)
    assert evaluate(model, Parity(), [12], sequences=50, part=10) == whole
    assert sizes[0] == 600 and max(sizes[1:]) <= 100


def test_long_sequences_take_no_more_memory_than_a_part() -> None:
    """What the model sees at once is never wider than a part."""
    model, widths = small_model(), []
    model.register_forward_pre_hook(lambda module, given: widths.append(given[0].shape[1]))
    evaluate(model, Parity(), [1000], sequences=2, part=64)
    assert sum(widths) == 1000 and max(widths) == 64


def test_the_mode_of_the_model_stays_and_dropout_is_off() -> None:
    model = small_model(dropout=0.5).train()
    assert evaluate(model, Parity(), [20]) == evaluate(model, Parity(), [20])
    assert model.training
    assert not evaluate(model.eval(), Parity(), [20])[0].overall > 1 and not model.training


def test_a_function_can_be_evaluated() -> None:
    def ones(batch: int, lengths: tuple[int, int], generator: torch.Generator) -> Any:
        tokens = torch.ones(batch, lengths[1]).long()
        return tokens, tokens

    assert evaluate(small_model(), ones, [4])[0].sequences == 32


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        ({"lengths": [0]}, ValueError, "lengths=0; expected at least 1"),
        ({"lengths": [2.5]}, TypeError, "lengths=2.5 is a float"),
        ({"lengths": [5], "sequences": 0}, ValueError, "sequences=0"),
        ({"lengths": [5], "part": 0}, ValueError, "part=0"),
        ({"lengths": [5], "seed": -1}, ValueError, "seed=-1"),
    ],
)
def test_wrong_arguments_are_named(
    wrong: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        evaluate(small_model(), Parity(), **wrong)


@pytest.mark.parametrize("seed", [0, 1])
def test_parity_is_learned_exactly_to_four_times_the_training_length(seed: int) -> None:
    """The label of the last position alone, one layer, seconds; far beyond the length as well."""
    torch.manual_seed(seed)
    model = SequenceModel(
        vocabulary=3,
        outputs=3,
        width=32,
        mixer=lambda width: SLiCE(
            width, Orthogonal(width, block=4), drive=TimeAndInput(dt=1.0), initial=Learned()
        ),
    )
    task = tasks.make("parity", train_lengths=(3, 10), validation_lengths=(10, 20))
    settings = Settings(steps=200, batch=64, rate=1e-2, consistency=10.0, seed=seed)
    result = train(model, task, settings)
    assert result.accuracy == 1.0
    found = evaluate(result.model, task, [40, 400], sequences=256)
    assert found == [Score(40, 256, 1.0, 1.0), Score(400, 256, 1.0, 1.0)]
