import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { LogFunction } from '@slipway/protocol'
import { errorCode, makeDirectory, writeFileAtomic } from '@slipway/shared/fs'
import type { Secret } from '@slipway/shared/redaction'

/** The first byte of what is sealed. */
export const sealedVersion = 1
const version = sealedVersion
const nonceBytes = 12
const tagBytes = 16
const keyBytes = 32
const nextStep =
  'Restore it from a backup: without it, stored secrets cannot be read. Moved away, the next start makes another key.'

/** Authenticated encryption (AES-256-GCM). Sealed bytes are version, nonce, tag and ciphertext. */
export class Cipher {
  /** The first key seals, all of them open. */
  readonly #keys: readonly [Buffer, ...Buffer[]]

  private constructor(keys: readonly [Buffer, ...Buffer[]]) {
    this.#keys = keys
  }

  /**
   * Derives the key from `secretKey`; without one reads or creates the file `secret.key` of the directory.
   * The file's key opens what it sealed as long as the file exists. Rejects for a key file that all users may
   * read or write, as one that came with a repository or an archive, and for a damaged one, because a new key
   * would open nothing. One process at a time uses the directory.
   */
  static async open(options: {
    readonly directory: string
    readonly secretKey: Secret | undefined
    readonly log?: LogFunction
  }): Promise<Cipher> {
    const { directory, secretKey, log = () => {} } = options
    const path = join(directory, 'secret.key')
    const storedKey = await readKeyFile(path, log)
    if (secretKey !== undefined)
      return new Cipher([deriveSealingKey(secretKey), ...(storedKey === undefined ? [] : [storedKey])])
    return new Cipher([storedKey ?? (await createKeyFile(directory, path))])
  }

  /** The keys as in key files, to redact them from output of tools. */
  get keyTexts(): readonly string[] {
    return this.#keys.flatMap((key) => [key.toString('base64'), key.toString('base64url')])
  }

  /** A key of 32 bytes for one purpose; stable while the sealing key is. */
  deriveKey(purpose: string): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#keys[0], '', `slipway ${purpose}`, keyBytes))
  }

  /** The text is well-formed Unicode. Each call uses a new nonce. */
  seal(text: string): Buffer {
    const nonce = randomBytes(nonceBytes)
    const head = Buffer.from([version])
    const cipher = createCipheriv('aes-256-gcm', this.#keys[0], nonce).setAAD(head)
    const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
    return Buffer.concat([head, nonce, cipher.getAuthTag(), body])
  }

  /** Undefined when the bytes were sealed with another key, or changed. */
  open(sealed: Buffer): string | undefined {
    if (sealed[0] !== version || sealed.length < 1 + nonceBytes + tagBytes) return undefined
    for (const key of this.#keys) {
      const text = decrypt(sealed, key)
      if (text !== undefined) return text
    }
    return undefined
  }
}

function decrypt(sealed: Buffer, key: Buffer): string | undefined {
  const tagAt = 1 + nonceBytes
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(1, tagAt), {
    authTagLength: tagBytes,
  })
  decipher.setAAD(sealed.subarray(0, 1)).setAuthTag(sealed.subarray(tagAt, tagAt + tagBytes))
  try {
    return Buffer.concat([decipher.update(sealed.subarray(tagAt + tagBytes)), decipher.final()]).toString(
      'utf8',
    )
  } catch {
    return undefined
  }
}

function deriveSealingKey(secretKey: Secret): Buffer {
  return Buffer.from(hkdfSync('sha256', secretKey.reveal(), '', 'slipway sealing key 1', keyBytes))
}

async function createKeyFile(directory: string, path: string): Promise<Buffer> {
  const key = randomBytes(keyBytes)
  await makeDirectory(directory, 0o700)
  await writeFileAtomic(path, `${key.toString('base64')}\n`)
  return key
}

async function readKeyFile(path: string, log: LogFunction): Promise<Buffer | undefined> {
  const text = await readKeyText(path)
  if (text === undefined) return undefined
  await restrictPermissions(path, log)
  // As people make keys: in either alphabet, with padding or without, on several lines.
  const digits = text
    .replace(/\s|=+\s*$/g, '')
    .replaceAll('-', '+')
    .replaceAll('_', '/')
  const key = Buffer.from(digits, 'base64')
  if (key.length !== keyBytes || key.toString('base64') !== `${digits}=`)
    throw new Error(`${path} is damaged: it does not contain a key. ${nextStep}`)
  return key
}

/** Undefined when there is none. A named pipe is read as an empty file instead of being waited for. */
async function readKeyText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, { encoding: 'utf8', flag: constants.O_RDONLY | constants.O_NONBLOCK })
  } catch (cause) {
    const code = errorCode(cause)
    if (code === 'ENOENT') return undefined
    throw new Error(`${path} cannot be read: the system says ${code}. ${nextStep}`, { cause })
  }
}

/** Kubernetes gives the files of a volume to a group (`fsGroup`) at each start: such a mode is restricted. */
async function restrictPermissions(path: string, log: LogFunction): Promise<void> {
  // Windows has no such bits.
  const mode = process.platform === 'win32' ? 0 : (await stat(path)).mode & 0o077
  if ((mode & 0o007) !== 0)
    throw new Error(
      `${path} may be read or written by every user of this machine, so others may know or have chosen the key. ` +
        `If it is your own, run "chmod 600 ${path}"; if it came with a repository or an archive, use another data directory.`,
    )
  if (mode === 0) return
  await chmod(path, 0o600)
  log('warn', 'the key file was readable by its group; its mode is 0600 now', { path })
}
