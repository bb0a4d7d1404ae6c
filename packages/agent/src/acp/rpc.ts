import { isRecord, parseJson } from '@slipway/shared/json'
import type { LineProcess } from '../tools/mcp/line-process.ts'

/** An error that the other side answered. */
export class RpcError extends Error {
  override readonly name = 'RpcError'
  readonly code: number
  readonly data: unknown

  constructor(code: number, message: string, data?: unknown) {
    super(message)
    this.code = code
    this.data = data
  }
}

/** The program ended before it answered. */
export class ProgramEndedError extends Error {
  override readonly name = 'ProgramEndedError'
}

export interface RpcHandlers {
  /** The result of a request; a rejection is answered as an error. */
  onRequest(method: string, params: Readonly<Record<string, unknown>>): Promise<unknown>
  onNotification(method: string, params: Readonly<Record<string, unknown>>): void
}

const methodNotFound = -32601
const internalError = -32603

/** JSON-RPC 2.0 with a program, one message a line. Other lines of the program are ignored. */
export class RpcConnection {
  readonly #process: LineProcess
  readonly #pending = new Map<number, PromiseWithResolvers<unknown>>()
  readonly #handlers: RpcHandlers
  #nextId = 1

  constructor(process: LineProcess, handlers: RpcHandlers) {
    this.#process = process
    this.#handlers = handlers
    process.setListener((line) => this.#receive(line))
    process.ended.then(() => this.#rejectAll()).catch(() => undefined)
  }

  /** Rejects with RpcError, ProgramEndedError or the reason of the signal. */
  async request(
    method: string,
    params: object,
    signal?: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>>> {
    signal?.throwIfAborted()
    if (this.#process.endReason !== undefined) throw this.#endError()
    const id = this.#nextId++
    const answer = Promise.withResolvers<unknown>()
    this.#pending.set(id, answer)
    const onAbort = () => answer.reject(signal?.reason)
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      await Promise.race([
        this.#process.write(JSON.stringify({ jsonrpc: '2.0', id, method, params })),
        answer.promise,
      ])
      const result = await answer.promise
      return isRecord(result) ? result : {}
    } finally {
      this.#pending.delete(id)
      signal?.removeEventListener('abort', onAbort)
    }
  }

  async notify(method: string, params: object): Promise<void> {
    await this.#process.write(JSON.stringify({ jsonrpc: '2.0', method, params }))
  }

  #receive(line: string): void {
    const message = parseJson(line)
    if (!isRecord(message) || message.jsonrpc !== '2.0') return
    const { id, method } = message
    const params = isRecord(message.params) ? message.params : {}
    if (typeof method !== 'string') {
      if (typeof id === 'number') this.#settle(id, message)
    } else if (id === undefined || id === null) this.#handlers.onNotification(method, params)
    else void this.#answer(id, method, params)
  }

  #settle(id: number, { error, result }: Readonly<Record<string, unknown>>): void {
    const pending = this.#pending.get(id)
    if (isRecord(error)) {
      const code = typeof error.code === 'number' ? error.code : internalError
      pending?.reject(new RpcError(code, String(error.message ?? 'Unknown error'), error.data))
    } else pending?.resolve(result)
  }

  async #answer(id: unknown, method: string, params: Readonly<Record<string, unknown>>): Promise<void> {
    let answer: object
    try {
      answer = { result: await this.#handlers.onRequest(method, params) }
    } catch (error) {
      const code = error instanceof RpcError ? error.code : internalError
      answer = { error: { code, message: error instanceof RpcError ? error.message : 'Internal error' } }
    }
    await this.#process.write(JSON.stringify({ jsonrpc: '2.0', id, ...answer }))
  }

  #rejectAll(): void {
    const error = this.#endError()
    for (const { reject, promise } of this.#pending.values()) {
      promise.catch(() => undefined)
      reject(error)
    }
    this.#pending.clear()
  }

  #endError(): ProgramEndedError {
    const { endReason = 'it ended', lastOutput } = this.#process
    return new ProgramEndedError(
      lastOutput === '' ? endReason : `${endReason}. Its last output: ${lastOutput}`,
    )
  }
}

/** What is answered to a method that this side does not have. */
export function unknownMethod(method: string): RpcError {
  return new RpcError(methodNotFound, `Method not found: ${method}`)
}
