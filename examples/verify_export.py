"""Checks a verifiable export of Slipway with Python alone: verify_export.py FILE [PUBLIC_KEY]

Exit codes: 0 verified, 1 refused, 2 wrong usage, 4 unchanged but of an unknown signer. The rule is in
docs/verifiable-exports.md; the signature is checked as RFC 8032 says, section 5.1.7.
"""

import base64
import hashlib
import json
import re
import sys

PREFIX = b"slipway-verifiable-export/1 "
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def point(data):
    """The point of 32 bytes in extended coordinates."""
    y = int.from_bytes(data, "little") & ((1 << 255) - 1)
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P != 0:
        x = x * pow(2, (P - 1) // 4, P) % P
    if len(data) != 32 or y >= P or (x * x - square) % P != 0 or (x == 0 and data[31] >> 7):
        raise ValueError("This is no public key.")
    if x & 1 != data[31] >> 7:
        x = P - x
    return x, y, 1, x * y % P


def add(a, b):
    s, t = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    u, v = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = t - s, v - u, v + u, t + s
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiply(number, a):
    result = (0, 1, 1, 0)
    while number:
        if number & 1:
            result = add(result, a)
        a, number = add(a, a), number >> 1
    return result


BASE = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def is_signed(key, message, signature):
    s = int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little")
    left, right = multiply(s, BASE), add(point(signature[:32]), multiply(k % ORDER, point(key)))
    same = all((left[i] * right[2] - right[i] * left[2]) % P == 0 for i in (0, 1))
    return s < ORDER and same


def verify(lines):
    """The header and the number of events; a ValueError says why a file is refused."""
    digest, count, header, end = b"", 0, None, None
    for line in lines:
        if not line.endswith(b"\n") or end is not None:
            raise ValueError("The file was cut, or has lines behind the signature.")
        line = line[:-1]
        if header is None:
            header = json.loads(line)
            if header.get("format") != "slipway-verifiable-export" or header.get("version") != 1:
                raise ValueError("This is no verifiable export of version 1.")
            digest = hashlib.sha256(PREFIX + b"header\n" + line).digest()
        elif line.startswith(b'{"count":'):
            end = line
        elif line.startswith(b'{"position":%d,"event":' % (count + 1)) and line.endswith(b"}"):
            count += 1
            digest = hashlib.sha256(PREFIX + b"event\n" + digest + line).digest()
        else:
            raise ValueError(f"Event {count + 1} was changed, is missing or is out of order.")
    start = f'{{"count":{count},"digest":"{digest.hex()}","signature":"'.encode()
    if end is None or not re.fullmatch(re.escape(start) + rb'[0-9a-f]{128}"\}', end):
        raise ValueError("The end was cut, or the digest of the events is another than the signed one.")
    message = PREFIX + b"signature\n%d\n%s\n" % (count, digest.hex().encode())
    if not is_signed(base64.b64decode(header["public_key"]), message, bytes.fromhex(end[-130:-2].decode())):
        raise ValueError("The signature is not that of the key in the file.")
    return header, count


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(print(__doc__) or 2)
    try:
        with open(sys.argv[1], "rb") as file:
            found, total = verify(file)
        if len(sys.argv) == 3 and found["public_key"] != sys.argv[2]:
            raise ValueError(f"Another key signed the file: {found['public_key']}.")
    except (ValueError, LookupError, AttributeError, OSError) as error:
        sys.exit(f"Refused: {error}")
    print(f"{'Verified' if len(sys.argv) == 3 else 'Unchanged, signer unknown'}: {total} events")
    sys.exit(0 if len(sys.argv) == 3 else 4)
