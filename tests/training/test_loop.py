"""What `train` does on the way from the first step to the last."""

import json
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

import slicekit
from slicekit.tasks import Batch
from slicekit.training import Diverged, Report, Settings, Watcher, train
from slicekit.training.average import Average
from slicekit.training.optimiser import make_optimiser, set_rate
from slicekit.training.schedule import learning_rate
from tests.training.small import (
    EVERYTHING,
    Notes,
    Parity,
    ParityWithPairs,
    assert_same_tensors,
    assert_same_weights,
    small_model,
)

BRIEF = Settings(steps=6, batch=8, validation_batches=1)


class Recorded(Parity):
    """Remembers the batches that it gave out."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[tuple[str, tuple[int, int], Batch]] = []

    def sample(self, batch: int, lengths: tuple[int, int], generator: Any, split: str = "train"):
        drawn = super().sample(batch, lengths, generator, split)
        self.drawn.append((split, lengths, drawn))
        return drawn


def plain_loop(model: nn.Module, task: Parity, settings: Settings) -> Average:
    """What a run does, in the most obvious way."""
    generator = torch.Generator().manual_seed(settings.seed)
    optimiser = make_optimiser(model, settings)
    average = Average(model, settings.average or 0.5)
    low, high = task.train_lengths
    for step in range(settings.steps):
        batch = task.sample(settings.batch, (low, high), generator)
        optimiser.zero_grad()
        batches = [batch, task.helper(settings.batch, generator)]
        for own in batches:
            if own is not None:
                logits = model(own.inputs, lengths=own.lengths)
                F.cross_entropy(logits[own.supervised], own.targets[own.supervised]).backward()
        (settings.penalty * model.regularisation()).backward()  # type: ignore[operator]
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip or float("inf"))
        set_rate(optimiser, learning_rate(step, settings))
        optimiser.step()
        average.update()
    return average


@pytest.mark.parametrize("task", [Parity(), ParityWithPairs()], ids=["alone", "with pairs"])
@pytest.mark.parametrize("clip", [None, 1e-3], ids=["unclipped", "clipped"])
def test_training_is_the_obvious_loop(task: Parity, clip: float | None) -> None:
    settings = replace(BRIEF, clip=clip, penalty=0.1, average=0.7, rate=0.05, decay=0.3, seed=5)
    expected = small_model(dtype=torch.float64)
    average = plain_loop(expected, task, settings)
    notes = Notes()
    found = train(small_model(dtype=torch.float64), task, settings, watch=notes).model
    for name, x in found.named_parameters():
        torch.testing.assert_close(x.detach(), average.tensors[name], rtol=1e-9, atol=1e-12)
    assert any(report.gradient_norm > 1e-3 for report in notes.steps)


def test_without_an_average_the_model_has_the_last_weights() -> None:
    expected = small_model(dtype=torch.float64)
    plain_loop(expected, Parity(), BRIEF)
    found = train(small_model(dtype=torch.float64), Parity(), BRIEF).model
    for x, y in zip(found.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-12)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    settings = replace(EVERYTHING, steps=10)
    weights = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(weights))
        model = small_model(dropout=0.3)
        train(model, Parity(), replace(settings, seed=seed))
        weights.append(model.state_dict())
    assert_same_tensors(weights[1], weights[0])
    assert not torch.equal(weights[2]["heads.0.weight"], weights[0]["heads.0.weight"])


def test_torchs_own_generator_is_left_as_it_was() -> None:
    before = torch.get_rng_state()
    train(small_model(dropout=0.5), Parity(), BRIEF)
    assert torch.equal(torch.get_rng_state(), before)


def test_validation_is_the_same_set_each_time_and_disturbs_nothing() -> None:
    task, settings = Recorded(), replace(BRIEF, evaluate_every=2)
    often = train(small_model(dropout=0.3), task, settings).model
    seldom = train(small_model(dropout=0.3), Parity(), BRIEF).model
    assert_same_weights(often, seldom)
    sets = [x for split, _, x in task.drawn if split == "validation" and len(x.lengths) == 8]
    assert len(sets) == 3
    assert all(torch.equal(x.inputs, sets[0].inputs) for x in sets)
    first = next(x for split, _, x in task.drawn if split == "train")
    assert not torch.equal(sets[0].inputs[:, :10], first.inputs)


def test_lengths_are_mixed_in_a_batch_or_one_for_each() -> None:
    for mixed in (True, False):
        task = Recorded()
        settings = replace(BRIEF, steps=12, lengths=(4, 9), mixed_lengths=mixed)
        train(small_model(), task, settings)
        trained = [x for split, _, x in task.drawn if split == "train"]
        counts = [len(set(x.lengths.tolist())) for x in trained]
        assert all(count > 1 for count in counts) if mixed else set(counts) == {1}
        assert len({int(x.lengths[0]) for x in trained}) > 2


def test_lengths_grow_as_the_curriculum_says() -> None:
    task = Recorded()
    settings = replace(BRIEF, steps=12, lengths=(4, 9), grow_from=5, grow_share=0.5)
    notes = Notes()
    train(small_model(), task, settings, watch=notes)
    ranges = [lengths for split, lengths, _ in task.drawn if split == "train"]
    assert ranges == [(4, min(9, 5 + 4 * step // 6)) for step in range(12)]
    assert [report.longest for report in notes.steps] == [high for _, high in ranges]


def test_lengths_grow_with_accuracy() -> None:
    notes = Notes()
    settings = Settings(steps=60, batch=8, rate=0.02, grow_at=0.45, grow_by=3, consistency=1.0)
    train(small_model(), Parity(), settings, watch=notes)
    longest = [report.longest for report in notes.steps]
    assert longest[0] == 3 and longest == sorted(longest) and set(longest) >= {3, 6, 9}
    running, length = 0.0, 3
    for report in notes.steps:
        assert report.longest == length
        running = 0.9 * running + 0.1 * report.accuracy
        if running > 0.45 and length < 10:
            running, length = 0.0, min(length + 3, 10)


class Scripted(nn.Module):
    """A model that is right about the validation set when a script says so."""

    def __init__(self, script: list[float]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))
        self.script = list(script)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        right = 1 + (inputs == 2).cumsum(1) % 2
        logits = F.one_hot(right, 3) + self.weight
        if self.training:
            return logits
        wrong = torch.arange(inputs.numel()).view_as(inputs) >= self.script[0] * inputs.numel()
        del self.script[0]
        return torch.where(wrong.unsqueeze(-1), -logits, logits)


def scripted(script: list[float], **settings: Any) -> Any:
    """A run with one validation of equally long sequences at each step."""
    chosen = Settings(
        steps=len(script), batch=10, evaluate_every=1, validation_batches=1, **settings
    )
    chosen = replace(chosen, validation_lengths=(10, 10))
    return train(Scripted(script), Parity(), chosen)


def test_training_stops_when_the_validation_accuracy_is_reached() -> None:
    result = scripted([0.2, 0.5, 0.8, 0.9, 0.3], stop_at=0.8)
    assert (result.steps, result.reason) == (3, "stop_at")
    assert result.accuracy == result.best_accuracy == pytest.approx(0.8)


def test_training_stops_when_patience_ends() -> None:
    result = scripted([0.2, 0.5, 0.4, 0.5, 0.3, 0.9], patience=3)
    assert (result.steps, result.reason) == (5, "patience")
    assert (result.best_step, result.best_accuracy) == (4, pytest.approx(0.5))
    assert result.accuracy == pytest.approx(0.3)


def test_a_better_validation_renews_patience() -> None:
    result = scripted([0.2, 0.1, 0.3, 0.2, 0.4, 0.1], patience=2)
    assert (result.steps, result.reason, result.best_step) == (6, "steps", 5)


def test_the_best_model_is_kept_and_on_ties_the_last(tmp_path: Path) -> None:
    kept: dict[int, dict[str, Tensor]] = {}
    model = Scripted([0.2, 0.6, 0.6, 0.1])

    class Look(Watcher):
        def stepped(self, report: Report) -> None:
            kept[report.step] = {k: x.clone() for k, x in model.state_dict().items()}

    settings = Settings(steps=4, batch=10, evaluate_every=1, validation_batches=1, rate=0.1)
    result = train(model, Parity(), settings, folder=tmp_path / "run", watch=Look())
    assert result.best_step == 3
    assert_same_tensors(load_file(tmp_path / "run" / "best.safetensors"), kept[3])
    assert_same_tensors(load_file(tmp_path / "run" / "model.safetensors"), kept[4])


def test_a_watcher_hears_of_everything(tmp_path: Path) -> None:
    notes = Notes()
    settings = replace(EVERYTHING, steps=10, evaluate_every=4)
    result = train(small_model(), Parity(), settings, folder=tmp_path / "run", watch=notes)
    assert notes.starts == [(10, 0)]
    assert [x.step for x in notes.steps] == list(range(1, 11))
    assert [x.rate for x in notes.steps] == [learning_rate(k, settings) for k in range(10)]
    assert [x.step for x in notes.validations] == [4, 8, 10]
    assert notes.results == [result] and not result.model.training
    assert all(x.tokens_per_second > 0 and x.spread > 0 for x in notes.steps)
    assert result.seconds >= notes.steps[-1].seconds > 0


def test_the_metrics_are_means_over_the_steps_since_the_last_record(tmp_path: Path) -> None:
    notes = Notes()
    settings = replace(EVERYTHING, steps=11, record_every=4, evaluate_every=6)
    train(small_model(), Parity(), settings, folder=tmp_path / "run", watch=notes)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert [(x["kind"], x["step"]) for x in found] == [
        ("train", 4),
        ("train", 6),
        ("validation", 6),
        ("train", 8),
        ("train", 11),
        ("validation", 11),
    ]
    trained = [x for x in found if x["kind"] == "train"]
    for record, (start, stop) in zip(trained, [(0, 4), (4, 6), (6, 8), (8, 11)], strict=True):
        own = notes.steps[start:stop]
        for name in ("loss", "accuracy", "gradient_norm", "spread"):
            mean = sum(getattr(x, name) for x in own) / len(own)
            assert record[name] == pytest.approx(mean)
        assert (record["rate"], record["longest"]) == (own[-1].rate, own[-1].longest)


def test_the_folder_holds_what_repeats_the_run(tmp_path: Path) -> None:
    told = {"task": "parity", "model": "tiny", "task_options": {"train_lengths": (3, 10)}}
    train(small_model(), Parity(), BRIEF, folder=tmp_path / "run", describe=told)
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert Settings.from_table(config.pop("training")) == BRIEF
    assert config == {
        "task": "parity",
        "model": "tiny",
        "task_options": {"train_lengths": [3, 10]},
    }


def test_models_in_the_folder_can_be_loaded(tmp_path: Path) -> None:
    result = train(small_model(), Parity(), BRIEF, folder=tmp_path / "run")
    again = slicekit.load(tmp_path / "run" / "model.safetensors")
    assert_same_weights(again, result.model)
    assert slicekit.load(tmp_path / "run" / "best.safetensors") is not None


def test_with_an_average_it_is_what_is_validated_and_kept(tmp_path: Path) -> None:
    settings = replace(BRIEF, average=0.5, rate=0.1)
    result = train(small_model(), Parity(), settings, folder=tmp_path / "run")
    for name in ("best", "model"):
        stored = slicekit.load(tmp_path / "run" / f"{name}.safetensors")
        assert_same_weights(stored, result.model)


def test_a_function_serves_as_a_task() -> None:
    def copy(batch: int, lengths: tuple[int, int], generator: torch.Generator) -> Any:
        tokens = torch.randint(3, (batch, lengths[1]), generator=generator)
        return tokens, tokens

    settings = Settings(steps=60, batch=16, rate=0.02, lengths=(5, 5), validation_lengths=(8, 8))
    assert train(small_model(), copy, settings).accuracy > 0.9


def test_a_function_needs_a_model_that_tells_its_sizes() -> None:
    with pytest.raises(TypeError, match="from_function"):
        train(Scripted([]), lambda *given: given)
    nothing: Any = 3
    with pytest.raises(TypeError, match="task=3; expected a Task or a function"):
        train(small_model(), nothing)


def test_training_runs_in_bfloat16() -> None:
    kinds = set()
    model = small_model()
    model.heads[0].register_forward_hook(lambda *given: kinds.add((model.training, given[2].dtype)))
    settings = replace(EVERYTHING, steps=8, autocast=True)
    train(model, Parity(), settings)
    assert kinds == {(True, torch.bfloat16), (False, torch.float32)}
    assert all(x.dtype == torch.float32 for x in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_dtype_of_the_model_stays(dtype: torch.dtype) -> None:
    model = train(small_model(dtype=dtype), Parity(), replace(EVERYTHING, steps=3)).model
    assert all(x.dtype == dtype for x in model.parameters())


def test_one_process_makes_no_group() -> None:
    train(small_model(), Parity(), BRIEF)
    assert not torch.distributed.is_initialized()
    assert "torch.distributed.run" not in sys.modules


class Labelless(Parity):
    def sample(self, batch: int, lengths: tuple[int, int], generator: Any, split: str = "train"):
        drawn = super().sample(batch, lengths, generator, split)
        return replace(drawn, supervised=torch.zeros_like(drawn.supervised))


class Misshapen(Scripted):
    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        return super().forward(inputs, lengths)[:, 0]


@pytest.mark.parametrize(
    ("model", "task", "settings", "message"),
    [
        (Scripted([]), Parity(), Settings(penalty=0.1), "Scripted has no method regularisation"),
        (Scripted([]), Parity(), Settings(consistency=0.1), "Scripted has no linear map"),
        (Scripted([]), Parity(), Settings(grow_from=50), "grow_from=50"),
        (Scripted([]), Parity(), Settings(validation_lengths=(50, 60)), "at most 40"),
        (Scripted([]), Labelless(), BRIEF, "without a supervised position"),
        (Misshapen([]), Parity(), BRIEF, r"the model's output has shape \(8, 3\); expected"),
    ],
    ids=["penalty", "consistency", "growth", "validation", "labels", "logits"],
)
def test_what_does_not_fit_together_is_refused(
    model: nn.Module, task: Parity, settings: Settings, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        train(model, task, settings, folder=tmp_path / "run")
    with pytest.raises(ValueError, match="resume=True without a folder"):
        train(model, task, settings, resume=True)


def test_diverged_tells_step_value_and_remedies() -> None:
    error = Diverged(12, "the loss is nan", Path("run/step-00000010.safetensors"))
    for told in ("step 12", "the loss is nan", "step-00000010", "rate", "clip", "projective"):
        assert told in str(error)
    assert "no folder" in str(Diverged(12, "the loss is nan"))
