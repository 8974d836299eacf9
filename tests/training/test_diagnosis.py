"""Diagnosis of models whose drift is known, because it was put into their weights."""

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from slicekit import (
    Dense,
    Diagonal,
    Exponential,
    Learned,
    Orthogonal,
    SequenceModel,
    SLiCE,
    tasks,
)
from slicekit.layers import TimeAndInput
from slicekit.tasks import Task, WordProblem, cyclic
from slicekit.training.diagnosis import Diagnosis, diagnose
from slicekit.training.diagnosis.geometry import Vectors, classes
from slicekit.training.diagnosis.readings import NEAR
from slicekit.training.diagnosis.spectra import blocks
from tests.market import CHANNELS, STRUCTURES, every_structure, make_parameters

HOURS = 6
SECTOR = 2 * math.pi / HOURS


class Hand(nn.Module):
    """The hand of a clock: token v turns it by angles[v], and the head reads off the hour."""

    def __init__(self, angles: list[float], hours: list[float], layer: SLiCE | None = None) -> None:
        super().__init__()
        self.tokens = len(angles)
        self.layer = layer or SLiCE(
            self.tokens, Orthogonal(2, block=2), drive=TimeAndInput(1.0), initial=Learned()
        )
        self.head = nn.Linear(2, len(hours))
        with torch.no_grad():
            self.layer.start.get_parameter("state").copy_(torch.tensor([1.0, 0.0]))
            if layer is None:
                turns = torch.tensor([0.0, *angles])  # channel 0 is time, which turns nothing
                self.layer.A.get_parameter("angles").copy_(turns.reshape(-1, 1, 1))
            rows = torch.tensor(hours)
            shown = rows.isfinite().unsqueeze(1)
            rows = torch.stack([rows.cos(), -rows.sin()], 1).nan_to_num()
            self.head.weight.copy_(torch.where(shown, rows, 0.0))
            self.head.bias.copy_(torch.where(shown.squeeze(1), 0.0, -9.0))

    def forward(
        self,
        inputs: Tensor,
        state: Any = None,
        lengths: Tensor | None = None,
        return_state: bool = False,
    ) -> Any:
        one_hot = nn.functional.one_hot(inputs, self.tokens).float()
        states, state = self.layer(one_hot, state, lengths, True)
        logits = self.head(states)
        return (logits, state) if return_state else logits


def clock(errors: list[float]) -> Hand:
    hours = [SECTOR * hour for hour in range(HOURS)]
    return Hand([hour + error for hour, error in zip(hours, errors, strict=True)], hours)


def clock_task() -> WordProblem:
    return WordProblem(cyclic(HOURS))


def parity(error: float) -> Hand:
    """Letter b turns by half a circle, and a bit more; there is no hour for the padding token."""
    return Hand([0.0, 0.0, math.pi + error], [math.nan, 0.0, math.pi])


def fast(model: nn.Module, task: Task, lengths: list[int], **options: Any) -> Diagnosis:
    return diagnose(model, task, lengths=lengths, **{"sequences": 32} | options)


def doubling(last: int) -> list[int]:
    return [8 * 2**n for n in range(last.bit_length()) if 8 * 2**n <= last]


SAME_WAY = 1e-3
"""Every token turns the hand too far by this: after L tokens it is off by L times as much."""

EITHER_WAY = 1e-2
"""Half of the tokens turn it too far, half not far enough: a random walk of such steps."""


def wandering_clock() -> Hand:
    return clock([EITHER_WAY, -EITHER_WAY] * (HOURS // 2))


@pytest.mark.parametrize("last", [2048, 256, 128])
def test_errors_in_one_direction_end_at_the_length_that_fills_half_a_sector(last: int) -> None:
    truth = SECTOR / 2 / SAME_WAY
    found = fast(clock([SAME_WAY] * HOURS), clock_task(), doubling(last))
    assert found.horizon.kind == ("lost" if last > truth else "drifting")
    assert found.horizon.length == pytest.approx(truth, rel=0.25)
    if found.horizon.kind == "drifting":
        assert found.horizon.exponent == pytest.approx(1, abs=0.15)
        assert "extrapolation" in found.horizon.text


@pytest.mark.parametrize("last", [2048, 128])
def test_random_errors_end_where_one_walk_in_a_hundred_leaves_its_sector(last: int) -> None:
    truth = (SECTOR / 2 / 2.576 / EITHER_WAY) ** 2
    found = fast(wandering_clock(), clock_task(), doubling(last), sequences=256)
    assert found.horizon.kind == ("lost" if last > truth else "drifting")
    assert found.horizon.length is not None
    assert truth / 1.6 < found.horizon.length < 1.6 * truth


def test_the_spread_of_random_errors_grows_as_the_square_root_of_the_length() -> None:
    found = fast(wandering_clock(), clock_task(), [16, 64, 256], sequences=512)
    for reading in found.readings:
        assert reading.states is not None
        assert reading.states.spread == pytest.approx(EITHER_WAY * reading.length**0.5, rel=0.2)
        assert reading.states.nearest == pytest.approx(2 * math.sin(SECTOR / 2), rel=0.05)
        assert reading.states.mean > reading.states.nearest


def test_errors_in_one_direction_turn_whole_classes_without_spreading_them() -> None:
    found = fast(clock([SAME_WAY] * HOURS), clock_task(), [8, 400], sequences=NEAR)
    first, last = (reading.states for reading in found.readings)
    assert first is not None and last is not None
    turned = 2 * math.sin(SAME_WAY * (400 - 8) / 2) / (2 * math.sin(SECTOR / 2))
    assert math.sqrt(last.moved - first.moved) == pytest.approx(turned, rel=0.05)
    assert last.spread < 0.1 * last.nearest


def test_an_exact_model_has_no_drift() -> None:
    found = fast(clock([0.0] * HOURS), clock_task(), doubling(2048))
    assert found.horizon.kind == "steady" and found.horizon.length is None
    assert "no drift seen up to 2,048" in found.horizon.text
    assert all(reading.overall == reading.last == 1 for reading in found.readings)


@pytest.mark.parametrize("last", [4096, 256])
def test_tasks_that_supervise_only_the_last_position(last: int) -> None:
    """Half the letters are b, so the hand is off by half the error for each letter."""
    error = 4e-3
    truth = math.pi / 2 / (error / 2)
    found = fast(parity(error), tasks.make("parity"), doubling(last))
    assert found.horizon.kind == ("lost" if last > truth else "drifting")
    assert found.horizon.length is not None
    assert 0.55 * truth < found.horizon.length < 1.1 * truth
    assert all(reading.positions == reading.sequences for reading in found.readings)


def test_a_model_that_guesses_is_untrained() -> None:
    generator = torch.Generator().manual_seed(1)
    angles = (6 * torch.rand(HOURS, generator=generator)).tolist()
    found = fast(Hand(angles, angles), clock_task(), [32, 64])
    assert found.horizon.kind == "untrained" and "guessing" in found.horizon.text


def test_a_model_that_is_often_wrong_from_the_start_is_unsolved() -> None:
    found = fast(clock([0.05, -0.05] * (HOURS // 2)), clock_task(), [64, 128])
    assert found.horizon.kind == "unsolved"


def test_margins_are_those_of_the_head() -> None:
    """At an exact hour the true logit is 1, the next one cos of a sector."""
    (reading,) = fast(clock([0.0] * HOURS), clock_task(), [16]).readings
    assert reading.margin == pytest.approx(1 - math.cos(SECTOR), abs=1e-4)
    assert reading.low_margin == pytest.approx(1 - math.cos(SECTOR), abs=1e-4)


def test_parts_give_what_the_whole_gives() -> None:
    model, task = wandering_clock(), clock_task()
    whole, parts = (fast(model, task, [50, 100], part=part) for part in (1000, 7))
    for a, b in zip(whole.readings, parts.readings, strict=True):
        assert (a.overall, a.last, a.positions) == (b.overall, b.last, b.positions)
        assert a.states is not None and b.states is not None
        assert b.states.spread == pytest.approx(a.states.spread, rel=1e-3)
        assert b.low_margin == pytest.approx(a.low_margin, rel=1e-3)


def test_isometries_are_known_by_their_transitions() -> None:
    (spectrum,) = fast(clock([0.3] * HOURS), clock_task(), [16]).spectra
    assert spectrum.isometry and spectrum.growth is None
    for figures in (spectrum.radius, spectrum.norm):
        assert figures.least == pytest.approx(1) and figures.most == pytest.approx(1)


@pytest.mark.parametrize("projective", [False, True])
def test_growth_is_that_of_the_norm_in_a_step(projective: bool) -> None:
    """Every token multiplies the state by exp(rate), so its log-norm grows by the rate."""
    rates = torch.tensor([0.0, 0.01, 0.02, 0.03, 0.03, 0.02, 0.01])
    layer = SLiCE(
        HOURS,
        Diagonal(2),
        drive=TimeAndInput(1.0),
        initial=Learned(),
        flow=Exponential(),
        projective=projective,
    )
    with torch.no_grad():
        (weights,) = layer.A.floating()
        weights.copy_(rates.unsqueeze(1).expand_as(weights))
    model = Hand([0.0] * HOURS, [SECTOR * hour for hour in range(HOURS)], layer)
    (spectrum,) = fast(model, clock_task(), [100, 1000]).spectra
    assert not spectrum.isometry
    assert spectrum.growth == pytest.approx(0.02, rel=0.05)
    assert spectrum.radius.least == pytest.approx(math.exp(0.01))
    assert spectrum.norm.most == pytest.approx(math.exp(0.03))


def test_every_layer_has_its_spectrum_the_first_that_of_the_tokens_that_occur() -> None:
    """Inputs of later layers are not tokens any more, so they are taken where they occur."""
    model = SequenceModel(
        vocabulary=3, outputs=3, width=4, layers=2, mixer=lambda width: SLiCE(width, Dense(width))
    )
    first, second = fast(model, tasks.make("parity"), [64]).spectra
    assert (first.layer, first.tokens, first.transitions, first.of) == (0, True, 2, 2)
    assert (second.layer, second.tokens) == (1, False)
    assert second.transitions < second.of, "a sample is enough"


@every_structure
def test_blocks_have_the_spectrum_of_the_dense_matrix(name: str) -> None:
    structure = STRUCTURES[name]
    increments = torch.randn(2, CHANNELS, dtype=torch.float64)
    transition = structure.combine(make_parameters(structure), increments).natural()
    for row, dense in enumerate(transition.as_dense().numpy()):
        parts = [part[row].numpy() for part in blocks(transition)]
        values = np.concatenate([np.linalg.eigvals(part).ravel() for part in parts])
        expected = np.linalg.eigvals(dense)
        assert np.abs(values).max() == pytest.approx(np.abs(expected).max(), rel=1e-4)
        stretch = max(np.linalg.norm(block, 2) for part in parts for block in part)
        assert stretch == pytest.approx(np.linalg.norm(dense, 2), rel=1e-4)


def test_geometry_against_its_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(3, (40,), generator=generator)
    values = torch.randn(40, 5, generator=generator, dtype=torch.float64) + targets.unsqueeze(1)
    vectors = Vectors(values, targets, torch.arange(40))
    found = classes(vectors, vectors.means())
    assert found is not None
    own = [values[targets == name].numpy() for name in range(3)]
    means = [x.mean(0) for x in own]
    squares = sum(((x - m) ** 2).sum() for x, m in zip(own, means, strict=True))
    apart = [np.linalg.norm(means[a] - means[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert found.spread == pytest.approx(math.sqrt(squares / (40 - 3)))
    assert found.nearest == pytest.approx(min(apart))
    assert found.mean == pytest.approx(np.mean(apart))
    assert found.moved == pytest.approx(squares / 40 / min(apart) ** 2)


def test_classes_with_a_single_vector_are_left_out() -> None:
    values = torch.tensor([[0.0], [2.0], [9.0], [11.0], [500.0]], dtype=torch.float64)
    vectors = Vectors(values, torch.tensor([0, 0, 1, 1, 2]), torch.arange(5))
    found = classes(vectors, vectors.means())
    assert found is not None and found.nearest == 9 and found.spread == pytest.approx(math.sqrt(2))
    few = Vectors(values[:3], torch.tensor([0, 0, 1]), torch.arange(3))
    assert classes(few, few.means()) is None


class Sums(nn.Module):
    """No SLiCE and no state: running sums of embeddings, and logits that no module gives."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(HOURS, HOURS)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.embedding(inputs).cumsum(1) * 2


def test_models_without_slices_and_head_are_judged_by_their_margins() -> None:
    found = fast(Sums(), clock_task(), [8, 16])
    assert found.spectra == ()
    assert all(reading.states is None and reading.features is None for reading in found.readings)
    assert found.horizon.kind == "untrained"


@pytest.mark.filterwarnings("ignore:the state of a SLiCE:RuntimeWarning")
def test_a_model_that_overflows_is_diagnosed_all_the_same() -> None:
    model = clock([0.0] * HOURS)
    layer = SLiCE(HOURS, Diagonal(2), drive=TimeAndInput(1.0), initial=Learned())
    with torch.no_grad():
        layer.A.floating()[0].fill_(9.0)
    model.layer = layer
    found = fast(model, clock_task(), [8, 256])
    assert not found.spectra[0].isometry
    text = json.dumps(found.as_dict(), allow_nan=False)
    assert json.loads(text)["horizon"]["text"] == found.horizon.text


def test_the_model_is_left_in_its_mode_and_without_hooks() -> None:
    model = clock([0.0] * HOURS).train()
    fast(model, clock_task(), [8])
    assert model.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_the_same_seed_gives_the_same_diagnosis() -> None:
    model, task = clock([SAME_WAY] * HOURS), clock_task()
    assert fast(model, task, [8, 16], seed=3) == fast(model, task, [16, 8, 8], seed=3)
    assert fast(model, task, [8, 16], seed=3) != fast(model, task, [8, 16], seed=4)


def test_lengths_double_by_default_as_far_as_the_task_is_tested() -> None:
    task = WordProblem(cyclic(HOURS), train_lengths=(2, 16), test_lengths=(8, 5000))
    found = diagnose(clock([0.0] * HOURS), task, sequences=1)
    assert [x.length for x in found.readings] == [4 * 2**n for n in range(12)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": []}, "lengths is empty"),
        ({"lengths": [0]}, "lengths=0; expected at least 1"),
        ({"lengths": [8], "sequences": 0}, "sequences=0"),
        ({"lengths": [8], "part": 0}, "part=0"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        diagnose(clock([0.0] * HOURS), clock_task(), **options)


def test_it_is_shown_and_drawn(tmp_path: Path) -> None:
    rich_console = pytest.importorskip("rich.console")
    pytest.importorskip("typer")
    pytest.importorskip("matplotlib")
    from slicekit.cli import diagnosis

    found = fast(clock([SAME_WAY] * HOURS), clock_task(), [8, 64, 1024])
    console = rich_console.Console(record=True, width=80, file=io.StringIO())
    diagnosis.show(found, console)
    shown = console.export_text()
    assert "1,024" in shown and "isometries" in shown and found.horizon.text in shown
    diagnosis.plot(found, tmp_path / "plots" / "diagnosis.png")
    assert (tmp_path / "plots" / "diagnosis.png").read_bytes().startswith(b"\x89PNG")
