"""The pressure on transitions to be isometries: what it measures, when it grows, what it does."""

from dataclasses import replace

import pytest
import torch

from slicekit import BlockDiagonal, Dense, Learned, Orthogonal, SequenceModel, SLiCE, tasks
from slicekit.training import Settings, train
from slicekit.training.isometry import CapturedDefects, Pressure
from slicekit.training.reports import Watcher

SETTINGS = Settings(steps=6, batch=4, isometry=100.0, isometry_at=5, isometry_steps=3, grow_at=0.01)


def small(structure=None, layers: int = 1) -> SequenceModel:
    torch.manual_seed(0)
    structure = BlockDiagonal(8, 4) if structure is None else structure
    return SequenceModel(
        vocabulary=3,
        outputs=3,
        width=8,
        layers=layers,
        mixer=lambda width: SLiCE(width, structure, initial=Learned()),
    )


def embedding_of(model: SequenceModel) -> torch.Tensor:
    assert isinstance(model.embedding, torch.nn.Embedding)
    return model.embedding.weight


def test_the_weight_waits_for_the_lengths_and_then_grows_geometrically() -> None:
    pressure = Pressure(SETTINGS, longest=40)
    weights = [pressure.weight(step, longest) for step, longest in enumerate((3, 4, 5, 5, 7, 9, 9))]
    ratio = (100 / 0.3) ** (1 / 3)
    assert weights == pytest.approx([0.3, 0.3, 0.3, 0.3 * ratio, 0.3 * ratio**2, 100, 100])


def test_a_restored_weight_goes_on_where_it_was() -> None:
    first, second = (Pressure(SETTINGS, longest=40) for _ in range(2))
    for step in range(4):
        first.weight(step, 5)
    second.restore(first.state())
    assert second.weight(4, 5) == first.weight(4, 5) != SETTINGS.isometry_first


def test_without_isometry_there_is_no_weight() -> None:
    assert Pressure(Settings(), longest=40).weight(7, 40) == 0


@pytest.mark.parametrize("layers", [1, 2])
def test_defects_are_those_of_the_transitions_of_the_tokens(layers: int) -> None:
    model = small(layers=layers)
    tokens = torch.randint(3, (6, 9), generator=torch.Generator().manual_seed(0))
    with CapturedDefects(model) as defects:
        model(tokens)
        found = defects.take()
    (first, *_) = (x for x in model.modules() if isinstance(x, SLiCE))
    rows = first.drive(embedding_of(model))
    dense = first.structure.euler(first.A(torch.float32), rows).as_dense()
    gram = dense.mT @ dense - torch.eye(8)
    expected = gram.square().sum((-1, -2)).mean() / 8
    if layers == 1:
        torch.testing.assert_close(found, expected)
    else:
        assert found > expected


def test_the_gradient_reaches_parameters_and_embedding() -> None:
    model = small()
    with CapturedDefects(model) as defects:
        model(torch.randint(3, (6, 9)))
        defects.take().backward()
    (layer,) = (x for x in model.modules() if isinstance(x, SLiCE))
    for x in (*layer.A.parameters(), embedding_of(model)):
        assert x.grad is not None and x.grad.abs().sum() > 0


def test_rotations_have_no_defect() -> None:
    model = small(Orthogonal(8, block=4))
    with CapturedDefects(model) as defects:
        model(torch.randint(3, (2, 9)))
        assert defects.take() < 1e-10


def test_training_under_pressure_brings_transitions_near_isometries() -> None:
    defect = {}
    for weight in (0.0, 30.0):
        settings = replace(SETTINGS, steps=60, isometry=weight, isometry_first=30.0, rate=2e-2)
        model = train(small(Dense(8)), tasks.make("parity"), settings).model
        with CapturedDefects(model) as defects:
            model(torch.randint(3, (4, 9)))
            defect[weight] = defects.take().item()
    assert defect[30.0] < 0.5 * defect[0.0]


def test_a_killed_run_goes_on_to_the_same_numbers(tmp_path) -> None:
    task, settings = tasks.make("parity"), replace(SETTINGS, checkpoint_every=4)
    whole = train(small(), task, settings, folder=tmp_path / "whole").model

    class Killed(BaseException):
        pass

    class Kill(Watcher):
        def stepped(self, report) -> None:
            if report.step == 5:
                raise Killed

    with pytest.raises(Killed):
        train(small(), task, settings, folder=tmp_path / "parts", watch=Kill())
    parts = train(small(), task, folder=tmp_path / "parts", resume=True).model
    for name, x in whole.state_dict().items():
        assert torch.equal(x, parts.state_dict()[name]), name


def test_a_model_without_such_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="isometry > 0, but Linear has no layer with a method"):
        CapturedDefects(torch.nn.Linear(2, 2))
