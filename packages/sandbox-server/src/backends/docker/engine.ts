import { access } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { raceAbort } from '@slipway/shared/async'
import { errorCode } from '@slipway/shared/fs'
import type Dockerode from 'dockerode'

/** What an engine answers: a value, or that it does not do it, with its reason. No answer at all is an Error. */
export type EngineResponse<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly status: number; readonly reason: string }

export interface EngineRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Without a question mark; what stands in it is percent-encoded. */
  readonly path: string
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: object
  /** Sent as it is, in the place of a body. */
  readonly tar?: Buffer
  /** What may be waited for; the engine's limit for looking when absent. */
  readonly timeoutMs?: number
}

/** For making, starting and removing: a machine that is busy takes its time. */
export const longTimeoutMs = 120_000

/** Talks to the API of a container engine over its Unix socket: Docker's, or Podman's, which speaks the same one. */
export class Engine {
  readonly #configuredPath: string | undefined
  readonly #readTimeoutMs: number
  #opened: Promise<{ readonly docker: Dockerode; readonly socketPath: string }> | undefined

  /**
   * - `socketPath`: a path or `unix://` with one; undefined: the first of the usual sockets that is there
   * - `readLimitMs`: for looking, as an engine that works answers in milliseconds
   */
  constructor(socketPath?: string, readTimeoutMs = 10_000) {
    if (socketPath !== undefined && /^(?!unix:)[a-z+]+:\/\//i.test(socketPath)) {
      throw new Error(
        `The container engine is reached over a Unix socket, not at ${socketPath.replace(/\/\/.*/, '//…')}`,
      )
    }
    this.#readTimeoutMs = readTimeoutMs
    this.#configuredPath = socketPath?.replace(/^unix:\/\//i, '')
  }

  /** Rejects with an Error that names the socket when the engine is not there or does not answer in time. */
  async call<T>(call: EngineRequest): Promise<EngineResponse<T>> {
    const { docker, socketPath } = await this.#open()
    const timeoutMs = call.timeoutMs ?? this.#readTimeoutMs
    const signal = AbortSignal.timeout(timeoutMs)
    try {
      return await raceAbort(sendRequest<T>(docker, call, signal), signal)
    } catch (error) {
      // Another one may be found next time.
      this.#opened = undefined
      throw signal.aborted ? timeoutError(socketPath, timeoutMs, error) : unreachableError(socketPath, error)
    }
  }

  /** Like `call`, where only an answer of success makes sense. */
  async callOrThrow<T>(call: EngineRequest): Promise<T> {
    const answer = await this.call<T>(call)
    if (answer.ok) return answer.value
    throw new Error(
      `The container engine refused ${call.method} ${call.path} (${answer.status}): ${answer.reason}`,
    )
  }

  /** Fetches an image from its registry. False with a reason when that fails, also for want of time. */
  async pull(image: string, timeoutMs: number): Promise<EngineResponse<null>> {
    const { docker } = await this.#open()
    const signal = AbortSignal.timeout(timeoutMs)
    try {
      const stream = await raceAbort(docker.pull(image, { abortSignal: signal }), signal)
      await raceAbort(
        new Promise<void>((resolve, reject) => {
          docker.modem.followProgress(stream, (error, lines) => {
            const failure = error ?? lines.find((line) => line.error !== undefined)?.error
            return failure ? reject(failure) : resolve()
          })
        }),
        signal,
      )
      return { ok: true, value: null }
    } catch (error) {
      return toErrorResponse(error) ?? { ok: false, status: 0, reason: errorText(error) }
    }
  }

  #open(): Promise<{ readonly docker: Dockerode; readonly socketPath: string }> {
    this.#opened ??= this.#connect().catch((error) => {
      this.#opened = undefined
      throw error
    })
    return this.#opened
  }

  async #connect() {
    const socketPath = this.#configuredPath ?? (await findSocketPath())
    const { default: Docker } = await import('dockerode')
    // An empty host: without it DOCKER_HOST of the environment would win over the socket.
    return { docker: new Docker({ host: '', protocol: 'http', socketPath }), socketPath }
  }
}

/**
 * One request. The typed calls of the library are not used: they put everything that is sent into the address too, where the
 * engine logs it, and an order has secrets.
 */
function sendRequest<T>(
  docker: Dockerode,
  call: EngineRequest,
  signal: AbortSignal,
): Promise<EngineResponse<T>> {
  const request = {
    path: `${call.path}?`,
    method: call.method,
    options: { _query: call.query ?? {}, _body: call.body ?? {} },
    ...(call.tar === undefined ? {} : { file: call.tar }),
    abortSignal: signal,
    statusCodes: { 200: true, 201: true, 204: true, 304: true },
  }
  return new Promise((resolve, reject) => {
    docker.modem.dial(request, (error, value) => {
      // The one place where what an engine says gets a type: its API's.
      if (!error) return resolve({ ok: true, value: value as T })
      const answer = toErrorResponse(error)
      return answer === undefined ? reject(error) : resolve(answer)
    })
  })
}

function toErrorResponse(error: unknown): (EngineResponse<never> & { ok: false }) | undefined {
  if (!(error instanceof Error) || !('statusCode' in error) || typeof error.statusCode !== 'number') {
    return undefined
  }
  return { ok: false, status: error.statusCode, reason: errorText(error) }
}

/** The engine's own words in one line: the library puts its own before them. */
function errorText(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text
    .replace(/^\(HTTP code \d+\) .*? - /s, '')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, 1_000)
}

const timeoutError = (socketPath: string, timeoutMs: number, cause: unknown) =>
  new Error(
    `The container engine at ${socketPath} did not answer within ${timeoutMs / 1_000} s: look at its log, or restart it`,
    { cause },
  )

const unreachableError = (socketPath: string, cause: unknown) =>
  new Error(
    `The container engine at ${socketPath} is not reachable (${errorCode(cause) ?? errorText(cause)}): start Docker or Podman, or name the socket of one that runs`,
    { cause },
  )

/** Where Docker and Podman listen, the ones of the whole machine first, then those of this user alone. */
function defaultSocketPaths(): string[] {
  const ownDirectory = `/run/user/${process.getuid?.() ?? 0}`
  return [
    '/var/run/docker.sock',
    '/run/podman/podman.sock',
    join(ownDirectory, 'docker.sock'),
    join(ownDirectory, 'podman/podman.sock'),
    join(homedir(), '.docker/run/docker.sock'),
  ]
}

async function findSocketPath(): Promise<string> {
  const paths = defaultSocketPaths()
  for (const path of paths) {
    const isThere = await access(path).then(
      () => true,
      () => false,
    )
    if (isThere) return path
  }
  throw new Error(
    `No container engine was found at ${paths.join(', ')}: start Docker or Podman, or name its socket`,
  )
}
