from pathlib import Path

import pytest
from tidepost.config import ConfigError, load


def written(tmp_path, text):
    path = tmp_path / "tidepost.toml"
    path.write_text(text)
    return path


def test_the_shipped_settings_are_valid():
    config = load(Path("config/tidepost.toml"))
    assert config.stations == ("KEL", "HUS", "WIL")
    assert config.max_tries == 5


def test_a_missing_setting_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"\[uplink\] url is missing"):
        load(written(tmp_path, '[relay]\nstations = ["KEL"]\n'))


def test_a_value_out_of_range_is_named(tmp_path):
    text = '[relay]\nstations = ["KEL"]\nbatch_size = 0\n[uplink]\nurl = "x"\n'
    with pytest.raises(ConfigError, match=r"batch_size = 0 must be a positive number"):
        load(written(tmp_path, text))
