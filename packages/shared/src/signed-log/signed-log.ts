import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign, verify } from 'node:crypto'

/**
 * A log as a file that others can check: JSON lines with a chain of digests, signed with Ed25519.
 *
 *     {"format":"slipway-verifiable-export","version":1,"conversation_id":…,
 *       "algorithm":"ed25519-sha256","public_key":…}            (in one line)
 *     {"position":1,"event":<the stored bytes>}
 *     …
 *     {"count":N,"digest":<hex>,"signature":<hex>}
 *
 * Every line ends with LF. The digest after the header is SHA-256 of `PREFIX header LF` and the line (without
 * its LF); after each event it is SHA-256 of `PREFIX event LF`, the 32 bytes of the digest before, and the
 * line. The signature is that of `PREFIX signature LF N LF DIGEST LF`. PREFIX is
 * `slipway-verifiable-export/1` and a space.
 *
 * Invariants: the three prefixes keep a digest of one place from being one of another; positions are 1, 2, 3
 * …, so a missing line is named; the last line has one spelling, so no byte of the file can change unseen.
 * The key in the header only shows that the file is unchanged since it was signed: whoever changes a file
 * can sign it with another key, so the signer is known by a key from elsewhere alone. A change of any of
 * this is a new version: `docs/verifiable-exports.md` and `examples/verify_export.py` say the same.
 */
const format = 'slipway-verifiable-export'
const version = 1
const algorithm = 'ed25519-sha256'
const prefix = `${format}/${version}`
const lineEnd = Buffer.from('\n')
const maxLineBytes = 128 * 1024 * 1024

/** An Ed25519 key as JSON: base64url without padding, as in a JWK. */
export interface SigningKey {
  readonly private_key: string
  readonly public_key: string
}

export function createSigningKey(): SigningKey {
  const { d = '', x = '' } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  return { private_key: d, public_key: x }
}

/** The public half as people copy it: 44 characters of base64. */
export function publicKeyText({ public_key }: Pick<SigningKey, 'public_key'>): string {
  return Buffer.from(public_key, 'base64url').toString('base64')
}

/** Whether a text is a public key as `publicKeyText` writes it. */
export function isPublicKeyText(text: string): boolean {
  const bytes = Buffer.from(text, 'base64')
  return bytes.length === 32 && bytes.toString('base64') === text
}

/** Makes the lines of one file, in order: the header, each event, the end. */
export class LogSigner {
  readonly #key: SigningKey
  #digest: Buffer
  #count = 0
  readonly header: Buffer

  constructor(key: SigningKey, conversationId: string) {
    this.#key = key
    const members = { format, version, conversation_id: conversationId, algorithm }
    const header = Buffer.from(JSON.stringify({ ...members, public_key: publicKeyText(key) }))
    this.#digest = headerDigest(header)
    this.header = Buffer.concat([header, lineEnd])
  }

  /** The line of the next event. Throws for bytes that are more than one line, and for a gap. */
  event(position: number, bytes: Buffer): Buffer {
    if (position !== this.#count + 1) throw new Error(`The event at position ${this.#count + 1} is missing`)
    if (bytes.includes(10)) throw new Error(`The event at position ${position} is not one line`)
    const line = Buffer.concat([eventStart(position), bytes, Buffer.from('}\n')])
    this.#digest = eventDigest(this.#digest, line.subarray(0, -1))
    this.#count = position
    return line
  }

  end(): Buffer {
    const { private_key: d, public_key: x } = this.#key
    const key = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d, x }, format: 'jwk' })
    const digest = this.#digest.toString('hex')
    const signature = sign(null, signedMessage(this.#count, digest), key).toString('hex')
    return Buffer.concat([endLine(this.#count, digest, signature), lineEnd])
  }
}

/** Why a file is refused. */
export class VerificationError extends Error {
  override readonly name = 'VerificationError'
}

export interface VerifiedLog {
  readonly conversation_id: string
  /** Events. */
  readonly count: number
  readonly digest: string
  /** The key that signed it. */
  readonly public_key: string
  /** Whether that is the expected key; otherwise anybody may have signed it. */
  readonly isSignerKnown: boolean
}

/**
 * Checks a file as it is read, holding one line. Throws a VerificationError for a file that is not as it was
 * signed, or that another key than `expectedKey` signed.
 */
export async function verifyLog(
  chunks: AsyncIterable<Buffer>,
  expectedKey: string | undefined,
): Promise<VerifiedLog> {
  let header: { readonly id: string; readonly publicKey: string } | undefined
  let digest: Buffer = Buffer.alloc(0)
  let count = 0
  let end: Buffer | undefined
  for await (const line of readLines(chunks)) {
    if (end !== undefined) throw new VerificationError('There are lines behind the signature.')
    if (header === undefined) {
      header = readHeader(line)
      digest = headerDigest(line)
    } else if (line.subarray(0, endStart.length).equals(endStart)) end = line
    else {
      assertPosition(line, count + 1)
      digest = eventDigest(digest, line)
      count += 1
    }
  }
  if (header === undefined) throw new VerificationError('The file is empty.')
  if (end === undefined) throw new VerificationError(`The file was cut after event ${count}: no signature.`)
  const { id: conversation_id, publicKey: public_key } = header
  assertSigned(end, { count, digest: digest.toString('hex'), public_key })
  if (expectedKey !== undefined && expectedKey !== public_key)
    throw new VerificationError(`Another key signed the file: ${public_key}.`)
  return {
    ...{ conversation_id, count, digest: digest.toString('hex'), public_key },
    isSignerKnown: expectedKey !== undefined,
  }
}

const endStart = Buffer.from('{"count":')
const eventStart = (position: number) => Buffer.from(`{"position":${position},"event":`)

function endLine(count: number, digest: string, signature: string): Buffer {
  return Buffer.from(JSON.stringify({ count, digest, signature }))
}

function headerDigest(line: Buffer): Buffer {
  return createHash('sha256').update(`${prefix} header\n`).update(line).digest()
}

function eventDigest(before: Buffer, line: Buffer): Buffer {
  return createHash('sha256').update(`${prefix} event\n`).update(before).update(line).digest()
}

function signedMessage(count: number, digest: string): Buffer {
  return Buffer.from(`${prefix} signature\n${count}\n${digest}\n`)
}

function readHeader(line: Buffer): { readonly id: string; readonly publicKey: string } {
  let value: Record<string, unknown>
  try {
    value = Object(JSON.parse(line.toString()))
  } catch {
    value = {}
  }
  const { conversation_id: id, public_key: publicKey } = value
  if (value.format !== format) throw new VerificationError('This is no verifiable export.')
  if (value.version !== version || value.algorithm !== algorithm)
    throw new VerificationError('The version of this file is not known here.')
  if (typeof id !== 'string' || typeof publicKey !== 'string' || !isPublicKeyText(publicKey))
    throw new VerificationError('Line 1 was changed.')
  return { id, publicKey }
}

function assertPosition(line: Buffer, expected: number): void {
  const start = eventStart(expected)
  if (line.subarray(0, start.length).equals(start) && line.at(-1) === 125) return
  throw new VerificationError(
    `Line ${expected + 1} was changed, is missing or is out of order: event ${expected} should be there.`,
  )
}

function assertSigned(
  line: Buffer,
  { count, digest, public_key }: Pick<VerifiedLog, 'count' | 'digest' | 'public_key'>,
): void {
  const signature = /"signature":"([0-9a-f]{128})"\}$/.exec(line.toString('latin1'))?.[1] ?? ''
  // Compared as a whole: no byte of it can change unseen.
  if (!endLine(count, digest, signature).equals(line))
    throw new VerificationError(
      'The digest of the events is another than the signed one: a line was changed.',
    )
  const x = Buffer.from(public_key, 'base64').toString('base64url')
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  if (!verify(null, signedMessage(count, digest), key, Buffer.from(signature, 'hex')))
    throw new VerificationError('The signature is not that of the key in the file.')
}

/** Lines without their LF, which the last one has too. */
async function* readLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let pieces: Buffer[] = []
  let heldBytes = 0
  for await (const chunk of chunks) {
    let start = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      yield Buffer.concat([...pieces, chunk.subarray(start, end)])
      pieces = []
      heldBytes = 0
      start = end + 1
    }
    pieces.push(chunk.subarray(start))
    heldBytes += chunk.length - start
    if (heldBytes > maxLineBytes) throw new VerificationError('A line is too long.')
  }
  if (heldBytes > 0) throw new VerificationError('The file was cut: its last line has no end.')
}
