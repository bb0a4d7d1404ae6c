"""Secrets of a conversation and of the server: used by commands and never shown."""

import httpx
from pydantic import SecretStr

from openhands.sdk.secret.secrets import LookupSecret, StaticSecret

from .common import converse, observations, wait_until, status, workspace


def run(context):
    client = httpx.Client(base_url=context.url, headers={"X-Session-API-Key": context.key}, timeout=30)
    place = workspace(context)
    stored = {"name": "STORED_TOKEN", "value": "stored-canary-4711", "description": "Of the server"}
    assert client.put("/api/settings/secrets", json=stored).status_code == 200
    listed = client.get("/api/settings/secrets").json()["secrets"]
    assert client.get("/api/settings/secrets/STORED_TOKEN").text == stored["value"]
    invalid = [
        client.put("/api/settings/secrets", json={"name": name, "value": "x"}).status_code
        for name in ("1_digit", "with-hyphen", "")
    ]
    secrets = place.get_secrets()
    assert isinstance(secrets["STORED_TOKEN"], LookupSecret)
    conversation = converse(
        context,
        workspace=place,
        secrets={
            "PLAIN_TOKEN": "plain-canary-1234",
            "STATIC_TOKEN": StaticSecret(value=SecretStr("static-canary-5678")),
            "CALLED_TOKEN": lambda: "called-canary-9012",
            **secrets,
        },
    )
    try:
        conversation.send_message("Use the tokens.")
        conversation.run(poll_interval=0.2)
        wait_until(lambda: status(conversation) == "finished", "the end of the run")
        conversation.state.events.reconcile()
        text = str([event.model_dump(mode="json") for event in conversation.state.events])
        removed = client.delete("/api/settings/secrets/STORED_TOKEN").status_code
        return {
            "names": [secret["name"] for secret in listed],
            "invalid": invalid,
            "observations": observations(conversation),
            "leaks": [v for v in ("plain-canary-1234", "static-canary-5678", "called-canary-9012", stored["value"]) if v in text],
            "removed": [removed, client.get("/api/settings/secrets/STORED_TOKEN").status_code],
        }
    finally:
        conversation.close()
        client.close()
