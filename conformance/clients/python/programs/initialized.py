"""A server that waits for its settings receives them and then serves a conversation."""

import httpx

from .common import converse, status, wait_until


def run(context):
    key = "python-delivered-key"
    waiting = httpx.get(f"{context.url}/ready", timeout=30).status_code
    state = httpx.get(f"{context.url}/api/init", timeout=30).json()
    refused = httpx.get(f"{context.url}/api/conversations/count", timeout=30).status_code
    wrong = httpx.post(f"{context.url}/api/init", json={}, headers={"X-Init-API-Key": "wrong"}, timeout=30).status_code
    done = httpx.post(
        f"{context.url}/api/init",
        json={"session_api_keys": [key]},
        headers={"X-Init-API-Key": context.settings["initKey"]},
        timeout=60,
    )
    assert done.status_code == 200, done.text
    wait_until(lambda: httpx.get(f"{context.url}/ready", timeout=30).status_code == 200, "readiness")
    second = httpx.post(
        f"{context.url}/api/init",
        json={"session_api_keys": ["other"]},
        headers={"X-Init-API-Key": context.settings["initKey"]},
        timeout=60,
    ).status_code
    context.key = key
    conversation = converse(context)
    try:
        conversation.send_message("Finish.")
        conversation.run(poll_interval=0.2)
        wait_until(lambda: status(conversation) == "finished", "the end of the run")
        return {"waiting": waiting, "state": state, "refused": refused, "wrong": wrong, "second": second}
    finally:
        conversation.close()
