"""Named models for time series: the paper's sizes for its data sets, and what a name promises."""

import warnings
from pathlib import Path

import pytest
import torch

from slicekit import LogODE, SLiCE, catalogue, load, save
from slicekit.catalogue.baselines import BASELINES
from slicekit.catalogue.series import DATA_SETS as PAPER
from slicekit.catalogue.series import OTHER, STRUCTURES
from slicekit.layers import Last
from slicekit.tasks import SeriesTask
from slicekit.tasks.archives import Series
from slicekit.tasks.areas import Areas

every_model = pytest.mark.parametrize("name", STRUCTURES)


@pytest.fixture(autouse=True)
def _costs_are_known():
    """Brackets of some structures are dense, as in the paper."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "LogODE")
        yield


def task(name: str, channels: int | None = None, length: int = 33) -> SeriesTask:
    """Noise with the name and channels of a data set."""
    channels = PAPER[name].channels if channels is None else channels
    values = torch.randn(6, length, channels, generator=torch.Generator().manual_seed(0))
    series = Series.from_padded(
        values, torch.full((6,), length), torch.arange(6) % 2, ("a", "b"), None, name
    )
    return SeriesTask(series, series, series)


def layer_of(name: str, data_set: str) -> SLiCE:
    (layer,) = catalogue.build(name, task(data_set)).blocks
    assert isinstance(layer, SLiCE)
    return layer


def count(name: str, data_set: str) -> int:
    return sum(x.numel() for x in catalogue.build(name, task(data_set)).parameters())


@pytest.mark.parametrize("data_set", PAPER)
@pytest.mark.parametrize(
    ("name", "per_channel"),
    [
        ("d-slice", lambda n: n),
        ("bd-slice", lambda n: 4 * n),
        ("de-lncde", lambda n: n * n),
        ("wh-slice", lambda n: n),
        ("dplr-slice", lambda n: 9 * n),
        ("d-de-slice", lambda n: n - 16 + 256),
    ],
)
def test_sizes_are_those_of_the_paper(data_set: str, name: str, per_channel) -> None:
    """Matrices of every channel, an affine map to h_0, and a linear map to two classes."""
    channels, dim = PAPER[data_set].channels, PAPER[data_set].dim
    expected = channels * per_channel(dim) + dim * (channels + 1) + 2 * (dim + 1)
    assert count(name, data_set) == expected


def test_on_motor_imagery_the_diagonal_dense_model_is_the_dense_one() -> None:
    assert count("d-de-slice", "MotorImagery") == count("de-lncde", "MotorImagery")


def test_sparse_matrices_keep_a_tenth() -> None:
    kept = dict(layer_of("s-slice", "SelfRegulationSCP2").A.named_parameters())["values"]
    assert kept.numel() == pytest.approx(0.1 * 7 * 128**2, rel=0.05)


@every_model
def test_a_named_model_runs_learns_and_is_saved(name: str, tmp_path) -> None:
    own = task("SelfRegulationSCP1")
    model = catalogue.build(name, own)
    batch = own.whole("train")
    logits = model(batch.inputs, lengths=batch.lengths)
    assert logits.shape == (6, 2)
    logits.square().sum().backward()
    for parameter, tensor in model.named_parameters():
        assert tensor.grad is not None and tensor.grad.isfinite().all(), parameter
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert torch.equal(again(batch.inputs), model.eval()(batch.inputs))


@every_model
def test_a_model_is_the_papers_recurrence(name: str) -> None:
    """A window for each step, depth 1: h_0 = W x_0 + b, h_k = (I + A(Δ)) h_{k-1}, and the mean."""
    own = task("EthanolConcentration", length=9)
    model = catalogue.build(name, own)
    (layer,) = model.blocks
    assert isinstance(layer, SLiCE)
    start = dict(layer.start.named_parameters())
    x = own.whole("train").inputs
    h = x[:, 0] @ start["weight"].T + start["bias"]
    states = [h]
    for moved in x.diff(dim=1).unbind(1):
        A = layer.structure.combine(layer.A(x.dtype), moved).as_dense()
        h = h + (A @ h[..., None]).squeeze(-1)
        states.append(h)
    expected = model.heads[0](torch.stack(states).mean(0))
    torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-5)


def test_the_readout_may_be_the_last_state() -> None:
    own = task("SelfRegulationSCP1")
    x = own.whole("train").inputs
    mean, last = (catalogue.build("bd-slice", own, pool=pool) for pool in (None, Last()))
    states = last.blocks[0](x)
    torch.testing.assert_close(last(x), last.heads[0](states[:, -1]))
    torch.testing.assert_close(mean(x), mean.heads[0](states.mean(1)))
    from slicekit import tasks

    with pytest.raises(ValueError, match=r"bd-slice answers at every position of a5"):
        catalogue.build("bd-slice", tasks.make("a5"), pool=Last())


def test_the_authors_initialisation() -> None:
    """Blocks 0.25 / sqrt(b), factors 0.25 / sqrt(r), sparse entries 0.25 / sqrt(dim)."""
    expected = {
        "bd-slice": {"blocks": 0.125},
        "dplr-slice": {"diagonal": 0.25, "left": 0.125, "right": 0.125},
        "s-slice": {"values": 0.25 / 128**0.5},
        "de-lncde": {"blocks": 0.25 / 128**0.5},
        "d-slice": {"values": 0.25},
        "wh-slice": {"values": 0.25},
    }
    for name, deviations in expected.items():
        layer = layer_of(name, "SelfRegulationSCP2")
        found = dict(layer.A.named_parameters())
        for tensor, deviation in deviations.items():
            assert found[tensor].std().item() == pytest.approx(deviation, rel=0.1), (name, tensor)
        start = dict(layer.start.named_parameters())["weight"]
        assert start.abs().max() <= 7**-0.5 and start.std() > 0.9 * (7 * 3) ** -0.5


def test_other_data_sets_have_a_design_too() -> None:
    own = task("BasicMotions", channels=5)
    model = catalogue.build("bd-slice", own)
    assert _flow(model.blocks[0]).window == OTHER.window
    assert model(own.whole("test").inputs).shape == (6, 2)


def _flow(layer) -> LogODE:
    assert isinstance(layer, SLiCE) and isinstance(layer.flow, LogODE)
    return layer.flow


def test_sizes_are_part_of_a_name() -> None:
    model = catalogue.build("bd-slice:dim=16,block=2,window=3,depth=1", task("SelfRegulationSCP1"))
    (layer,) = model.blocks
    assert isinstance(layer, SLiCE) and (layer.structure.dim, _flow(layer).window) == (16, 3)
    assert _flow(layer).depth == 1
    with pytest.raises(ValueError, match="no size 'rank'; its sizes are dim, block, window, depth"):
        catalogue.build("bd-slice:rank=2", task("SelfRegulationSCP1"))


def test_series_are_trained_with_the_papers_models_by_default_with_the_blocks() -> None:
    own = task("SelfRegulationSCP1")
    assert catalogue.default(own) == "bd-slice"
    assert set(catalogue.names(own)) == {*STRUCTURES, *BASELINES}
    with pytest.raises(
        ValueError, match=r"'projective-slice' is for tokens, but SelfRegulationSCP1"
    ):
        catalogue.build("projective-slice", own)
    with pytest.raises(ValueError, match="layers=2, but this model has one layer on the series"):
        catalogue.build("bd-slice", own, layers=2)


@every_model
@pytest.mark.parametrize("data_set", PAPER)
def test_the_papers_settings_that_all_models_share(name: str, data_set: str) -> None:
    own, noise = PAPER[data_set], task(data_set)
    layer = layer_of(name, data_set)
    assert (_flow(layer).window, layer.structure.dim) == (own.window, own.dim)
    assert _flow(layer).depth == (1 if name == "d-slice" else own.depth)
    fast, published = (catalogue.settings(name, noise, recipe) for recipe in catalogue.RECIPES)
    assert fast.batch == 32 and fast.decay == 0
    assert own.rate < fast.rate <= 10 * own.rate
    assert published.rate == published.final_rate == own.rate
    assert published.steps == 100_000 and published.warmup == 0
    assert fast.penalty == published.penalty == pytest.approx(own.penalty / own.channels**0.5)
    small = layer.drive.scale
    heavy = data_set == "Heartbeat" or (data_set == "MotorImagery" and name == "dplr-slice")
    assert (small < 1) == heavy


def test_layers_with_a_width_are_stacked_each_with_windows_of_its_own(tmp_path: Path) -> None:
    areas = Areas(samples=40)
    name = "bd-slice:dim=8,width=3,window=4,further=2"
    assert len(catalogue.build(name, areas).blocks) == 2
    model = catalogue.build(name, areas, layers=3)
    windows = [block.mixer.flow.window for block in model.blocks]  # type: ignore[union-attr]
    assert windows == [4, 2, 2]
    assert all(block.mixer.channels == 3 for block in model.blocks)  # type: ignore[union-attr]
    x = areas.sample(2, (40, 40), torch.Generator().manual_seed(0)).inputs
    assert model.output_lengths(torch.tensor([40])).item() < 40 // 8
    found = model(x)
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert found.shape == (2, 2) and torch.equal(again(x), found)
