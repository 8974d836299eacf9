"""The pressure on the steps of layers: what it measures, when it sets in, what it does."""

from dataclasses import replace

import pytest
import torch

from slicekit import (
    DPLR,
    BlockDiagonal,
    Dense,
    Learned,
    LogODE,
    Orthogonal,
    SequenceModel,
    SLiCE,
    Sparse,
    Tabulated,
    TimeAndInput,
    WalshHadamard,
    tasks,
)
from slicekit.training import Settings, train
from slicekit.training.pressure import CapturedLayers, Pressure
from slicekit.training.reports import Watcher

SETTINGS = Settings(
    steps=6, batch=4, growth=10.0, isometry=5.0, pressure_at=5, pressure_steps=3, grow_at=0.01
)


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


def shares(pressure: Pressure, longest: list[int], accuracies: list[float]) -> list[float]:
    """The share of every step."""
    found = []
    for length, accuracy in zip(longest, accuracies, strict=True):
        found.append(pressure.share(length))
        pressure.observe(accuracy)
    return found


def test_the_share_waits_for_the_lengths_and_then_grows_geometrically() -> None:
    found = shares(Pressure(SETTINGS, longest=40), [3, 4, 5, 5, 7, 9, 9], [1.0] * 7)
    ratio = 1e4 ** (1 / 3)
    assert found == pytest.approx([1e-4, 1e-4, 1e-4, 1e-4 * ratio, 1e-4 * ratio**2, 1, 1])


def test_the_share_shrinks_while_answers_are_wrong() -> None:
    settings = replace(SETTINGS, pressure_at=1, pressure_steps=4, pressure_above=0.6)
    # The running accuracy passes 0.6 after nine right answers, and is below after two wrong ones.
    found = shares(Pressure(settings, longest=40), [40] * 16, [1.0] * 12 + [0.0] * 4)
    assert found == pytest.approx([1e-4] * 9 + [1e-3, 1e-2, 1e-1, 1.0, 1.0, 1e-2, 1e-4])


def test_a_restored_share_goes_on_where_it_was() -> None:
    first, second = (Pressure(SETTINGS, longest=40) for _ in range(2))
    shares(first, [5] * 2, [1.0, 0.5])
    second.restore(first.state())
    left = [5] * 3, [0.5, 1.0, 0.0]
    assert shares(second, *left) == shares(first, *left) != [SETTINGS.pressure_first] * 3


def carried(layer: SLiCE, x: torch.Tensor, disturbance: torch.Tensor) -> torch.Tensor:
    """log |δ_t|² by its definition, with dense matrices, one step after the other."""
    logs = []
    for rows in layer.drive(x).unbind(1):
        dense = layer.structure.euler(layer.A(x.dtype), rows).as_dense()
        disturbance = (dense @ disturbance.unsqueeze(-1)).squeeze(-1)
        logs.append(disturbance.square().sum(-1).log())
    return torch.stack(logs, 1)


@pytest.mark.parametrize(
    "structure", [Dense(6), BlockDiagonal(6, 2), Sparse(6), WalshHadamard(8), DPLR(6, 2)]
)
def test_disturbances_are_carried_as_by_dense_steps(structure) -> None:
    torch.manual_seed(0)
    layer = SLiCE(4, structure, drive=TimeAndInput(0.4), initial=Learned()).double()
    x = torch.randn(6, 7, 4, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(1)
    found = layer.growth(x)
    torch.manual_seed(1)
    start = torch.nn.functional.normalize(torch.randn(6, structure.dim, dtype=torch.float64))
    expected = carried(layer, x, start).clamp_min(0).square().mean()
    assert expected > 0
    torch.testing.assert_close(found, expected)
    wanted = [x, *layer.A.parameters()]
    for own, other in zip(
        torch.autograd.grad(found, wanted), torch.autograd.grad(expected, wanted), strict=True
    ):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("tabulated", [True, False])
def test_defects_are_those_of_the_steps(tabulated: bool) -> None:
    torch.manual_seed(0)
    layer = SLiCE(4, BlockDiagonal(8, 4), initial=Learned())
    table = torch.randn(3, 4)
    x = Tabulated(table, torch.arange(3).expand(2, 3))
    dense = layer.structure.euler(layer.A(torch.float32), layer.drive(table)).as_dense()
    gram = dense.mT @ dense - torch.eye(8)
    found = layer.isometry_defect(x if tabulated else x.dense())
    torch.testing.assert_close(found, gram.square().sum((-1, -2)).mean() / 8)


def test_tokens_and_their_vectors_have_the_same_growth() -> None:
    torch.manual_seed(0)
    layer = SLiCE(4, Dense(6), initial=Learned(), drive=TimeAndInput(0.5))
    tokens = Tabulated(torch.randn(3, 4), torch.randint(3, (5, 7)))
    found = []
    for x in (tokens, tokens.dense()):
        torch.manual_seed(1)
        found.append(layer.growth(x))
    torch.testing.assert_close(*found)


def test_what_stands_behind_the_end_does_not_count() -> None:
    torch.manual_seed(0)
    layer = SLiCE(4, Dense(6), initial=Learned(), drive=TimeAndInput(0.5))
    x, lengths, found = torch.randn(2, 6, 4), torch.tensor([6, 2]), []
    for padding in (0.0, float("nan")):
        x[1, 2:] = padding
        torch.manual_seed(1)
        found.append(layer.growth(x, lengths))
    assert found[0] == found[1] > 0


def test_all_is_finite_however_long_the_sequence() -> None:
    torch.manual_seed(0)
    layer = SLiCE(4, Dense(6), initial=Learned(), drive=TimeAndInput(1.0))
    x = torch.randn(1, 2000, 4, requires_grad=True)
    layer.growth(x).backward()
    assert x.grad is not None and x.grad.isfinite().all()


def test_windows_are_refused() -> None:
    layer = SLiCE(4, Dense(6), flow=LogODE(depth=2, window=3))
    for method in (layer.growth, layer.isometry_defect):
        with pytest.raises(ValueError, match="expected a flow whose steps are elements"):
            method(torch.randn(2, 6, 4))


def test_every_layer_counts_with_its_input_and_lengths() -> None:
    model, lengths = small(Dense(8), layers=2), torch.tensor([9, 3, 4])
    calls: list[tuple] = []
    layers = [x for x in model.modules() if isinstance(x, SLiCE)]
    for layer in layers:
        layer.growth = lambda *call: calls.append(call) or torch.ones(())  # type: ignore[method-assign]
        layer.isometry_defect = lambda x: torch.full((), 10.0)  # type: ignore[method-assign]
    for isometry, growth, expected in ((0.5, 0.0, 10.0), (0.0, 3.0, 6.0), (0.5, 3.0, 16.0)):
        with CapturedLayers(model) as captured:
            model(torch.randint(3, (3, 9)), lengths=lengths)
            assert captured.take(isometry, growth, 0.0) == expected
    assert len(calls) == 2 * len(layers)
    assert all(x.shape[:2] == (3, 9) and torch.equal(own, lengths) for x, own in calls)


def test_the_gradient_reaches_parameters_and_embedding() -> None:
    model = small()
    with CapturedLayers(model) as captured:
        model(torch.randint(3, (6, 9)))
        captured.take(1.0, 1.0, 1.0).backward()
    (layer,) = (x for x in model.modules() if isinstance(x, SLiCE))
    for x in (*layer.A.parameters(), embedding_of(model)):
        assert x.grad is not None and x.grad.abs().sum() > 0


def test_rotations_have_neither_defect_nor_growth() -> None:
    model = small(Orthogonal(8, block=4))
    with CapturedLayers(model) as captured:
        model(torch.randint(3, (2, 9)))
        assert captured.take(1.0, 1.0, 0.0) < 1e-10


def test_training_under_pressure_makes_all_small() -> None:
    found = {}
    for weight in (0.0, 30.0):
        settings = replace(
            SETTINGS,
            steps=60,
            growth=weight,
            isometry=weight,
            drift=weight,
            pressure_first=1.0,
            rate=2e-2,
        )
        model = train(small(Dense(8)), tasks.make("parity"), settings).model
        with CapturedLayers(model) as captured:
            model(torch.randint(3, (64, 9)))
            found[weight] = captured.take(1.0, 1.0, 1.0).item()
    assert found[30.0] < 0.5 * found[0.0]


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
    with pytest.raises(
        ValueError, match="isometry, growth or drift > 0, but Linear has no layer with"
    ):
        CapturedLayers(torch.nn.Linear(2, 2))
