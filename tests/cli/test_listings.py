"""`slicekit models` and `slicekit tasks`, and the help of every command."""

import json

import pytest

from slicekit import catalogue, tasks
from slicekit.cli.app import app
from slicekit.training import Settings
from tests.cli.calls import invoke, refuse, succeed


def test_models_are_those_of_the_catalogue() -> None:
    found = json.loads(succeed("models", "--json"))
    assert {x["name"]: x["summary"] for x in found} == {
        name: model.summary for name, model in catalogue.MODELS.items()
    }
    shown = succeed("models")
    for name, model in catalogue.MODELS.items():
        assert name in shown and model.summary.split()[0] in shown


def test_models_for_a_task_have_their_parameters_and_settings() -> None:
    task = tasks.make("parity")
    found = {x["name"]: x for x in json.loads(succeed("models", "--task", "parity", "--json"))}
    for name, told in found.items():
        model = catalogue.build(name, task)
        assert told["parameters"] == sum(x.numel() for x in model.parameters())
        assert Settings.from_table(told["settings"]) == catalogue.settings(name, task)
    assert [name for name, told in found.items() if told["default"]] == [catalogue.default(task)]
    shown = succeed("models", "--task", "parity")
    for name, told in found.items():
        (line,) = [line for line in shown.splitlines() if line.startswith(f"{name} ")]
        assert f"{told['parameters']:,}" in line and f"steps {told['settings']['steps']}" in line
    assert f"{catalogue.default(task)} *" in shown


def test_models_for_an_unknown_task_is_bad_usage() -> None:
    assert "did you mean 'parity'?" in refuse("models", "--task", "partiy")


def test_tasks_are_told_with_vocabulary_and_lengths() -> None:
    found = {x["name"]: x for x in json.loads(succeed("tasks", "--json"))}
    assert list(found) == list(tasks.TASKS)
    for name, told in found.items():
        task = tasks.make(name)
        assert told["vocabulary"] == task.vocabulary and told["outputs"] == task.outputs
        assert tuple(told["train_lengths"]) == task.train_lengths
        assert tuple(told["test_lengths"]) == task.test_lengths
        assert told["default_model"] in catalogue.MODELS


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_tables_fit_and_break_no_name(columns: int) -> None:
    for command, names in (("models", catalogue.MODELS), ("tasks", tasks.TASKS)):
        shown = invoke(command, columns=columns).stdout
        assert "…" not in shown and "\x1b" not in shown
        assert max(map(len, shown.splitlines())) <= max(columns, 80)
        for name in names:
            assert any(line.split()[:1] == [name] for line in shown.splitlines()), name


def commands() -> list[str]:
    return [command.name for command in app.registered_commands if command.name]


@pytest.mark.parametrize("command", commands())
def test_help_teaches_by_example(command: str) -> None:
    shown = succeed(command, "--help")
    assert "Example" in shown and shown.count(f"slicekit {command}") >= 2


def test_the_commands_are_there() -> None:
    expected = {"train", "evaluate", "resume", "runs", "plot", "models", "tasks", "doctor"}
    assert expected <= set(commands())
    shown = succeed()
    assert all(f"\n  {command} " in shown for command in expected)
