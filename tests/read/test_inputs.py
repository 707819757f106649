"""Files, folders, patterns and URLs become an ordered list of files with names of their own."""

import gzip
import os
from pathlib import Path

import datasets
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from promptmill.pipeline.read.inputs import find_inputs
from promptmill.pipeline.read.layout import layout_of
from promptmill.schemas.errors import JobError
from promptmill.schemas.shard import InputCompression, InputKind


def names(*inputs: object) -> list[str]:
    return [file.name for file in find_inputs([str(given) for given in inputs]).files]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder of requests with everything that lies around in such folders."""
    for name in (
        "b.jsonl",
        "a.ndjson",
        "sub/c.json",
        "sub/deep/d.jsonl.gz",
        "README.md",
        ".hidden.jsonl",
        "_private.jsonl",
        ".git/x.jsonl",
        "_tmp/x.jsonl",
        "dataset_infos.json",
    ):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b'{"prompt": "x"}\n')
    return tmp_path / "tree"


def test_a_folder_gives_its_files_sorted_and_named_below_it(tree: Path) -> None:
    found = find_inputs([str(tree)])
    assert [file.name for file in found.files] == [
        "a.ndjson",
        "b.jsonl",
        "sub/c.json",
        "sub/deep/d.jsonl.gz",
    ]
    assert found.files[0].url == str(tree / "a.ndjson")
    assert found.files[0].size == 16
    assert found.files[3].compression is InputCompression.GZIP
    assert len(found.warnings) == 1
    assert "README.md" in found.warnings[0]
    assert names(f"{tree}/") == names(tree) == names(f"file://{tree}")


def test_patterns_name_below_the_part_without_wildcards(tree: Path) -> None:
    assert names(f"{tree}/*.jsonl") == ["b.jsonl"]
    assert names(f"{tree}/**/*.json*") == ["b.jsonl", "sub/c.json", "sub/deep/d.jsonl.gz"]
    assert names(f"{tree}/s?b/*.json") == ["sub/c.json"]
    assert names(f"{tree}/[a-b].*") == ["a.ndjson", "b.jsonl"]
    assert names(f"{tree}/s*") == ["sub/c.json", "sub/deep/d.jsonl.gz"]
    assert names(f"{tree}/_*/*.jsonl") == ["_tmp/x.jsonl"]


def test_order_is_that_of_the_inputs_and_nothing_comes_twice(tree: Path) -> None:
    (tree / "link.jsonl").symlink_to(tree / "b.jsonl")
    (tree / "loop").symlink_to(tree)
    given = (tree / "sub" / "c.json", f"{tree}/*.jsonl", tree)
    assert names(*given) == ["c.json", "b.jsonl", "a.ndjson", "sub/deep/d.jsonl.gz"]


def test_a_linked_folder_is_read(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "links").symlink_to(tree / "sub")
    assert names(tmp_path / "other") == ["links/c.json", "links/deep/d.jsonl.gz"]


def test_equal_names_are_lengthened_until_they_differ(tmp_path: Path) -> None:
    paths = [tmp_path / place / "in.jsonl" for place in ("a/x", "b/x", "b/y", "c")]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.touch()
    assert names(*paths) == ["a/x/in.jsonl", "b/x/in.jsonl", "y/in.jsonl", "c/in.jsonl"]
    assert names(paths[0], tmp_path / "c", tmp_path / "b") == [
        "a/x/in.jsonl",
        "c/in.jsonl",
        "b/x/in.jsonl",
        "y/in.jsonl",
    ]


def test_a_name_that_is_no_utf8_is_spelled_out(tmp_path: Path, read) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl")).write_bytes(b"{}\n")
    plan, rows = read(tmp_path)
    assert plan.files[0].name == rows[0].source == r"\xff.jsonl"


def test_a_path_that_exists_is_no_pattern(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a[1].jsonl").touch()
    (tmp_path / "a1.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    assert names("a[1].jsonl") == ["a[1].jsonl"]
    assert find_inputs(["a1.jsonl"]).files[0].url == str(tmp_path / "a1.jsonl")


def test_rejects_are_input_when_named_and_outputs_of_runs_are_not(tree: Path) -> None:
    out = tree / "out"
    (out / "_promptmill" / "rejects").mkdir(parents=True)
    (out / "_promptmill" / "rejects" / "00000.jsonl").touch()
    before = names(tree)
    pq.write_table(pa.table({"prompt_token_ids": [[1]]}), out / "part-00000-of-00001.parquet")
    assert names(tree) == before
    assert any("out is the output of a run" in text for text in find_inputs([str(tree)]).warnings)
    assert names(f"{out}/_promptmill/rejects/*.jsonl") == ["00000.jsonl"]
    assert names(out / "_promptmill" / "rejects") == ["00000.jsonl"]
    for given in (out, f"{out}/*.parquet"):
        with pytest.raises(JobError, match=r"_promptmill/rejects/\*\.jsonl"):
            find_inputs([str(given)])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nowhere.jsonl", "does not exist"),
        ("no*.jsonl", "gives no file"),
        ("empty", "gives no file"),
        ("data.csv", r"no ending that is read.*\.jsonl"),
        ("*.csv", r"only files with other endings: data\.csv"),
        ("mixed", r"several kinds \(a\.jsonl, b\.parquet\)"),
        ("nosuch://bucket/in.jsonl", "Protocol not known"),
        ("broken", "No such file"),
        ("pipe.jsonl", "is a pipe or a device"),
    ],
)
def test_inputs_that_cannot_be_are_refused_with_a_way_out(
    given: str, message: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("empty", "mixed", "broken"):
        (tmp_path / folder).mkdir()
    for name in ("data.csv", "mixed/a.jsonl", "mixed/b.parquet"):
        (tmp_path / name).touch()
    (tmp_path / "broken" / "in.jsonl").symlink_to(tmp_path / "gone.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(JobError, match=message) as error:
        find_inputs([given])
    assert given in str(error.value)


@pytest.mark.parametrize(
    ("name", "kind", "compression"),
    [
        ("a.jsonl", "jsonl", "none"),
        ("a.b.NDJSON", "jsonl", "none"),
        ("a.json.GZ", "jsonl", "gzip"),
        ("a.jsonl.zst", "jsonl", "zstd"),
        ("x.snappy.parquet", "parquet", "none"),
        ("a.arrow", "arrow", "none"),
        ("a.feather", "arrow", "none"),
        ("a.parquet.gz", None, None),
        ("a.jsonl.bz2", None, None),
        ("a.gz", None, None),
        ("jsonl", None, None),
        (".jsonl", None, None),
    ],
)
def test_endings(name: str, kind: str | None, compression: str | None) -> None:
    found = layout_of(name)
    assert found == (kind and (InputKind(kind), InputCompression(compression)))


def test_a_saved_data_set_gives_the_files_it_lists_in_its_order(tmp_path: Path, read) -> None:
    data = datasets.Dataset.from_list([{"id": str(n), "prompt": f"text {n}"} for n in range(30)])
    data.save_to_disk(tmp_path / "set", num_shards=3)
    (tmp_path / "set" / "cache-0123456789abcdef.arrow").write_bytes(b"no rows of the set")
    assert names(tmp_path / "set") == [f"data-0000{n}-of-00003.arrow" for n in range(3)]
    _, rows = read(tmp_path / "set", rows_per_shard=7)
    assert [row.data for row in rows] == list(data)

    state = tmp_path / "set" / "state.json"
    text = state.read_text()
    state.write_text(text.replace("00000-of", "x-of").replace("00002-of", "00000-of"))
    with pytest.raises(JobError, match=r"data-x-of-00003\.arrow is missing"):
        find_inputs([str(tmp_path / "set")])
    state.write_text(state.read_text().replace("x-of", "00002-of"))
    assert names(tmp_path / "set") == [f"data-0000{n}-of-00003.arrow" for n in (2, 1, 0)]


def test_a_saved_dict_of_data_sets_gives_all_its_splits(tmp_path: Path, read) -> None:
    splits = {name: datasets.Dataset.from_list([{"prompt": name}]) for name in ("train", "test")}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "sets")
    plan, rows = read(tmp_path / "sets")
    assert [file.name.split("/")[0] for file in plan.files] == ["test", "train"]
    assert [row.data for row in rows] == [{"prompt": "test"}, {"prompt": "train"}]


def test_urls_of_any_file_system(read) -> None:
    memory = fsspec.filesystem("memory")
    content = b'{"prompt": "x"}\n' * 3
    memory.pipe_file("/bucket/a/in.jsonl", content)
    memory.pipe_file("/bucket/a/_tmp/in.jsonl", content)
    memory.pipe_file("/bucket/b/in.jsonl.gz", gzip.compress(content))
    with memory.open("/bucket/c/in.parquet", "wb") as file:
        pq.write_table(pa.table({"prompt": ["x"] * 3}), file)
    with (
        memory.open("/bucket/d/in.arrow", "wb") as file,
        pa.ipc.new_stream(file, pa.schema([("prompt", pa.string())])) as stream,
    ):
        stream.write_table(pa.table({"prompt": ["x"] * 3}))
    assert names("memory://bucket/a") == ["in.jsonl"]
    assert names("memory://bucket/*/in.json*") == ["a/in.jsonl", "b/in.jsonl.gz"]
    for place in "abcd":
        _, rows = read(f"memory://bucket/{place}", rows_per_shard=2)
        assert len(rows) == 3
        assert rows[2].data in ({"prompt": "x"}, b'{"prompt": "x"}')


def test_a_name_that_is_no_utf8_becomes_text(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/odd-\xff.jsonl"
    with open(path, "wb") as file:  # noqa: PTH123 - pathlib knows no names in bytes
        file.write(b"{}\n")
    (found,) = find_inputs([os.fsdecode(path)]).files
    assert found.name == "odd-\\xff.jsonl"
