"""Files and git of a conversation's own workspace, beside the routes for the whole machine, and its plugins."""

from pathlib import Path
from uuid import UUID

from openhands.sdk.workspace import RemoteWorkspace

from .common import converse, workspace


def run(context):
    conversation = converse(context)
    scratch = Path(context.settings["scratch"])
    whole = workspace(context)
    scoped = RemoteWorkspace(
        host=context.url,
        api_key=context.key,
        working_dir=context.directory,
        runtime_conversation_id=UUID(str(conversation.id)),
    )
    content = bytes(range(256)) * 10
    (scratch / "up.bin").write_bytes(content)
    transfers = []
    for name, place in (("whole", whole), ("scoped", scoped)):
        target = Path(context.directory) / f"{name}.bin"
        up = place.file_upload(scratch / "up.bin", target)
        down = place.file_download(target, scratch / f"{name}.down")
        transfers.append([up.success, down.success, (scratch / f"{name}.down").read_bytes() == content])
    outside = scoped.file_upload(scratch / "up.bin", scratch / "outside.bin")

    script = (
        "git init -q -b main . && git config user.email a@b.c && git config user.name a && rm -f *.bin"
        " && printf 'one\\n' >kept.txt && git add . && git commit -qm first && printf 'two\\n' >kept.txt"
    )
    made = whole.execute_command(script, cwd=context.directory)
    assert made.exit_code == 0, made
    changes = [[[c.status.value, str(c.path)] for c in place.git_changes(".")] for place in (whole, scoped)]
    diffs = [[d.original, d.modified] for d in (place.git_diff("kept.txt") for place in (whole, scoped))]
    try:
        scoped.git_changes("/")
        refused = ""
    except Exception as error:  # noqa: BLE001: its text is what the test reads
        refused = str(error)
    return {
        "id": str(conversation.id),
        "transfers": transfers,
        "outside": [outside.success, (scratch / "outside.bin").exists()],
        "changes": changes,
        "diffs": diffs,
        "refused": refused,
    }
