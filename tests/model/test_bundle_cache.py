import os
import shutil
from pathlib import Path

import pytest

from promptmill.pipeline.model import bundle_cache
from promptmill.pipeline.model.bundle_cache import KEPT, load_bundle_cached
from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.options import JobOptions, Task


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROMPTMILL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bundles"


@pytest.fixture
def model(tiny_models: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_models / "chatml", tmp_path / "model"))


def options_of(model: Path, **given: object) -> JobOptions:
    return JobOptions.model_validate({"input": ("-",), "output": "-", "model": str(model), **given})


def test_what_comes_back_is_equal(cache: Path, model: Path) -> None:
    options = options_of(model)
    wanted = load_bundle(options)
    assert load_bundle_cached(options) == load_bundle_cached(options) == wanted
    assert len(list(cache.iterdir())) == 1


def test_tokenizer_files_come_back_equal(cache: Path, models: Path) -> None:
    options = options_of(models / "mistral_spm", tokenizer_mode="mistral")
    first = load_bundle_cached(options)
    assert first.files
    assert load_bundle_cached(options) == first


def test_a_hit_resolves_nothing(cache: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_bundle_cached(options_of(model))
    monkeypatch.delattr(bundle_cache, "_resolve")
    load_bundle_cached(options_of(model, with_text=True))
    with pytest.raises(NameError):
        load_bundle_cached(options_of(model, task=Task.POOLING))


def test_any_change_of_the_folder_is_seen(cache: Path, model: Path) -> None:
    load_bundle_cached(options_of(model))
    (model / "generation_config.json").write_text('{"max_new_tokens": 7}')
    assert load_bundle_cached(options_of(model)).generation_config == {"max_new_tokens": 7}


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: entry.write_bytes(entry.read_bytes()[:-100]),
        lambda entry: entry.write_bytes(b""),
        lambda entry: entry.write_bytes(entry.read_bytes().replace(b'"name"', b'"nome"', 1)),
        lambda entry: entry.chmod(0o666),
    ],
)
def test_a_damaged_or_open_entry_is_replaced(cache: Path, model: Path, damage: object) -> None:
    wanted = load_bundle_cached(options_of(model))
    (entry,) = cache.iterdir()
    whole = entry.read_bytes()
    assert callable(damage)
    damage(entry)
    assert load_bundle_cached(options_of(model)) == wanted
    assert entry.read_bytes() == whole
    assert entry.stat().st_mode & 0o077 == 0


def test_what_json_cannot_say_is_not_kept(cache: Path, model: Path) -> None:
    (model / "generation_config.json").write_text('{"temperature": NaN}')
    load_bundle_cached(options_of(model))
    assert not cache.exists()


def test_a_folder_that_cannot_be_written_costs_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PROMPTMILL_CACHE", str(tmp_path / "file"))
    assert load_bundle_cached(options_of(model)) == load_bundle(options_of(model))


def test_old_entries_make_room(cache: Path, model: Path) -> None:
    cache.mkdir(parents=True)
    for age in range(KEPT + 2):
        entry = cache / f"{age}.json"
        entry.touch()
        os.utime(entry, (1000 - age, 1000 - age))
    load_bundle_cached(options_of(model))
    assert len(list(cache.iterdir())) == KEPT
    assert (cache / "0.json").exists()
    assert not (cache / f"{KEPT}.json").exists()


def test_own_loaders_are_never_cached(
    cache: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_cache, "_own_loaders", True)
    load_bundle_cached(options_of(model))
    assert not cache.exists()
