"""Objects of a real S3 server: whole, once, and faults tried again by class."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from promptmill.pipeline.storage import systems
from promptmill.pipeline.storage.faults import StorageError
from promptmill.pipeline.storage.place import read_files, sizes
from promptmill.pipeline.storage.remote import RemotePath
from promptmill.pipeline.write.publish import publish
from s3_server import Bucket, Kind, S3Server

LARGE = 40 << 20
"""Takes a multipart upload."""


@pytest.fixture
def out(bucket: Bucket) -> RemotePath:
    return RemotePath(f"s3://{bucket.name}/some/out")


def file_of(folder: Path, content: bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_it_is_used_as_a_path(out: RemotePath) -> None:
    assert not out.exists()
    assert [*out.iterdir()] == []
    assert sizes(out) == {}
    (out / "a" / "b.json").replace_with(b"12")
    (out / "c.parquet").replace_with(b"345")
    assert out.exists()
    assert out.is_dir()
    assert not (out / "c.parquet").is_dir()
    assert {str(path) for path in out.iterdir()} == {f"{out}/a", f"{out}/c.parquet"}
    assert sizes(out) == {"c.parquet": 3}
    place = out / "a" / "b.json"
    assert (place.name, place.suffix, place.parent) == ("b.json", ".json", out / "a")
    assert place.read_bytes() == b"12"
    with place.open("rb") as file:
        assert file.read() == b"12"
    assert pickle.loads(pickle.dumps(place)) == place
    place.unlink()
    with pytest.raises(FileNotFoundError):
        place.read_bytes()


def test_many_small_files_in_order(out: RemotePath) -> None:
    names = [f"{n:05}.json" for n in range(30)]
    for name in names:
        (out / name).replace_with(name.encode())
    assert [*read_files(out, names[::-1])] == [(name, name.encode()) for name in names[::-1]]


def test_nothing_is_remembered(out: RemotePath, s3: S3Server) -> None:
    place = out / "x.json"
    assert [*out.iterdir()] == []
    s3.direct("PUT", place.url.removeprefix("s3:/"), b"of another process")
    assert place.exists()
    assert [path.name for path in out.iterdir()] == ["x.json"]
    s3.direct("PUT", place.url.removeprefix("s3:/"), b"changed")
    assert place.read_bytes() == b"changed"


@pytest.mark.parametrize("size", [1000, LARGE])
def test_of_many_publishers_one_wins(out: RemotePath, tmp_path: Path, size: int) -> None:
    contents = [bytes([65 + n]) * size for n in range(4)]
    files = [file_of(tmp_path, content, str(n)) for n, content in enumerate(contents)]
    start = threading.Barrier(len(files))

    def attempt(file: Path) -> bool:
        start.wait()
        return publish(file, out / "part")

    with ThreadPoolExecutor(len(files)) as pool:
        won = list(pool.map(attempt, files))
    assert won.count(True) == 1
    assert (out / "part").read_bytes() == contents[won.index(True)]
    assert [*tmp_path.iterdir()] == []


def test_a_lost_upload_leaves_no_pieces(
    out: RemotePath, bucket: Bucket, tmp_path: Path, s3: S3Server
) -> None:
    s3.trouble("PUT", "partNumber=2", "status", 403)
    with pytest.raises(StorageError, match="access denied"):
        publish(file_of(tmp_path, b"x" * LARGE), out / "part")
    assert bucket.uploads() == []
    assert bucket.objects() == {}


def test_uploads_of_the_dead_are_ended(out: RemotePath, bucket: Bucket, s3: S3Server) -> None:
    for key in ("some/out/part", "some/other"):
        s3.direct("POST", f"/{bucket.name}/{key}?uploads")
    out.abort_uploads()
    assert bucket.uploads() == ["some/other"]
    s3.trouble("GET", "uploads", "status", 403)
    out.abort_uploads()


def test_a_small_object_whose_answer_was_lost_is_ours(out: RemotePath, s3: S3Server) -> None:
    lost = s3.trouble("PUT", "driver", "lost", times=1)
    assert (out / "driver.json").create(b"mine")
    assert lost.met == 1
    assert not (out / "driver.json").create(b"another's")
    assert (out / "driver.json").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("kind", "value"),
    [("status", 429), ("status", 500), ("status", 503), ("slow", 0.5), ("lost", 0)],
)
def test_faults_that_pass_are_not_seen(
    out: RemotePath, tmp_path: Path, s3: S3Server, kind: Kind, value: float
) -> None:
    trouble = s3.trouble("PUT", "part", kind, value, times=2)
    won = publish(file_of(tmp_path, b"content"), out / "part")
    assert won or kind == "lost"  # a file's own lost answer looks like another's win
    assert trouble.met
    assert (out / "part").read_bytes() == b"content"


@pytest.mark.parametrize(("kind", "value"), [("status", 503), ("cut", 0), ("lost", 0)])
def test_reads_that_fail_are_done_again(
    out: RemotePath, s3: S3Server, kind: Kind, value: float
) -> None:
    content = bytes(range(256)) * 4096
    (out / "part").replace_with(content)
    trouble = s3.trouble("GET", "out/part", kind, value, times=2)
    with (out / "part").open("rb") as file:
        file.seek(1000)
        assert file.read(5000) == content[1000:6000]
        assert file.read() == content[6000:]
    assert trouble.met == 2


def test_faults_that_stay_say_what_to_do(out: RemotePath, s3: S3Server) -> None:
    s3.trouble("PUT", "busy", "status", 503)
    with pytest.raises(StorageError, match=r"some/out/busy: write failed, busy \(HTTP 503\)") as e:
        (out / "busy").create(b"")
    assert "It was tried 4 times" in str(e.value)
    denied = s3.trouble("PUT", "denied", "status", 403)
    with pytest.raises(StorageError, match=r"access denied \(HTTP 403\).*credentials"):
        (out / "denied").create(b"")
    assert denied.met == 1
    with pytest.raises(StorageError, match="Create the bucket no-such-bucket first"):
        RemotePath("s3://no-such-bucket/out/run.json").create(b"")
    with pytest.raises(StorageError, match="refused"):
        RemotePath("s3://No_Bucket!/out").exists()


def test_a_server_that_is_gone_is_unreachable(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = {"endpoint_url": "http://127.0.0.1:9"}
    monkeypatch.setitem(systems._SETTINGS, "s3", closed)
    with pytest.raises(StorageError, match=r"unreachable.*Check the network and the endpoint"):
        RemotePath("s3://bucket/key").read_bytes()
