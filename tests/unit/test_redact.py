"""Credentials never reach a log."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from promptmill.schemas.redact import HIDDEN, redacted

SECRET = "S3cr3t/not-for-you"


@pytest.mark.parametrize(
    "text",
    [
        f"s3://AKIA:{SECRET.replace('/', '%2F')}@bucket/key",
        f"s3://AKIAEXAMPLE:{SECRET}@bucket/key",
        f"https://host/a?X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}",
        f"https://host/a?x=1&X-Goog-Signature={SECRET}#part",
        f"https://host/blob?sv=2024&sig={SECRET}",
        f"https://host/?access_token={SECRET}",
        f"https://host/?AWSAccessKeyId={SECRET}&Expires=1",
        f"https://host/?api_key={SECRET}",
    ],
)
def test_secrets_of_urls_are_hidden(text: str) -> None:
    shown = redacted(f"cannot read '{text}' (403)")
    assert "S3cr3t" not in shown
    assert HIDDEN in shown
    assert shown.startswith("cannot read '")
    assert shown.endswith("(403)")


def test_hub_tokens_are_hidden() -> None:
    assert redacted("Authorization: hf_" + "a1" * 17) == f"Authorization: hf_{HIDDEN}"


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/a@b/key.jsonl",
        "https://host/a?page=2&sort=asc",
        "warning: a row mentions user@example.org and hf_hub",
        "/data/in.jsonl row 5: the prompt has 9 ids",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


@settings(deadline=None)
@given(st.text())
def test_it_takes_any_text_and_is_done_at_once(text: str) -> None:
    once = redacted(f"s3://{text}")
    assert redacted(once) == once
