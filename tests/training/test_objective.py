"""The whole objective of a batch, written out, in value and gradient."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slicekit import Dense, Mean, SequenceModel, SLiCE, tasks
from slicekit.tasks import Batch
from slicekit.tasks.losses import CrossEntropy
from slicekit.training import Settings, train
from slicekit.training.captured import head_of, last_mixer_of
from slicekit.training.objective import Objective
from slicekit.training.processes import Processes


class Reader(nn.Module):
    """Features, and a head that reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(6, 5)
        self.features = nn.Linear(5, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.head(self.read(inputs))

    def read(self, inputs: Tensor) -> Tensor:
        return torch.tanh(self.features(self.embedding(inputs)))

    def regularisation(self) -> Tensor:
        return self.features.weight.norm()


def spread(features: Tensor, targets: Tensor) -> Tensor:
    within = sum(
        (features[targets == c] - features[targets == c].mean(0)).square().sum()
        for c in targets.unique()
    )
    return within / (features - features.mean(0)).square().sum()


@pytest.mark.parametrize("consistency", [0.0, 2.0])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_the_objective_is_the_sum_of_its_terms(consistency: float, penalty: float) -> None:
    torch.manual_seed(0)
    model = Reader().double()
    inputs = torch.randint(6, (7, 8))
    supervised = torch.rand(7, 8) < 0.6
    batch = Batch(inputs, inputs % 3 * supervised, supervised, torch.full((7,), 8))
    settings = Settings(consistency=consistency, penalty=penalty)
    with Objective(model, CrossEntropy(), settings, Processes()) as own:
        figures = own.backward(batch, None)
    found = [x.grad.clone() for x in model.parameters() if x.grad is not None]
    logits, targets = model(inputs)[supervised], (inputs % 3)[supervised]
    right = (logits.argmax(-1) == targets).double().mean()
    apart = spread(model.read(inputs)[supervised], targets)
    entropy = F.cross_entropy(logits, targets)
    total = entropy + penalty * model.regularisation() + consistency * right**4 * apart
    assert 0 < right < 1
    expected = [total, entropy, right, apart if consistency else apart * 0]
    torch.testing.assert_close(figures, torch.stack(expected).detach())
    torch.testing.assert_close(found, list(torch.autograd.grad(total, list(model.parameters()))))


def test_features_are_what_the_last_linear_map_is_given() -> None:
    model = Reader()
    assert head_of(model) is model.head
    with pytest.raises(ValueError, match="Embedding has no linear map whose inputs"):
        head_of(nn.Embedding(3, 3))


def test_states_may_be_compared_in_place_of_features() -> None:
    torch.manual_seed(0)
    model = SequenceModel(
        vocabulary=6, outputs=3, width=4, mixer=lambda width: SLiCE(width, Dense(width))
    ).double()
    inputs = torch.randint(6, (7, 8))
    batch = Batch(inputs, inputs % 3, torch.ones(7, 8, dtype=torch.bool), torch.full((7,), 8))
    settings = Settings(consistency=1.0, consistent_states=True)
    with Objective(model, CrossEntropy(), settings, Processes()) as objective:
        figures = objective.backward(batch, None)
    states = last_mixer_of(model)(model.embedding(inputs))
    assert states.shape == (7, 8, 4)
    torch.testing.assert_close(
        figures[-1], spread(states.flatten(0, 1), batch.targets.flatten()).detach()
    )
    with pytest.raises(ValueError, match="Reader has no block with a mixer"):
        Objective(Reader(), CrossEntropy(), settings, Processes())


def test_states_of_a_model_that_answers_once_are_not_compared() -> None:
    areas = tasks.make("areas")
    model = SequenceModel(
        channels=areas.channels,
        outputs=areas.outputs,
        width=4,
        mixer=lambda width: SLiCE(width, Dense(width)),
        pool=Mean(),
    )
    settings = Settings(steps=1, batch=4, consistency=1.0, consistent_states=True)
    with pytest.raises(ValueError, match="stand at 64 positions and the answers at 1; expected"):
        train(model, areas, settings)


def test_nothing_listens_after_training() -> None:
    model = Reader()
    with Objective(model, CrossEntropy(), Settings(consistency=1.0), Processes()):
        assert model.head._forward_pre_hooks
    assert not model.head._forward_pre_hooks
