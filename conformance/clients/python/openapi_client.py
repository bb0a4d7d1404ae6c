"""Validates both OpenAPI documents, generates a client of each, imports all of it and makes calls.

Arguments: the folder of the documents, an empty folder, the address of an agent server, a conversation with events.
"""

import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

documents, folder, url, conversation_id = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]

from openapi_spec_validator import validate

modules = 0
sys.path.insert(0, str(folder))
for name in ("agent-server", "sandbox-server"):
    document = documents / f"{name}.json"
    validate(json.loads(document.read_text()))
    package = name.replace("-", "_")
    generator = Path(sys.executable).parent / "openapi-python-client"
    subprocess.run(
        [generator, "generate", "--path", document, "--output-path", folder / package, "--meta", "none"],
        check=False,  # warnings about single schemas end it with 1
        capture_output=True,
        cwd=folder,
    )
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        importlib.import_module(module.name)
        modules += 1

from uuid import UUID

from agent_server import Client
from agent_server.api.conversations import get_conversation, search_conversations
from agent_server.api.events import count_events, search_events
from agent_server.api.health import server_info

client = Client(base_url=url, raise_on_unexpected_status=True)
conversation = UUID(conversation_id)
page = search_events.sync(conversation, client=client, limit=100)
print(
    json.dumps(
        {
            "modules": modules,
            "version": server_info.sync(client=client).version,
            "conversations": len(search_conversations.sync(client=client).items),
            "id": str(get_conversation.sync(conversation, client=client).id),
            "count": count_events.sync(conversation, client=client),
            "kinds": [type(event).__name__ for event in page.items],
        }
    )
)
