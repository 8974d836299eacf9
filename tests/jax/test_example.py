"""The example of A5 runs from end to end; how good it becomes is not for a test to show."""

import pytest

pytest.importorskip("optax")


def test_it_trains_and_measures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import jax

    from examples import a5_in_jax

    jax.config.update("jax_enable_x64", False)
    monkeypatch.setattr(a5_in_jax, "LENGTHS", (5,))
    monkeypatch.setattr(a5_in_jax, "WIDTH", 16)
    monkeypatch.setattr(a5_in_jax, "BATCH", 8)
    found = a5_in_jax.main(["--steps", "2"])
    assert found.keys() == {5} and 0 <= found[5] <= 1
    assert "first step, compiled" in capsys.readouterr().out


def test_a_path_of_diffrax_drives_the_same_equation() -> None:
    pytest.importorskip("diffrax")
    import jax

    from examples import diffrax_paths

    jax.config.update("jax_enable_x64", False)
    assert diffrax_paths.main() < 1e-4
