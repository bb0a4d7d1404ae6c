import { mkdtemp, rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, test } from 'vitest'
import { AgentDriver, type ConversationInfo, finishStep, scriptedModel } from '../support/agent-driver.ts'
import { startAgentServer } from '../support/agent-server.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'
import type { RequirementId } from './requirements.ts'

/**
 * The wire suite: the requests of existing clients, case by case. Its only inputs are `SLIPWAY_URL` and
 * `SLIPWAY_SESSION_API_KEY`; without a URL it starts the working tree with a key. It assumes of an external
 * server that it listens on loopback of this machine or forwards to one, that tools may write below the
 * temporary folder, that the scripted model is there, that pages of `pageOrigins` may call, and that no other
 * client changes its settings
 * meanwhile: then run it with `--no-file-parallelism`. It restores what it changes.
 */
export const sessionKey =
  process.env.SLIPWAY_URL === undefined ? 'wire-key-1' : process.env.SLIPWAY_SESSION_API_KEY

/** Origins of web pages on other ports; an external server names them in its `SLIPWAY_ALLOWED_ORIGINS`. */
export const pageOrigins = ['http://localhost:3001', 'http://127.0.0.1:8080'] as const

/** A case of a row. Its name begins with the row, so a report can be read row by row. */
export function wireCase(requirement: RequirementId, promise: string, run: () => Promise<void>): void {
  test(`[${requirement}] ${promise}`, { timeout: 40_000 }, run)
}

/** A case about keys: skipped with an external server without keys. */
export function wireCaseWithKey(
  requirement: RequirementId,
  promise: string,
  run: (key: string) => Promise<void>,
): void {
  test.skipIf(sessionKey === undefined)(`[${requirement}] ${promise}`, { timeout: 40_000 }, () =>
    run(String(sessionKey)),
  )
}

export interface WireResponse<T = unknown> {
  readonly status: number
  /** Parsed JSON where the content type is JSON, otherwise text. */
  readonly body: T
  readonly type: string
  readonly headers: Headers
}

export interface RequestOptions {
  readonly body?: unknown
  readonly query?: Readonly<Record<string, string>> | string
  readonly headers?: Readonly<Record<string, string>>
  /** Without the key. */
  readonly isAnonymous?: boolean
}

/** The server of a file of cases, open while they run. */
export class WireServer {
  url = ''
  /** An empty folder on the server's machine. */
  directory = ''
  #stop: () => Promise<void> = async () => {}

  get headers(): Record<string, string> {
    return sessionKey === undefined ? {} : { 'x-session-api-key': sessionKey }
  }

  get driver(): AgentDriver {
    return new AgentDriver({ api: new AgentServerApi(this), directory: this.directory })
  }

  async open(): Promise<void> {
    const { SLIPWAY_URL } = process.env
    if (SLIPWAY_URL !== undefined) this.url = SLIPWAY_URL.replace(/\/$/, '')
    else {
      const data = await mkdtemp(join(tmpdir(), 'slipway-wire-data-'))
      const home = await mkdtemp(join(tmpdir(), 'slipway-wire-home-'))
      const server = await startAgentServer(data, {
        SLIPWAY_SESSION_API_KEY: String(sessionKey),
        SLIPWAY_ALLOWED_ORIGINS: pageOrigins.join(','),
        HOME: home,
      })
      this.url = server.url
      this.#stop = async () => {
        await server.stop()
        for (const path of [data, home]) await rm(path, { recursive: true, force: true })
      }
    }
    this.directory = (await this.runCommand('mktemp -d -t slipway-wire-XXXXXX')).trim()
  }

  async close(): Promise<void> {
    if (this.directory !== '') await this.runCommand(`rm -rf '${this.directory}'`)
    await this.#stop()
  }

  /**
   * Sends a request like the published clients: with a JSON content type also without a body; parses the
   * reply by its content type.
   */
  async request<T = unknown>(
    method: string,
    path: string,
    options: RequestOptions = {},
  ): Promise<WireResponse<T>> {
    const { body, query, headers, isAnonymous = false } = options
    const search =
      query === undefined ? '' : `?${typeof query === 'string' ? query : new URLSearchParams(query)}`
    const isForm = body instanceof FormData
    const response = await fetch(`${this.url}${path}${search}`, {
      method,
      headers: {
        ...(isForm ? {} : { 'content-type': 'application/json' }),
        ...(isAnonymous ? {} : this.headers),
        ...headers,
      },
      redirect: 'manual',
      ...(body === undefined
        ? {}
        : { body: isForm || typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const type = response.headers.get('content-type') ?? ''
    const text = await response.text()
    const value = type.includes('application/json') ? JSON.parse(text) : text
    return { status: response.status, body: value, type, headers: response.headers }
  }

  /** A GET with a JSON body, which fetch does not send. */
  async getWithBody(path: string, value: unknown): Promise<{ status: number; body: unknown }> {
    const content = JSON.stringify(value)
    const headers = {
      ...this.headers,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(content),
    }
    const response = await new Promise<IncomingMessage>((done, fail) => {
      const call = request(`${this.url}${path}`, { method: 'GET', headers }, done)
      call.on('error', fail)
      call.end(content)
    })
    const chunks: Buffer[] = []
    for await (const chunk of response) chunks.push(chunk)
    return { status: response.statusCode ?? 0, body: JSON.parse(Buffer.concat(chunks).toString()) }
  }

  /** The body of a reply; throws when the status is not 2xx. */
  async requestOrThrow<T = Json>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const { status, body } = await this.request<T>(method, path, options)
    if (status < 200 || status > 299) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(body)}`)
    return body
  }

  async requestStatus(method: string, path: string, options: RequestOptions = {}): Promise<number> {
    return (await this.request(method, path, options)).status
  }

  /** The output of a command on the server's machine; throws when it fails. */
  async runCommand(command: string): Promise<string> {
    const body = await this.requestOrThrow<{
      exit_code: number
      stdout: string | null
      stderr: string | null
    }>('POST', '/api/bash/execute_bash_command', { body: { command, timeout: 50 } })
    if (body.exit_code !== 0) throw new Error(`${command}: ${body.exit_code} ${body.stderr}`)
    return body.stdout ?? ''
  }

  /** Creates a conversation and runs the script to its end. */
  async createFinished(
    script: readonly unknown[] = [finishStep('Done.')],
    more: object = {},
  ): Promise<ConversationInfo> {
    const info = await this.driver.createScripted(script, more)
    await this.driver.waitUntilIdle(info.id)
    return info
  }

  /** Creates a conversation without a run. */
  async createIdle(
    script: readonly unknown[] = [finishStep('Done.')],
    more: object = {},
  ): Promise<ConversationInfo> {
    return await this.driver.create({ llm: scriptedModel(script) }, more)
  }

  upload(path: string, content: string | Uint8Array<ArrayBuffer>): Promise<WireResponse> {
    const body = new FormData()
    body.append('file', new Blob([content]), 'any')
    return this.request('POST', '/api/file/upload', { query: { path }, body })
  }
}

/** A JSON object of which a case reads some members. */
export type Json = Readonly<Record<string, unknown>>

export const unknownId = '00000000-0000-4000-8000-000000000000'

/** Opens the server before the first case of a file and closes it after the last. */
export function openWireServer(): WireServer {
  const wire = new WireServer()
  beforeAll(() => wire.open(), 60_000)
  afterAll(() => wire.close(), 60_000)
  return wire
}

/** Shell commands that create a repository: one commit with `tracked.txt`. */
export function makeRepositoryCommand(path: string): string {
  const git = `git -C '${path}' -c user.name=t -c user.email=t@localhost -c commit.gpgsign=false`
  return `mkdir -p '${path}' && git init -q '${path}' && printf 'one\\n' > '${path}/tracked.txt' && ${git} add . && ${git} commit -qm first`
}
