"""`verify` against a real HTTP server that answers rightly, wrongly, late and not at all."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from promptmill.schemas.errors import JobError
from promptmill.workers.cli.app import app
from promptmill.workers.finished_run import FinishedRun
from promptmill.workers.verify.client import Server
from promptmill.workers.verify.judge import Takes
from promptmill.workers.verify.run import Verification, verify
from rendering_server import CHAT, COMPLETION, ROWS, TOKENIZE, Body, Stub

PROMPTS, REJECTS = 8, 4

Serve = Callable[..., tuple[str, Stub]]
Run = Callable[..., Path]


def verified(output: Path, url: str, size: int | None = None, **more: Any) -> Verification:
    run = FinishedRun.open(output)
    assert run is not None
    given = {"seed": 0, "model": None, "connections": 2} | more
    timeout = given.pop("timeout", 60.0)
    key = given.pop("api_key", None)
    server = Server(url, api_key=key, timeout=timeout, pause=0.0, connections=2)
    return verify(run, server, size=size, **given)


def causes(made: Verification) -> dict[str, int]:
    return {cause.value: finding.count for cause, finding in made.findings.items()}


def one_chat(text: str = "hello there", **more: Any) -> list[Body]:
    return [{"id": "a", "messages": [{"role": "user", "content": text}], **more}]


def test_a_server_that_answers_alike(run: Run, serve: Serve) -> None:
    url, stub = serve()
    made = verified(run(), url)
    assert causes(made) == {}
    assert made.passed
    assert (made.equal, made.sampled, made.total) == (PROMPTS, PROMPTS + REJECTS, PROMPTS + REJECTS)
    assert made.refused_by_both == 2  # too long, and without messages
    assert sum(made.not_asked.values()) == 2  # no request, and no JSON
    assert made.facts.version == "0.33.0"
    assert any(body.get("tool_choice") == "none" for _, body in stub.asked)
    urls = json.dumps([body for path, body in stub.asked if path == CHAT])
    assert "data:image/png;base64," in urls
    assert "images/square.png" not in urls


@pytest.mark.parametrize("words", [("--columns", "hf"), ("--format", "arrow"), ("--no-offsets",)])
def test_runs_of_every_shape(run: Run, serve: Serve, words: tuple[str, ...]) -> None:
    url, _ = serve()
    assert verified(run(*words), url).passed


def test_what_a_run_sets_for_its_rows_is_said(run: Run, serve: Serve) -> None:
    url, _ = serve()
    words = ("--on-overlong", "truncate", "--truncation-side", "right", "--max-tokens", "5")
    made = verified(run(*words), url)
    assert causes(made) == {}
    assert made.equal == PROMPTS + 1


def test_the_whole_conversations_of_training(run: Run, serve: Serve) -> None:
    url, _ = serve()
    longer = one_chat("one two three " * 200, truncate_prompt_tokens=20)  # than the context
    made = verified(run("--task", "train", rows=[*ROWS, *longer]), url)
    assert causes(made) == {}
    assert made.equal == PROMPTS + 1


def test_an_endpoint_that_is_missing(run: Run, serve: Serve) -> None:
    url, stub = serve()
    stub.paths.discard(CHAT)
    made = verified(run(), url)
    assert causes(made) == {}
    assert made.equal == 4  # completions
    assert any("no endpoint" in reason for reason in made.not_asked)


def test_documents_with_eos_appended(run: Run, serve: Serve) -> None:
    url, _ = serve()
    rows = [{"id": "d", "text": "a document"}]
    made = verified(run("--text-column", "text", "--append-eos", rows=rows), url)
    assert (causes(made), made.equal) == ({}, 1)


@pytest.mark.parametrize("words", [(), ("--task", "pooling")])
def test_a_server_that_only_tokenizes(run: Run, serve: Serve, words: tuple[str, ...]) -> None:
    url, stub = serve()
    stub.paths -= {CHAT, COMPLETION}
    made = verified(run(*words), url)
    assert causes(made) == {}, [f.first for f in made.findings.values()]
    assert made.equal == PROMPTS - 1  # ids cannot be tokenized
    assert made.takes is Takes.CONVERSATIONS
    assert any(TOKENIZE in note for note in made.notes)


def test_a_server_that_tokenizes_only_texts(run: Run, serve: Serve) -> None:
    url, stub = serve()
    stub.paths -= {CHAT, COMPLETION}
    stub.tokenizes_chats = False
    made = verified(run(), url)
    assert causes(made) == {}
    assert made.equal == PROMPTS - 2  # nor can ids be tokenized, nor media be sent
    assert made.takes is Takes.TEXTS
    assert any("chat template is not compared" in note for note in made.notes)


def test_a_server_that_is_somewhere_else(run: Run, serve: Serve) -> None:
    url, stub = serve()
    stub.failures = [307] * 10
    with pytest.raises(JobError, match="somewhere else"):
        verified(run(rows=one_chat()), url)


# --- wrong answers ---

TEMPLATE = (
    "{% for m in messages %}<|turn|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)
THINKING = TEMPLATE + "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}"
DATED = "<|turn|>system\nToday is {{ strftime_now('%d %b %Y') }}.<|end|>\n" + TEMPLATE
TOOLED = "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}" + TEMPLATE
BARE = TOOLED.replace("t | tojson", "{'type': t.type, 'function': {'name': 'f'}} | tojson")
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def check_finding(made: Verification, cause: str) -> None:
    assert list(causes(made)) == [cause]
    assert not made.passed
    first = next(iter(made.findings.values())).first
    assert first.sampled.custom_id == "a"
    assert first.ours is not None
    assert first.theirs is not None
    assert first.index is not None
    at = first.index - first.ours.start
    assert first.ours.ids[:at] == first.theirs.ids[:at]
    assert first.ours.ids[at : at + 1] != first.theirs.ids[at : at + 1]


@pytest.mark.parametrize(
    ("cause", "change"),
    [
        ("truncation", lambda ids: ids[3:]),
        ("bos", lambda ids: ids[1:]),
        ("bos", lambda ids: [0, *ids]),
        ("generation_prompt", lambda ids: ids[:-3]),
        ("tokenizer", lambda ids: [(i + 4000) % 8000 for i in ids]),
    ],
)
def test_wrong_ids(run: Run, serve: Serve, cause: str, change: Callable[[Any], Any]) -> None:
    url, stub = serve()

    def wrong(_: Body, answer: Body) -> None:
        answer["token_ids"] = change(answer["token_ids"])

    stub.change = wrong
    rows = one_chat("a few words that are not so few")
    check_finding(verified(run(rows=rows), url), cause)


@pytest.mark.parametrize(
    ("cause", "here", "there", "row"),
    [
        ("thinking", THINKING, THINKING, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("date", DATED, DATED, {}),
        ("tools", TOOLED, BARE, {"tools": TOOLS}),
        ("space", TEMPLATE, TEMPLATE.replace("<|end|>", " <|end|>"), {}),
        ("template", TEMPLATE, "Be kind to all who ask you.\n" + TEMPLATE, {}),
    ],
)
def test_servers_with_other_templates(
    run: Run, serve: Serve, cause: str, here: str, there: str, row: Body
) -> None:
    clock = datetime(2026, 2, 16, tzinfo=UTC)
    url, stub = serve(chat_template=there, clock=clock)
    if cause == "thinking":  # a server that knows nothing of the row's arguments
        stub.read = lambda body: {k: v for k, v in body.items() if k != "chat_template_kwargs"}
    rows = one_chat("a few words that are not so few", **row)
    check_finding(verified(run("--chat-template", here, rows=rows), url), cause)


@pytest.mark.parametrize("there", ["missing", "doubled"])
def test_another_number_of_bos(run: Run, serve: Serve, tiny_models: Path, there: str) -> None:
    bos = str(tiny_models / "bos")
    url, stub = serve(model=bos)

    def wrong(_: Body, answer: Body) -> None:
        ids = answer["token_ids"]
        answer["token_ids"] = ids[1:] if there == "missing" else [ids[0], *ids]

    stub.change = wrong
    rows = one_chat("hello there")
    check_finding(verified(run("--no-offsets", "--model", bos, rows=rows), url), "bos")


def test_offsets_are_compared(run: Run, serve: Serve) -> None:
    url, stub = serve()

    def wrong(_: Body, answer: Body) -> None:
        if answer["token_offsets"]:
            answer["token_offsets"][2][1] += 1

    stub.change = wrong
    made = verified(run(rows=one_chat()), url)
    assert causes(made) == {"offsets": 1}
    assert "offsets of id 2" in made.findings[next(iter(made.findings))].first.message


# --- media ---


def image_rows() -> list[Body]:
    url = {"type": "image_url", "image_url": {"url": "images/square.png"}}
    parts = [url, {"type": "text", "text": "what is it?"}]
    return [{"id": "a", "messages": [{"role": "user", "content": parts}]}]


def test_a_server_that_does_not_expand_media(run: Run, serve: Serve) -> None:
    url, _ = serve(media_ids="collapsed")
    check_finding(verified(run("--no-offsets", rows=image_rows()), url), "media_not_expanded")


def test_media_of_another_size(run: Run, serve: Serve) -> None:
    url, _ = serve(mm_processor_kwargs={"max_pixels": 28 * 28 * 4})
    check_finding(verified(run("--no-offsets", rows=image_rows()), url), "media_size")


@pytest.mark.parametrize("there", ["expanded", "collapsed"])
def test_collapsed_runs_go_with_both_kinds_of_servers(run: Run, serve: Serve, there: str) -> None:
    url, _ = serve(media_ids=there)
    made = verified(run("--media-ids", "collapsed", rows=image_rows()), url)
    assert (causes(made), made.equal) == ({}, 1)


# --- refusals ---


def test_a_prompt_that_the_server_refuses(run: Run, serve: Serve) -> None:
    url, _ = serve(max_model_len=8)
    made = verified(run(rows=one_chat("more words than eight ids can ever hold")), url)
    assert causes(made) == {"refused": 1}
    (finding,) = made.findings.values()
    assert finding.first.message.startswith("400: ")
    assert any("context is 8 ids and the run's 128" in note for note in made.notes)


def test_a_reject_that_the_server_takes(run: Run, serve: Serve) -> None:
    url, _ = serve(max_model_len=2048)
    made = verified(run(rows=one_chat("one two three " * 200)), url)
    assert causes(made) == {"accepted": 1}
    assert "prompt_too_long" in made.findings[next(iter(made.findings))].first.message


# --- servers in trouble ---


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_that_fails_for_a_while(run: Run, serve: Serve, status: int) -> None:
    url, stub = serve()
    output = run(rows=one_chat())
    verified(output, url)  # finds the endpoints
    stub.failures = [0, status, status]
    assert verified(output, url).passed
    assert stub.statuses[status] == 2


def test_a_row_on_which_the_server_fails(run: Run, serve: Serve) -> None:
    url, stub = serve()
    rows = [*one_chat(), {"id": "b", "prompt": "well"}]

    def fail(body: Body, _: Body) -> None:
        if "messages" in body:
            raise AssertionError

    stub.change = fail
    made = verified(run(rows=rows), url)
    assert causes(made) == {"server_error": 1}
    assert made.equal == 1
    assert stub.statuses[500] == 4  # patiently, and within bounds


def test_a_server_that_stays_busy(run: Run, serve: Serve) -> None:
    url, stub = serve()
    stub.failures = [503] * 50
    with pytest.raises(JobError, match="503 again and again"):
        verified(run(rows=one_chat()), url)
    assert stub.statuses[503] == 4


def test_a_server_that_is_too_slow(run: Run, serve: Serve) -> None:
    url, stub = serve()
    stub.delay = 2.0
    with pytest.raises(JobError, match=r"no answer in 0\.05 s"):
        verified(run(rows=one_chat()), url, timeout=0.05)


def test_no_server(run: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nothing listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(JobError, match=f"No server answers at {url}"):
            verified(run(rows=one_chat()), url)


def test_neither_endpoint(run: Run, serve: Serve) -> None:
    url, stub = serve()
    stub.paths -= {CHAT, COMPLETION, TOKENIZE}
    with pytest.raises(JobError, match="vllm launch render"):
        verified(run(rows=one_chat()), url)


def test_answers_that_are_no_prompts(run: Run, serve: Serve) -> None:
    url, stub = serve()
    stub.change = lambda _, answer: answer.pop("token_ids")
    made = verified(run(rows=one_chat()), url)
    assert causes(made) == {"server_error": 1}


def test_the_name_of_the_model(run: Run, serve: Serve) -> None:
    url, stub = serve()
    output = run(rows=one_chat())
    assert verified(output, f"{url}/v1/", model="demo").passed
    with pytest.raises(JobError, match="serves no model other; it has demo"):
        verified(output, url, model="other")
    stub.paths.discard("/v1/models")  # then the first question tells
    with pytest.raises(JobError, match="--served-model"):
        verified(output, url, model="other")


def test_keys(run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    url, stub = serve()
    stub.key = "s3cret"
    output = str(run(rows=one_chat()))
    words = ["verify", output, "--server", url, "--sample", "all"]
    refused = CliRunner().invoke(app, words)
    assert "PROMPTMILL_API_KEY" in str(refused.exception)
    monkeypatch.setenv("PROMPTMILL_API_KEY", "wr0ng")
    refused = CliRunner().invoke(app, words)
    assert "wr0ng" not in f"{refused.output}{refused.exception}"
    monkeypatch.setenv("PROMPTMILL_API_KEY", "s3cret")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "s3cret" not in done.output
    assert "s3cret" not in CliRunner().invoke(app, ["verify", "--help"]).output


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host", "http://", "http://a:b@host"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(JobError, match="--server"):
        Server(url)


# --- the command ---


def test_draws_are_the_same_for_the_same_seed(run: Run, serve: Serve) -> None:
    url, stub = serve()
    rows = [{"id": f"r{n}", "prompt": f"number {n}"} for n in range(40)]
    output = run(rows=rows)

    def drawn(seed: int) -> set[str]:
        stub.asked.clear()
        assert verified(output, url, 8, seed=seed).sampled == 8
        return {body["prompt"] for _, body in stub.asked if body["prompt"] != "a"}

    first = drawn(1)
    assert drawn(1) == first
    assert drawn(2) != first


def test_what_is_printed(run: Run, serve: Serve) -> None:
    url, stub = serve()
    output = str(run())
    words = ["verify", output, "--server", url, "--sample", "all"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "equal      8" in done.output
    stub.change = lambda _, answer: answer["token_ids"].insert(2, 7)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "from id 2" in done.output
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 1
    told = json.loads(done.output)
    assert told["different"] == sum(one["count"] for one in told["differences"]) == PROMPTS
    assert told["differences"][0]["first"]["theirs"]["ids"][2] == 7
    assert CliRunner().invoke(app, [*words[:-1], "some"]).exit_code == 2


def test_a_changed_input_is_not_compared(run: Run, serve: Serve) -> None:
    url, _ = serve()
    output = run(rows=one_chat("soon another text"))
    source = output.parent / "in.jsonl"
    source.write_text(source.read_text().replace("soon", "now"))
    with pytest.raises(JobError, match="not what the run read"):
        verified(output, url)
