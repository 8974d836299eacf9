"""Layers, mixers, training and estimators on a device that is not there: see `tests.pretended`.

Wherever a tensor is made on the wrong device, an operation fails here as it would there. What comes
out is compared with the CPU, where other kernels serve.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from slicekit import (
    Chunked,
    Diagonal,
    Differences,
    Duration,
    Exponential,
    FirstInput,
    Learned,
    LogODE,
    Mean,
    Orthogonal,
    Recurrent,
    SequenceModel,
    SLiCE,
    catalogue,
    load,
    save,
    tasks,
)
from slicekit.training import Settings, evaluate, train
from slicekit.training.diagnosis import diagnose
from slicekit.training.folder import RunFolder
from tests.market import STRUCTURES, every_structure
from tests.mixers.market import MIXERS, every_mixer
from tests.pretended import pretended

BATCH, LENGTH = 2, 6
every_device = pytest.mark.parametrize("kind", ["cuda", "mps"])


def near(found: Tensor, expected: Tensor) -> None:
    scale = expected.abs().max().clamp_min(1e-3)
    assert ((found - expected).abs() <= 1e-4 * scale).all()


def walk(module: Any, kind: str = "cuda") -> None:
    """Forward with lengths, backward, in parts and by a step: all on the device, and as ever."""
    torch.manual_seed(1)
    x, lengths = torch.randn(BATCH, LENGTH, module.channels), torch.tensor([LENGTH, 4])
    expected = module(x, lengths=lengths)
    cotangent = torch.randn(expected.shape)
    expected.backward(cotangent)
    gradients = {name: p.grad for name, p in module.named_parameters()}
    module.zero_grad()
    with pretended(kind) as device:
        moved = module.to(device)
        x, lengths = x.to(device), lengths.to(device)
        found = moved(x, lengths=lengths)
        assert found.device == device
        near(found.detach().cpu(), expected.detach())
        found.backward(cotangent.to(device))
        for name, p in moved.named_parameters():
            assert p.device == device
            if gradients[name] is not None:
                assert p.grad is not None and p.grad.device == device
                near(p.grad.cpu(), gradients[name])
        with torch.no_grad():
            _, state = moved(x[:, :3], return_state=True)
            moved.step(x[:, 3], state)


@every_structure
def test_layers_run_on_another_device(name: str) -> None:
    torch.manual_seed(0)
    walk(SLiCE(3, STRUCTURES[name], affine=True, initial=Learned()))


@pytest.mark.parametrize(
    "options",
    [
        {"flow": Exponential(), "scan": Chunked(4)},
        {"scan": Recurrent()},
        {"projective": True},
        {"drive": Differences(), "initial": FirstInput()},
        {"flow": LogODE(depth=2, window=4)},
        {"flow": LogODE(depth=2, window=Duration(0.06))},
    ],
    ids=str,
)
@every_device
def test_every_way_to_run_a_layer_runs_on_another_device(
    options: dict[str, Any], kind: str
) -> None:
    torch.manual_seed(0)
    walk(SLiCE(3, STRUCTURES["ragged"], **options), kind)


@every_mixer
def test_mixers_run_on_another_device(name: str) -> None:
    torch.manual_seed(0)
    walk(MIXERS[name](), "mps")


def make_model(dropout: float = 0.0) -> SequenceModel:
    torch.manual_seed(0)
    return SequenceModel(
        vocabulary=3,
        outputs=3,
        width=8,
        mixer=lambda width: SLiCE(width, Orthogonal(width, block=2), initial=Learned()),
        dropout=dropout,
    )


SETTINGS = Settings(
    steps=2,
    batch=4,
    lengths=(3, 6),
    evaluate_every=1,
    checkpoint_every=1,
    validation_batches=1,
    average=0.5,
    consistency=1.0,
    penalty=1e-3,
    grow_from=4,
    clip=0.1,
)


@every_device
def test_training_on_another_device_is_training_on_the_cpu(kind: str, tmp_path: Path) -> None:
    """Objective, optimiser, average, curriculum, consistency, validation, checkpoints, resuming."""
    task = tasks.make("parity", validation_lengths=(5, 6))
    expected = train(make_model(), task, SETTINGS)
    with pretended(kind) as device:
        found = train(make_model(), task, SETTINGS, device=kind, folder=tmp_path / "run")
        assert found.loss == pytest.approx(expected.loss, rel=1e-3)
        assert next(found.model.parameters()).device == device
        for a, b in zip(found.model.parameters(), expected.model.parameters(), strict=True):
            near(a.detach().cpu(), b.detach())
        scores = evaluate(found.model, task, [5, 9], sequences=4, part=4)
        assert scores == evaluate(expected.model, task, [5, 9], sequences=4, part=4)
        stored = RunFolder(tmp_path / "run")
        (stored.checkpoints / "step-00000002.safetensors").unlink()
        again = train(make_model(), task, folder=tmp_path / "run", resume=True, device=kind)
        assert again.loss == found.loss
    read = load(tmp_path / "run" / "model.safetensors")
    near(next(read.parameters()).detach(), next(expected.model.parameters()).detach())


def test_a_run_goes_on_with_another_device(tmp_path: Path) -> None:
    """A device draws its own masks, so that a run with dropout is another one from there."""
    task = tasks.make("parity", validation_lengths=(5, 6))
    with pretended("cuda"):
        train(make_model(0.1), task, SETTINGS, folder=tmp_path, device="cuda")
    stored = RunFolder(tmp_path)
    (stored.checkpoints / "step-00000002.safetensors").unlink()
    with pytest.warns(UserWarning, match="was on cuda, and goes on with cpu"):
        again = train(make_model(0.1), task, folder=tmp_path, resume=True)
    assert again.steps == 2


def test_a_diagnosis_runs_on_another_device() -> None:
    task = tasks.make("parity")
    with pretended("cuda") as device:
        found = diagnose(make_model().to(device), task, sequences=4, lengths=[8, 16])
    assert [x.length for x in found.readings] == [8, 16]


@pytest.mark.parametrize("name", ["bd-slice", "lstm:width=16", "s5:width=16"])
def test_named_models_take_a_training_step_on_another_device(name: str) -> None:
    task = tasks.make("parity", validation_lengths=(5, 6))
    model = catalogue.build(name, task, layers=1)
    settings = Settings(steps=1, batch=2, lengths=(3, 4), validation_batches=1)
    with pretended("cuda"):
        assert train(model, task, settings, device="cuda").steps == 1


@pytest.mark.parametrize("solver", ["ridge", "gradient"])
@every_device
def test_estimators_fit_predict_and_stream_on_another_device(
    solver: str, kind: str, tmp_path: Path
) -> None:
    pytest.importorskip("sklearn")
    from slicekit.estimators import SliceClassifier, SliceRegressor
    from tests.estimators.waves import RIDGE, SMALL, waves

    parameters: Any = RIDGE if solver == "ridge" else SMALL
    X, y = waves(8, length=6)
    expected = SliceClassifier(**parameters).fit(X, y)
    with pretended(kind) as device:
        model = SliceClassifier(**parameters, device=kind).fit(X, y)
        networks: Any = getattr(model.model_, "networks", ())
        assert {p.device for net in networks for p in net.parameters()} <= {device}
        found = model.predict_proba(X)
        stream = model.stream()
        for observation in X[0].T:
            stream.update(observation)
        np.testing.assert_allclose(stream.prediction, found[0], atol=1e-4)
        regressor = SliceRegressor(**parameters, device=kind).fit(X, X.mean((1, 2)))
        assert np.isfinite(regressor.predict(X)).all()
        model.save(tmp_path / "model.safetensors")
        moved = SliceClassifier.load(tmp_path / "model.safetensors", device=kind)
        np.testing.assert_allclose(moved.predict_proba(X), found, atol=1e-6)
    np.testing.assert_allclose(found, expected.predict_proba(X), atol=1e-3)


def test_models_are_stored_from_another_device_and_loaded_onto_it(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = SequenceModel(
        channels=3, outputs=2, width=4, mixer=lambda w: SLiCE(w, Diagonal(w)), pool=Mean()
    )
    x = torch.randn(2, 5, 3)
    expected = model(x).detach()
    with pretended("cuda") as device:
        save(model.to(device), tmp_path / "model.safetensors")
    near(load(tmp_path / "model.safetensors")(x).detach(), expected)


def test_the_pretended_device_notices_what_a_true_one_would() -> None:
    with pretended("mps") as device:
        there, here = torch.ones(3, device=device), torch.ones(3)
        assert (there * 2 + torch.tensor(1.0)).tolist() == [3.0, 3.0, 3.0]
        for wrong in (
            lambda: there + here,
            lambda: torch.cat([there, here]),
            lambda: nn.Linear(3, 2)(there),
            lambda: there.double(),
            lambda: there.numpy(),
        ):
            with pytest.raises((RuntimeError, TypeError)):
                wrong()
