"""Runs the conformance suite of the Claude Agent SDK against a server: session_store.py URL KEY."""

import sys
from pathlib import Path

import anyio
from claude_agent_sdk.testing import run_session_store_conformance

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "packages/session-store/python"))
from slipway_session_store import SlipwaySessionStore  # noqa: E402

_, url, key = sys.argv
made = 0


async def make_store() -> SlipwaySessionStore:
    """Each contract begins with an empty store."""
    global made
    made += 1
    store = SlipwaySessionStore(url, key)
    for project in ("proj", "A", "B", "other", "other-proj"):
        for session in await store.list_sessions(project):
            await store.delete({"project_key": project, "session_id": session["session_id"]})
    return store


async def main() -> None:
    await run_session_store_conformance(make_store)
    print("stores", made)
    store = await make_store()
    # What the numbers and texts of Python can be.
    entries = [{"type": "x", "uuid": "u", "n": 2**80, "s": "\ud800\0", "__proto__": {"a": [1.0, None]}}]
    odd = {"project_key": "proj", "session_id": "sess", "subpath": "ä/&?= %2F"}
    await store.append(odd, entries)
    await store.append(odd, entries)
    assert await store.load(odd) == entries
    assert await store.list_subkeys({"project_key": "proj", "session_id": "sess"}) == [odd["subpath"]]
    refused = SlipwaySessionStore(url, "wrong")
    try:
        await refused.load(odd)
    except RuntimeError as error:
        assert "401" in str(error) and "wrong" not in str(error), error
    else:
        raise AssertionError("a wrong key is taken")


anyio.run(main)
