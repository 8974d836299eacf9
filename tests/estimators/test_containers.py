"""Series as people have them: frames of several shapes, dates, and what is wrong with them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

import pandas as pd

from slicekit.estimators import SliceClassifier, SliceTransformer, from_long
from tests.estimators.waves import RIDGE, ragged, waves


def long(X: list[np.ndarray], times: list[Any]) -> Any:
    parts = [
        pd.DataFrame({"id": f"case {i}", "time": t, "a": x[0], "b": x[1]})
        for i, (x, t) in enumerate(zip(X, times, strict=True))
    ]
    return pd.concat(parts, ignore_index=True)


def expected() -> tuple[Any, list[np.ndarray], list[np.ndarray], np.ndarray]:
    X, times, y = ragged(gaps=0.2)
    return SliceClassifier(**RIDGE).fit(X, y, times=times).predict_proba(X, times), X, times, y


def test_a_long_frame_is_as_the_arrays() -> None:
    wanted, X, times, y = expected()
    frame = long(X, times)
    pairs, ids = from_long(frame)
    assert ids.tolist() == [f"case {i}" for i in range(12)]
    renamed = from_long(
        frame.rename(columns={"id": "k", "time": "t"}), id="k", time="t", channels=["a", "b"]
    )[0]
    indexed = frame.set_index(["id", "time"])
    for given in (frame, pairs, renamed, indexed):
        model = SliceClassifier(**RIDGE).fit(given, y)
        np.testing.assert_array_equal(model.predict_proba(given), wanted)


def test_lists_of_frames_and_nested_frames_are_as_the_arrays() -> None:
    X, y = waves(12)
    wanted = SliceClassifier(**RIDGE).fit(X, y).predict_proba(X)
    frames = [pd.DataFrame(x.T, columns=["a", "b"]) for x in X]
    nested = pd.DataFrame({f"c{c}": [pd.Series(x[c]) for x in X] for c in range(2)})
    for given in (frames, nested):
        model = SliceClassifier(**RIDGE).fit(given, y)
        np.testing.assert_array_equal(model.predict_proba(given), wanted)


def test_channels_go_by_their_names(tmp_path: Path) -> None:
    X, y = waves(12)
    frames = [pd.DataFrame(x.T, columns=["a", "b"]) for x in X]
    nested = pd.DataFrame({c: [pd.Series(x[i]) for x in X] for i, c in enumerate("ab")})
    rows = long(list(X), [np.arange(x.shape[1]) for x in X])
    model = SliceClassifier(**RIDGE).fit([*frames[:-1], frames[-1][["b", "a"]]], y)
    assert model.channel_names_in_.tolist() == ["a", "b"]
    wanted = SliceClassifier(**RIDGE).fit(X, y).predict_proba(X)
    model.save(tmp_path / "model.safetensors")
    again = SliceClassifier.load(tmp_path / "model.safetensors")
    swapped: list[Any] = [[x[["b", "a"]] for x in frames], nested[["b", "a"]]]
    swapped += [rows[["b", "time", "a", "id"]], rows.set_index(["id", "time"])[["b", "a"]]]
    for given in (X, frames, *swapped):
        np.testing.assert_array_equal(again.predict_proba(given), wanted)
    for given in (
        nested.rename(columns={"b": "c"}),
        [x.rename(columns={"b": "c"}) for x in frames],
    ):
        with pytest.raises(
            ValueError, match=r"has the channels \['a', 'c'\]; expected \['a', 'b'\]"
        ):
            model.predict(given)
    with pytest.raises(ValueError, match=r"X\[11\] has the channels \['c', 'b'\]"):
        SliceClassifier(**RIDGE).fit([*frames[:-1], frames[-1].rename(columns={"a": "c"})], y)
    assert not hasattr(model.fit(X, y), "channel_names_in_")


def test_channels_of_a_stream_go_by_their_names() -> None:
    X, y = waves(12)
    frames = [pd.DataFrame(x.T, columns=["a", "b"]) for x in X]
    model = SliceClassifier(**RIDGE).fit(frames, y)
    wanted = model.stream().update(X[0][:, 0])
    row = frames[0].iloc[0]
    for given in (row, row[["b", "a"]], row[["b", "a"]].astype(object)):
        np.testing.assert_array_equal(model.stream().update(given), wanted)
    first = pd.DataFrame(X[:, :, 0], columns=["a", "b"])
    wanted = model.stream(batch=12).update(X[:, :, 0])
    np.testing.assert_array_equal(model.stream(batch=12).update(first[["b", "a"]]), wanted)
    gap = model.stream().update([np.nan, 1.0])
    np.testing.assert_array_equal(
        model.stream().update(pd.Series([1, None], ["b", "a"], dtype="Int64")), gap
    )
    stream = model.stream()
    for given in (row.rename({"b": "c"}), row.reset_index(drop=True), row[["a"]]):
        with pytest.raises(
            ValueError, match=r"observation has the channels .*; expected \['a', 'b"
        ):
            stream.update(given)
    with pytest.raises(ValueError, match="observation has the name 'a' more than once"):
        stream.update(row[["a", "a"]])
    assert stream.count == 0
    plain = SliceClassifier(**RIDGE).fit(X, y)
    np.testing.assert_array_equal(plain.stream().update(row), model.stream().update(row.to_numpy()))


def test_a_name_that_is_there_twice_is_refused() -> None:
    X, times, y = ragged()
    rows = long(X, times)
    frames = [pd.DataFrame(x.T, columns=["a", "a"]) for x in X]
    twice = rows.rename(columns={"b": "a"})
    ids = pd.concat([rows, rows[["id"]]], axis=1)
    for given in (frames, twice, twice.set_index(["id", "time"]), ids):
        with pytest.raises(ValueError, match=r"has the name '(a|id)' more than once"):
            SliceClassifier(**RIDGE).fit(given, y)
    with pytest.raises(ValueError, match="the frame has the name 'a' more than once"):
        from_long(twice)
    from_long(pd.concat([rows, rows[["b"]]], axis=1), channels=["a"])


def test_a_series_to_explain_may_be_a_frame_or_a_pair() -> None:
    X, y = waves(12)
    stamps = pd.date_range("2026-01-01", periods=X.shape[2], freq="min")
    frames = [pd.DataFrame(x.T, columns=["a", "b"], index=stamps) for x in X]
    model = SliceClassifier(**RIDGE).fit(frames, y)
    wanted = model.explain(X[0], times=stamps, parts=3).effects
    for given in (frames[0], frames[0][["b", "a"]], (X[0], stamps.to_numpy())):
        np.testing.assert_array_equal(model.explain(given, parts=3).effects, wanted)
    with pytest.raises(ValueError, match="times is given"):
        model.explain((X[0], stamps.to_numpy()), times=stamps)
    with pytest.raises(ValueError, match=r"does not come after 2026-01-01T00:01:00"):
        stream = model.stream()
        stream.update(X[0][:, 0], stamps[1])
        stream.update(X[0][:, 1], stamps[0])


def test_dates_have_a_unit() -> None:
    X, _, y = ragged()
    seconds = [np.cumsum(np.arange(1, x.shape[1] + 1)) for x in X]
    epoch = np.datetime64("2026-01-01")
    kinds: dict[str, Any] = {
        unit: [epoch + s.astype("timedelta64[s]").astype(f"timedelta64[{unit}]") for s in seconds]
        for unit in ("s", "us", "ns")
    }
    start = pd.Timestamp("2026-01-01")
    kinds["pandas"] = [start + pd.to_timedelta(s, unit="s") for s in seconds]
    kinds["zone"] = [(t.tz_localize("UTC")).tz_convert("Asia/Tokyo") for t in kinds["pandas"]]
    kinds["objects"] = [
        [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=int(x)) for x in s] for s in seconds
    ]
    model = SliceClassifier(**RIDGE).fit(X, y, times=kinds["us"])
    wanted = model.predict_proba(X, times=kinds["us"])
    for times in kinds.values():
        np.testing.assert_array_equal(model.predict_proba(X, times=times), wanted)
    with pytest.raises(ValueError, match=r"times holds numbers; .* fitted with dates"):
        model.predict(X, times=seconds)
    for stamps in (kinds["pandas"][-1], kinds["ns"][-1], kinds["objects"][-1]):
        stream = model.stream()
        for observation, stamp in zip(X[-1].T, stamps, strict=True):
            stream.update(observation, stamp)
        np.testing.assert_allclose(stream.probabilities, wanted[-1], atol=1e-5)
    with pytest.raises(ValueError, match="is a number; expected a date"):
        model.stream().update(X[0][:, 0], 5.0)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: f.iloc[::-1], "times of series 'case 11' are not sorted"),
        (lambda f: f.assign(id=f.id.factorize()[0]).iloc[::-1], "series 11 are not sorted"),
        (lambda f: pd.concat([f, f.tail(1)]), "more than once"),
        (lambda f: f.assign(time=f.time.where(f.time > f.time.min())), "without a time"),
        (lambda f: f.assign(a="x"), "column 'a'"),
        (lambda f: f.rename(columns={"time": "when"}), "from_long"),
        (lambda f: f[["time", "a", "b"]].rename(columns=str.upper), "from_long"),
        (lambda f: f[["a", "b"]].assign(when=pd.Timestamp("2026-01-01")), "from_long"),
        (lambda f: f[["a", "b"]], "table of .* series with one channel.* but y has 12 .*from_long"),
        (lambda f: f[["id", "time"]], "no column of values"),
        (lambda f: f.head(0), "no rows"),
    ],
    ids=[
        *("unsorted", "numbered", "duplicate", "no time", "text", "unnamed", "lone", "dates"),
        *("table", "no channel", "empty"),
    ],
)
def test_what_is_wrong_with_a_frame_is_said(spoil: Any, message: str) -> None:
    X, times, y = ragged()
    with pytest.raises(ValueError, match=message):
        SliceClassifier(**RIDGE).fit(spoil(long(X, times)), y)


def test_a_column_that_is_not_there_is_named() -> None:
    X, times, _ = ragged()
    with pytest.raises(ValueError, match="no column 'patient'"):
        from_long(long(X, times), id="patient")


def test_channels_of_unequal_lengths_are_named() -> None:
    nested = pd.DataFrame({"a": [pd.Series([1.0, 2.0])], "b": [pd.Series([1.0])]})
    with pytest.raises(ValueError, match=r"lengths \[1, 2\] in row 0"):
        SliceClassifier(**RIDGE).fit(nested, [0])


def test_features_as_a_frame_have_a_row_for_each_series() -> None:
    X, times, _ = ragged()
    frame = long(X, times).sort_values("time", kind="stable")
    ids = from_long(frame)[1].tolist()
    for given in (frame, frame.set_index(["id", "time"])):
        model = SliceTransformer(groups=1, random_state=0)
        plain = model.fit_transform(given)
        model.set_output(transform="pandas")
        for found in (model.fit_transform(given), model.fit(given).transform(given)):
            np.testing.assert_array_equal(found.to_numpy(), plain)
            assert found.index.tolist() == ids
            assert found.columns.tolist() == model.get_feature_names_out().tolist()
