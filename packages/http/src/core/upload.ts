import type { IncomingMessage, ServerResponse } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import type { BusboyFileStream, BusboyInstance } from '@fastify/busboy'
import { invalidInput, Problem } from '@slipway/protocol'
import { ClientDisconnectedError, mediaType, readChunks, type StreamLimits } from './body.ts'
import type { Upload } from './handler.ts'

interface UploadLimits extends StreamLimits {
  /** Longest file. */
  readonly maxUploadBytes: number
}

/** The size of a form besides its file. */
const formOverheadBytes = 1024 * 1024
const maxParts = 1_000

/**
 * Reads the member `file` of a form (multipart/form-data); other members are discarded. Throws the Problems
 * `unsupported_media_type`, `too_large` and `invalid` (a malformed form, or none with such a member), and
 * `ClientDisconnectedError`.
 */
export async function readUpload(
  raw: IncomingMessage,
  res: ServerResponse,
  limits: UploadLimits,
): Promise<Upload> {
  const isPlain = (raw.headers['content-encoding'] ?? 'identity') === 'identity'
  const { 'content-type': type, 'content-length': length = '0', 'transfer-encoding': encoding } = raw.headers
  if (type === undefined || (length === '0' && encoding === undefined))
    throw invalidInput(['body', 'file'], 'Field required', 'missing')
  if (!isPlain || mediaType(raw) !== 'multipart/form-data') {
    throw new Problem('unsupported_media_type', 'The body should be multipart/form-data')
  }
  const form = new UploadForm(await createParser(raw.headers['content-type'] ?? ''), limits)
  res.once('close', () => form.discardRest())
  return await form.read(raw)
}

async function createParser(contentType: string): Promise<BusboyInstance> {
  const { Busboy } = await import('@fastify/busboy')
  try {
    return new Busboy({
      headers: { 'content-type': contentType },
      isPartAFile: (name) => name === 'file',
      limits: { fields: 0, parts: maxParts, headerSize: 16 * 1024 },
    })
  } catch {
    throw invalidForm()
  }
}

/**
 * Parses one form. Its own loop reads the form to the end, no faster than the file is consumed, so the file
 * ends only when the form is complete.
 */
class UploadForm {
  readonly #parser: BusboyInstance
  readonly #limits: UploadLimits
  readonly #upload = Promise.withResolvers<Upload>()
  #file: BusboyFileStream | undefined
  #failure: unknown
  #isDiscarding = false
  /** Ends the wait for the parser. */
  #wake = () => {}
  #reading = Promise.resolve()

  constructor(parser: BusboyInstance, limits: UploadLimits) {
    this.#parser = parser
    this.#limits = limits
    parser.on('error', () => this.#fail(invalidForm()))
    parser.on('file', (_name, file, filename) => this.#startFile(file, filename))
  }

  read(raw: IncomingMessage): Promise<Upload> {
    const onDisconnect = () => {
      if (!raw.readableEnded) this.#fail(new ClientDisconnectedError('The client went away'))
    }
    if (raw.destroyed) onDisconnect()
    raw.once('close', onDisconnect)
    this.#reading = this.#readAll(raw)
    return this.#upload.promise
  }

  /** Discards all further bytes. */
  discardRest(): void {
    this.#isDiscarding = true
    this.#wake()
  }

  #startFile(file: BusboyFileStream, filename: string | undefined): void {
    file.on('error', () => {})
    if (this.#file !== undefined || this.#isDiscarding) {
      file.resume()
      return
    }
    this.#file = file
    this.#upload.resolve({ filename: filename === '' ? undefined : filename, bytes: this.#bytes(file) })
  }

  async *#bytes(file: BusboyFileStream): AsyncGenerator<Buffer> {
    const { maxUploadBytes } = this.#limits
    let sizeBytes = 0
    try {
      for await (const chunk of file) {
        sizeBytes += chunk.length
        if (sizeBytes > maxUploadBytes) throw fileTooLarge(maxUploadBytes)
        yield chunk
      }
    } catch (error) {
      throw this.#failure ?? error
    } finally {
      if (!file.readableEnded) this.discardRest()
    }
    await this.#reading
    if (this.#failure !== undefined) throw this.#failure
  }

  async #readAll(raw: IncomingMessage): Promise<void> {
    const maxBytes = this.#limits.maxUploadBytes + formOverheadBytes
    try {
      if (Number(raw.headers['content-length'] ?? 0) > maxBytes)
        throw fileTooLarge(this.#limits.maxUploadBytes)
      let sizeBytes = 0
      for await (const chunk of readChunks(raw, this.#limits)) {
        sizeBytes += chunk.length
        if (sizeBytes > maxBytes) throw fileTooLarge(this.#limits.maxUploadBytes)
        if (!this.#isDiscarding) await this.#write(chunk)
      }
      this.#parser.end()
      // The parser reports a truncated form in the ticks after its end.
      await turn()
      if (this.#file === undefined) throw invalidInput(['body', 'file'], 'Field required', 'missing')
    } catch (error) {
      this.#fail(error)
    }
  }

  /** Resolves when the parser accepts more. */
  #write(chunk: Buffer): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wake = resolve
    this.#parser.write(chunk, () => resolve())
    return promise
  }

  #fail(error: unknown): void {
    this.#failure ??= error
    this.#upload.reject(this.#failure)
    this.#file?.destroy(new Error('The form is broken'))
    this.discardRest()
  }
}

function invalidForm(): Problem {
  return invalidInput(['body'], 'The body is not a valid form', 'multipart_invalid')
}

function fileTooLarge(maxBytes: number): Problem {
  return new Problem('too_large', `The file is longer than ${maxBytes} bytes`)
}
