"""The grammar of `--lengths`."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicekit.cli.lengths import parse_lengths

ends = st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)).map(sorted)


@settings(max_examples=40)
@given(ends)
def test_two_ends_double_up_to_and_including_the_second(both: list[int]) -> None:
    start, end = both
    found = parse_lengths(f"{start}:{end}")
    assert found[0] == start and found[-1] == end
    for number, length in enumerate(found[:-1]):
        assert length == start * 2**number
    assert len(found) < 2 or found[-2] < end <= 2 * found[-2]


@settings(max_examples=40)
@given(ends, st.data())
def test_a_count_spaces_evenly_and_keeps_both_ends(both: list[int], data: st.DataObject) -> None:
    start, end = both
    available = end - start + 1
    count = data.draw(st.integers(min(2, available), min(available, 1000)))
    found = parse_lengths(f"{start}:{end}:{count}")
    assert len(found) == count and found[0] == start and found[-1] == end
    gaps = {later - earlier for earlier, later in pairwise(found)}
    assert not gaps or max(gaps) - min(gaps) <= 1


@settings(max_examples=40)
@given(st.lists(st.integers(1, 10**9), min_size=1))
def test_a_list_is_sorted_and_without_repetition(lengths: list[int]) -> None:
    assert parse_lengths(",".join(map(str, lengths))) == sorted(set(lengths))


def test_the_examples_of_the_help_text() -> None:
    assert parse_lengths("20:5120") == [20, 40, 80, 160, 320, 640, 1280, 2560, 5120]
    assert parse_lengths("40:256:8") == [40, 71, 102, 133, 163, 194, 225, 256]
    assert parse_lengths("20,40,100") == [20, 40, 100]
    assert parse_lengths(" 7, 1:4 ") == [1, 2, 4, 7]


@settings(max_examples=40)
@given(st.text(alphabet="0123456789:,- x", max_size=8))
def test_any_other_text_is_a_clear_error(text: str) -> None:
    try:
        found = parse_lengths(text)
    except ValueError as error:
        assert "expected" in str(error)
    else:
        assert found and all(length >= 1 for length in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "'' is no length"),
        ("20:", "'20:' is no length"),
        ("ten", "'ten' is no length"),
        ("0", "expected 1 <= start <= end"),
        ("40:20", "40:20; expected 1 <= start <= end"),
        ("1:2:3:4", "too many parts"),
        ("10:12:4", "10:12:4; expected a count of 2 to 3"),
        ("10:20:1", "expected a count of 2 to 11"),
    ],
)
def test_what_is_wrong_is_named(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        parse_lengths(text)
