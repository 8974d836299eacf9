"""Settings: plain data that checks itself, and comes back from a table as it was."""

from dataclasses import fields, replace
from typing import Any

import pytest

from slicekit.training import Settings
from slicekit.training.settings import RULES

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"steps": 0}, ValueError, "steps=0; expected at least 1"),
    ({"steps": 10.5}, TypeError, "steps=10.5 is a float; expected a whole number"),
    ({"steps": True}, TypeError, "steps=True is a bool"),
    ({"batch": -1}, ValueError, "batch=-1"),
    ({"seed": -1}, ValueError, "seed=-1; expected at least 0"),
    ({"lengths": (40, 3)}, ValueError, "expected the lower end first"),
    ({"lengths": (0, 3)}, ValueError, r"lengths\[0\]=0"),
    ({"lengths": 40}, TypeError, "lengths=40; expected two values"),
    ({"lengths": (1, 2, 3)}, TypeError, "expected two values"),
    ({"mixed_lengths": 1}, TypeError, "mixed_lengths=1 is a int; expected true or false"),
    ({"rate": 0}, ValueError, r"rate=0.0; expected a number in \(0, inf\)"),
    ({"rate": float("nan")}, ValueError, "rate=nan"),
    ({"rate": float("inf")}, ValueError, "rate=inf"),
    ({"rate": "fast"}, TypeError, "rate='fast' is a str"),
    ({"final_rate": -1e-5}, ValueError, "final_rate"),
    ({"warmup": 1.0}, ValueError, r"warmup=1.0; expected a number in \[0, 1\)"),
    ({"decay": -0.1}, ValueError, "decay"),
    ({"betas": (0.9, 1.0)}, ValueError, r"betas\[1\]=1.0"),
    ({"eps": 0.0}, ValueError, "eps"),
    ({"clip": 0.0}, ValueError, "clip"),
    ({"penalty": -1.0}, ValueError, "penalty"),
    ({"consistency": -1.0}, ValueError, "consistency"),
    ({"growth": -1.0}, ValueError, "growth"),
    ({"isometry": -1.0}, ValueError, "isometry"),
    ({"drift": -1.0}, ValueError, "drift"),
    ({"pressure_first": 0.0}, ValueError, r"pressure_first=0.0; expected a number in \(0, 1\]"),
    ({"pressure_at": 0}, ValueError, "pressure_at"),
    ({"pressure_steps": 0}, ValueError, "pressure_steps"),
    ({"pressure_above": 1.0}, ValueError, r"pressure_above=1.0; expected a number in \[0, 1\)"),
    ({"average": 1.0}, ValueError, "average"),
    ({"grow_from": 0}, ValueError, "grow_from"),
    ({"grow_share": 0.0}, ValueError, "grow_share"),
    ({"grow_at": 1.0}, ValueError, "grow_at"),
    ({"grow_by": 0}, ValueError, "grow_by"),
    ({"grow_factor": 0.5}, ValueError, "grow_factor"),
    ({"lengths": (3, 40), "grow_from": 2}, ValueError, "grow_from=2.*3..40"),
    ({"evaluate_every": 0}, ValueError, "evaluate_every"),
    ({"validation_lengths": (9, 8)}, ValueError, "validation_lengths"),
    ({"validation_batches": 0}, ValueError, "validation_batches"),
    ({"record_every": 0}, ValueError, "record_every"),
    ({"checkpoint_every": 0}, ValueError, "checkpoint_every"),
    ({"keep": 0}, ValueError, "keep"),
    ({"stop_at": 1.1}, ValueError, "stop_at"),
    ({"patience": 0}, ValueError, "patience"),
    ({"consistent_states": "no"}, TypeError, "consistent_states"),
    ({"consistent_clusters": 1}, TypeError, "consistent_clusters"),
    ({"autocast": "yes"}, TypeError, "autocast"),
]


@pytest.mark.parametrize(("wrong", "kind", "message"), BAD, ids=lambda x: str(x))
def test_a_wrong_value_is_named_with_what_is_expected(
    wrong: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        Settings(**wrong)


def test_every_field_has_a_rule_and_a_case_above() -> None:
    names = {field.name for field in fields(Settings)}
    assert set(RULES) == names
    assert {name for wrong, _, _ in BAD for name in wrong} == names


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(clip=None, average=0.999, lengths=(3, 40), grow_from=6, stop_at=1.0, patience=3),
    ],
    ids=["defaults", "others"],
)
def test_settings_come_back_from_their_table(settings: Settings) -> None:
    table = settings.as_table()
    assert set(table) == {field.name for field in fields(Settings)}
    assert all(isinstance(x, bool | int | float | str | list) for x in table.values())
    assert Settings.from_table(table) == settings


def test_none_is_a_word_in_a_table() -> None:
    assert Settings.from_table({"clip": "none"}).clip is None
    assert Settings().as_table()["average"] == "none"


def test_a_table_may_leave_out_what_has_its_default() -> None:
    assert Settings.from_table({"steps": 7}) == replace(Settings(), steps=7)


@pytest.mark.parametrize(("key", "nearest"), [("stpes", "steps"), ("learning_rate", "final_rate")])
def test_an_unknown_key_is_named_with_the_nearest(key: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"unknown setting '{key}', did you mean '{nearest}'"):
        Settings.from_table({key: 1})


def test_whole_numbers_serve_as_floats_and_lists_as_pairs() -> None:
    listed: Any = [3, 40]
    settings = Settings(rate=1, lengths=listed)
    assert isinstance(settings.rate, float)
    assert settings == Settings(rate=1.0, lengths=(3, 40))
