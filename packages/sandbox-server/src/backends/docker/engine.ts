import { homedir } from 'node:os'
import { join } from 'node:path'
import { raceAbort } from '@slipway/shared/async'
import { errorCode, exists } from '@slipway/shared/fs'
import { errorText, firstChars } from '@slipway/shared/text'
import type Dockerode from 'dockerode'

/** An answer of an engine: a value, or a refusal with its reason. No answer is an Error. */
export type EngineResponse<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly status: number; readonly reason: string }

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

interface EngineInput {
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: object
  /** Sent in place of a body. */
  readonly tar?: Buffer
}

/** For creating, starting and removing, which are slow on a busy machine. */
const changeTimeoutMs = 120_000

/** Talks to the API of Docker or Podman over its Unix socket. */
export class Engine {
  readonly #configuredPath: string | undefined
  readonly #readTimeoutMs: number
  #opened: Promise<{ readonly docker: Dockerode; readonly socketPath: string }> | undefined

  /**
   * - `socketPath`: a path or `unix://` with one; undefined: the first default socket that exists
   * - `readTimeoutMs`: for GET requests, which a working engine answers in milliseconds
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

  /** Rejects with an Error that names the socket when the engine does not answer in time. */
  async call<T>(method: Method, path: string, input: EngineInput = {}): Promise<EngineResponse<T>> {
    const { docker, socketPath } = await this.#open()
    const timeoutMs = method === 'GET' ? this.#readTimeoutMs : changeTimeoutMs
    const signal = AbortSignal.timeout(timeoutMs)
    try {
      return await raceAbort(sendRequest<T>(docker, { method, path, ...input }, signal), signal)
    } catch (cause) {
      // Next time another socket may exist.
      this.#opened = undefined
      const problem = signal.aborted
        ? `did not answer within ${timeoutMs / 1_000} s: look at its log, or restart it`
        : `is not reachable (${errorCode(cause) ?? engineText(cause)}): start Docker or Podman, or name the socket of one that runs`
      throw new Error(`The container engine at ${socketPath} ${problem}`, { cause })
    }
  }

  /** Like `call`, but rejects also when the engine refuses. */
  async callOrThrow<T>(method: Method, path: string, input?: EngineInput): Promise<T> {
    const answer = await this.call<T>(method, path, input)
    if (answer.ok) return answer.value
    throw new Error(`The container engine refused ${method} ${path} (${answer.status}): ${answer.reason}`)
  }

  /** Pulls an image from its registry. Returns why that failed, also after the time. */
  async pull(image: string, timeoutMs: number): Promise<string | undefined> {
    const { docker } = await this.#open()
    const signal = AbortSignal.timeout(timeoutMs)
    try {
      const stream = await raceAbort(docker.pull(image, { abortSignal: signal }), signal)
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      docker.modem.followProgress(stream, (error, lines) => {
        const failure = error ?? lines.find((line) => line.error !== undefined)?.error
        return failure ? reject(failure) : resolve()
      })
      await raceAbort(promise, signal)
      return undefined
    } catch (error) {
      return engineText(error)
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
    // Without an empty host, DOCKER_HOST of the environment would replace the socket.
    return { docker: new Docker({ host: '', protocol: 'http', socketPath }), socketPath }
  }
}

/** The typed calls of the library put the body into the URL too, where the engine logs it. */
async function sendRequest<T>(
  docker: Dockerode,
  {
    path,
    method,
    query = {},
    body = {},
    tar,
  }: EngineInput & { readonly method: Method; readonly path: string },
  abortSignal: AbortSignal,
): Promise<EngineResponse<T>> {
  const { promise, resolve, reject } = Promise.withResolvers<EngineResponse<T>>()
  const request = {
    path: `${path}?`,
    method,
    options: { _query: query, _body: body },
    ...(tar === undefined ? {} : { file: tar }),
    abortSignal,
    statusCodes: { 200: true, 201: true, 204: true, 304: true },
  }
  docker.modem.dial(request, (error, value) => {
    // The only cast of an answer to the types of the API.
    if (!error) return resolve({ ok: true, value: value as T })
    const isRefusal = error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
    return isRefusal
      ? resolve({ ok: false, status: Number(error.statusCode), reason: engineText(error) })
      : reject(error)
  })
  return await promise
}

/** The message of the engine in one line, without the prefix of the library. */
function engineText(error: unknown): string {
  const text = errorText(error).replace(/^\(HTTP code \d+\) .*? - /s, '')
  return firstChars(text.replace(/\s+/g, ' ').trim(), 1_000)
}

async function findSocketPath(): Promise<string> {
  const userDirectory = `/run/user/${process.getuid?.() ?? 0}`
  const paths = [
    '/var/run/docker.sock',
    '/run/podman/podman.sock',
    join(userDirectory, 'docker.sock'),
    join(userDirectory, 'podman/podman.sock'),
    join(homedir(), '.docker/run/docker.sock'),
  ]
  for (const path of paths) if (await exists(path)) return path
  throw new Error(
    `No container engine was found at ${paths.join(', ')}: start Docker or Podman, or name its socket`,
  )
}
