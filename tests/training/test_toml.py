"""What is written as TOML is read back by the standard library as it was."""

import math
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicekit.training import toml

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    text,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(text, inner, max_size=3)),
    max_leaves=8,
)


@given(st.dictionaries(text, values, max_size=4))
def test_a_table_is_read_back_as_it_was(table: dict[str, Any]) -> None:
    assert tomllib.loads(toml.dumps(table)) == table


@given(text)
def test_text_of_any_characters_is_read_back(written: str) -> None:
    assert tomllib.loads(toml.dumps({written: written})) == {written: written}


@pytest.mark.parametrize("number", [1e-5, 2e-3, 1e22, 0.1, -0.0, 5e-324, math.inf, -math.inf])
def test_numbers_keep_every_digit(number: float) -> None:
    found = tomllib.loads(toml.dumps({"x": number}))["x"]
    assert found == number and math.copysign(1, found) == math.copysign(1, number)


def test_nan_stays_nan() -> None:
    assert math.isnan(tomllib.loads(toml.dumps({"x": math.nan}))["x"])


def test_values_stand_before_tables_whatever_their_order() -> None:
    table = {"inner": {"deep": {"x": 1}, "y": 2}, "z": 3}
    assert tomllib.loads(toml.dumps(table)) == table


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": {"b": None}}, "None at a.b is a NoneType, which TOML can't hold"),
        ({"a": [1, {2}]}, r"\{2\} at a is a set"),
        ({"a": {3: 4}}, "the key 3 at a is a int; expected text"),
    ],
)
def test_what_toml_cannot_hold_is_named_with_its_place(table: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        toml.dumps(table)
