/**
 * SHA-256 (FIPS 180-4) of a text in UTF-8, in hexadecimal digits. The one of browsers exists only on pages of
 * HTTPS and loopback; the console is also read over plain HTTP in a local network.
 */
export function sha256(text: string): string {
  const state = Int32Array.from(primes.slice(0, 8), (prime) => fraction(prime, 1 / 2))
  const blocks = paddedBlocks(text)
  const schedule = new Int32Array(64)
  for (let start = 0; start < blocks.byteLength; start += 64) {
    for (let at = 0; at < 16; at++) schedule[at] = blocks.getInt32(start + 4 * at)
    addBlock(state, schedule)
  }
  return Array.from(state, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('')
}

const primes = Array.from({ length: 312 }, (_, n) => n).filter(
  (n) => n > 1 && Array.from({ length: n - 2 }, (_, less) => less + 2).every((less) => n % less !== 0),
)
/** The first 32 bits of the fraction of a root. */
const fraction = (prime: number, power: number) => ((prime ** power % 1) * 2 ** 32) | 0
const constants = Int32Array.from(primes.slice(0, 64), (prime) => fraction(prime, 1 / 3))

/** The text, a bit, zeros, and its length in bits, in blocks of 64 bytes. */
function paddedBlocks(text: string): DataView {
  const bytes = new TextEncoder().encode(text)
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64)
  padded.set(bytes)
  padded[bytes.length] = 0x80
  const view = new DataView(padded.buffer)
  view.setUint32(padded.length - 8, Math.floor((bytes.length * 8) / 2 ** 32))
  view.setUint32(padded.length - 4, bytes.length * 8)
  return view
}

const rotate = (word: number, bits: number) => (word >>> bits) | (word << (32 - bits))

function addBlock(state: Int32Array, schedule: Int32Array): void {
  const word = (words: Int32Array, at: number) => words[at] ?? 0
  for (let at = 16; at < 64; at++) {
    const early = word(schedule, at - 15)
    const late = word(schedule, at - 2)
    const first = rotate(early, 7) ^ rotate(early, 18) ^ (early >>> 3)
    const second = rotate(late, 17) ^ rotate(late, 19) ^ (late >>> 10)
    schedule[at] = word(schedule, at - 16) + first + word(schedule, at - 7) + second
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state
  for (let at = 0; at < 64; at++) {
    const sum = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)
    const one = h + sum + ((e & f) ^ (~e & g)) + word(constants, at) + word(schedule, at)
    const two = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))
    h = g
    g = f
    f = e
    e = (d + one) | 0
    d = c
    c = b
    b = a
    a = (one + two) | 0
  }
  const end = [a, b, c, d, e, f, g, h]
  for (let at = 0; at < 8; at++) state[at] = word(state, at) + (end[at] ?? 0)
}
