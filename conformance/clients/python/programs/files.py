"""Files, commands and git of a workspace."""

import os
import subprocess
import tempfile
from pathlib import Path

from .common import wait_until, workspace


def run(context):
    place = workspace(context)
    local = Path(tempfile.mkdtemp(dir=context.settings["scratch"]))
    content = bytes(range(256)) * 50
    (local / "up.bin").write_bytes(content)
    up = place.file_upload(local / "up.bin", Path(context.directory) / "sub" / "up.bin")
    assert up.success, up
    down = place.file_download(Path(context.directory) / "sub" / "up.bin", local / "down.bin")
    assert down.success and (local / "down.bin").read_bytes() == content, down
    missing = place.file_download(Path(context.directory) / "none", local / "none")
    failed = place.execute_command("echo out; echo err >&2; exit 3")
    elsewhere = place.execute_command("pwd", cwd=Path(context.directory) / "sub")
    long = place.execute_command("for i in $(seq 1 20000); do echo line-$i; done")
    late = place.execute_command("sleep 30", timeout=1)
    started = place.start_command("echo begun; sleep 60")
    stop = started if isinstance(started, str) else started.command_id
    place.stop_command(stop)
    wait_until(lambda: "BashOutput" in str(place.get_command_output(stop)), "the output of a stopped command")

    repository = Path(context.directory) / "repository"
    script = (
        "git init -q -b main repository && cd repository && git config user.email a@b.c && git config user.name a"
        " && printf 'one\\n' >kept.txt && git add . && git commit -qm first"
        " && printf 'two\\n' >kept.txt && printf 'new\\n' >new.txt"
    )
    made = place.execute_command(script, cwd=context.directory)
    assert made.exit_code == 0, made
    changes = place.git_changes(repository)
    diff = place.git_diff(repository / "kept.txt")
    return {
        "missing": missing.success,
        "failed": [failed.exit_code, failed.stdout, failed.stderr],
        "elsewhere": elsewhere.stdout.strip(),
        "lines": long.stdout.count("\n"),
        "late": [late.exit_code, late.timeout_occurred],
        "changes": sorted([str(change.status.value), str(change.path)] for change in changes),
        "diff": [diff.original, diff.modified],
        "alive": place.alive,
    }
