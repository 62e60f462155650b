"""Where limits and the root come from, and what is said of settings that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from gyoshu_ckpt.errors import BadSettings
from gyoshu_ckpt.settings import read_settings


def test_flag_beats_variable_beats_file_beats_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project" / "deep"
    project.mkdir(parents=True)
    monkeypatch.chdir(project)
    assert read_settings(None, environment={}).root == project
    (tmp_path / "project" / "gyoshu.toml").write_text('[limits]\nstage = "90s"\n')
    assert read_settings(None, environment={}).root == tmp_path / "project"
    assert read_settings(None, environment={}).stage_s == 90
    assert read_settings(None, environment={"GYOSHU_ROOT": "/x"}).root == Path("/x")
    assert read_settings(Path("/y"), environment={"GYOSHU_ROOT": "/x"}).root == Path("/y")
    assert read_settings(None, environment={"GYOSHU_LIMITS_STAGE": "2m"}).stage_s == 120


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[limits]\nstge = '4m'", "did you mean stage"),
        ("[limit]\n", "did you mean limits"),
        ("[limits]\nstage = 'soon'", "not a duration"),
        ("limits = 3", "has to be a table"),
        ("[limits", "cannot be read"),
    ],
)
def test_bad_settings_name_the_file_and_the_fix(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "gyoshu.toml").write_text(text)
    with pytest.raises(BadSettings) as refusal:
        read_settings(tmp_path, environment={})
    assert said in f"{refusal.value.message} {refusal.value.next_step}"
    assert "gyoshu.toml" in f"{refusal.value.message}"
    assert refusal.value.exit_code == 78
