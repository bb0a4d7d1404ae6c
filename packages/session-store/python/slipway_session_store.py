"""A ``SessionStore`` of the Claude Agent SDK (``claude-agent-sdk``) in a Slipway agent server."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Mapping

from anyio import to_thread

__all__ = ["SlipwaySessionStore"]


class SlipwaySessionStore:
    """Transcripts are conversations of the server, and each entry is an event of their logs.

    ``url`` is that of the agent server, such as ``http://127.0.0.1:8000``, ``api_key`` its session key,
    ``timeout`` the longest wait for a part of an answer, in seconds.
    """

    def __init__(self, url: str, api_key: str | None = None, *, timeout: float = 60) -> None:
        self._url = url.rstrip("/") + "/api/session-store"
        self._headers = {} if api_key is None else {"X-Session-API-Key": api_key}
        self._timeout = timeout
        self._opener = urllib.request.build_opener(_RefuseRedirects)

    async def append(self, key: Mapping[str, str], entries: list[Any]) -> None:
        """All entries are stored, in their order, or none. One whose ``uuid`` is stored is left out."""
        if entries:
            body = "\n".join(json.dumps(entry, allow_nan=False) for entry in entries)
            await self._call("POST", "entries", key, body.encode())

    async def load(self, key: Mapping[str, str]) -> list[Any] | None:
        """``None`` for a transcript without entries."""
        text = await self._call("GET", "entries", key)
        return [json.loads(line) for line in text.split(b"\n") if line] or None

    async def list_sessions(self, project_key: str) -> list[Any]:
        sessions = json.loads(await self._call("GET", "sessions", {"project_key": project_key}))
        return [{"session_id": one["session_id"], "mtime": one["mtime"]} for one in sessions]

    async def delete(self, key: Mapping[str, str]) -> None:
        """With its sub-agents, unless the key has a ``subpath``."""
        await self._call("DELETE", "entries", key)

    async def list_subkeys(self, key: Mapping[str, str]) -> list[str]:
        session = {name: key[name] for name in ("project_key", "session_id")}
        return json.loads(await self._call("GET", "subpaths", session))

    async def _call(
        self, method: str, path: str, key: Mapping[str, str], body: bytes | None = None
    ) -> bytes:
        address = f"{self._url}/{path}?{urllib.parse.urlencode(key)}"
        headers = {**self._headers, **({} if body is None else {"Content-Type": "application/x-ndjson"})}
        request = urllib.request.Request(address, data=body, headers=headers, method=method)

        def send() -> bytes:
            try:
                with self._opener.open(request, timeout=self._timeout) as answer:
                    return answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    text = error.read().decode(errors="replace")
                raise RuntimeError(f"Slipway answers {error.code} to {method} {path}: {text}") from None

        return await to_thread.run_sync(send)


class _RefuseRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would send the key elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        return None
