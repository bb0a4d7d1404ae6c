"""The OpenAI client of the SDK's own dependencies speaks to an agent behind `/v1`."""

import httpx
from openai import OpenAI


def run(context):
    headers = {"X-Session-API-Key": context.key}
    profile = {
        "llm": {
            "model": "openai/gpt-4o",
            "api_key": "sk-gateway-canary",
            "base_url": f"{context.model_url}/v1",
            "num_retries": 0,
        },
        "include_secrets": True,
    }
    saved = httpx.post(f"{context.url}/api/profiles/python", json=profile, headers=headers, timeout=30)
    assert saved.status_code in (200, 201), saved.text
    client = OpenAI(base_url=f"{context.url}/v1", api_key=context.key, max_retries=0, timeout=60)
    models = [one.id for one in client.models.list().data]
    messages = [{"role": "user", "content": "Say hello."}]
    whole = client.chat.completions.create(model="openhands_python", messages=messages)
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in client.chat.completions.create(model="openhands_python", messages=messages, stream=True)
        if chunk.choices
    ]
    return {
        "models": models,
        "whole": whole.choices[0].message.content,
        "streamed": "".join(pieces),
        "finish": whole.choices[0].finish_reason,
    }
