"""Prints an image for `ctr images import`.

python3 image.py <name> <program>             with one file, which is started
python3 image.py <name> <layer.tar> <entry>   with the files of a tar
"""

import hashlib
import io
import json
import sys
import tarfile


def archive(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data, mode in files:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), mode
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


name, content, *entry = sys.argv[1:]
with open(content, "rb") as file:
    data = file.read()
layer = data if entry else archive([("program", data, 0o755)])
config = json.dumps(
    {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": entry or ["/program"], "User": "65535:65535", "Env": ["PATH=/usr/bin"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }
).encode()
manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
sys.stdout.buffer.write(
    archive([("config.json", config, 0o644), ("layer.tar", layer, 0o644), ("manifest.json", manifest, 0o644)])
)
