import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { must } from '@slipway/protocol'
import type { BenchContext } from './fixtures.ts'
import { type Program, startProgram } from './processes.ts'

const sandboxServerMain = fileURLToPath(new URL('../../packages/sandbox-server/src/main.js', import.meta.url))
const key = 'sk-of-the-administrator'
/** A step that takes longer than this hangs. */
const timeoutMs = 180_000
const pollMs = 10

/** The members of a sandbox, as the API returns it, that are used here. */
export interface SandboxInfo {
  readonly id: string
  readonly status: string
  readonly status_detail?: string | null
  readonly session_api_key: string | null
  readonly exposed_urls: readonly { readonly name: string; readonly url: string }[] | null
}

/** A sandbox server in its own process, called through its API. All of its sandboxes end with it. */
export class ControlPlane implements AsyncDisposable {
  readonly data: string
  readonly #env: Readonly<Record<string, string>>
  #program: Program
  #url: string

  private constructor(data: string, env: Readonly<Record<string, string>>, program: Program) {
    this.data = data
    this.#env = env
    this.#program = program
    this.#url = serverUrl(program)
  }

  /** `env`: its settings, named `SLIPWAY_*`. */
  static async open(bench: BenchContext, env: Readonly<Record<string, string>>): Promise<ControlPlane> {
    const data = await bench.directory()
    return new ControlPlane(data, env, await start(data, env))
  }

  get pid(): number {
    return this.#program.pid
  }

  get cpuSeconds(): number {
    return this.#program.cpuSeconds()
  }

  /** Requests a sandbox; resolves when its start is under way. */
  startSandbox(query = ''): Promise<SandboxInfo> {
    return this.#call<SandboxInfo>('POST', `/api/v1/sandboxes${query}`)
  }

  /** Resolves when it runs: at once from the warm pool. */
  async startRunningSandbox(): Promise<SandboxInfo> {
    const box = await this.startSandbox()
    return box.status === 'RUNNING' ? box : await this.waitForStatus(box.id, 'RUNNING')
  }

  /** Resolves when the command has ended. */
  async runCommand({ exposed_urls, session_api_key }: SandboxInfo, command: string): Promise<void> {
    const { url } = must(
      exposed_urls?.find(({ name }) => name === 'AGENT_SERVER'),
      'an address',
    )
    const response = await fetch(`${url}/api/bash/execute_bash_command`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-session-api-key': session_api_key ?? '' },
      body: JSON.stringify({ command }),
    })
    await response.arrayBuffer()
    if (!response.ok) throw new Error(`a command is answered with ${response.status}`)
  }

  /** Polls every few milliseconds; rejects when the sandbox reaches another final state. */
  async waitForStatus(id: string, status: string): Promise<SandboxInfo> {
    const deadline = performance.now() + timeoutMs
    for (;;) {
      const [box] = await this.#call<(SandboxInfo | null)[]>('GET', `/api/v1/sandboxes?id=${id}`)
      if (box?.status === status) return box
      if (box?.status === 'ERROR' || performance.now() > deadline)
        throw new Error(`a sandbox is not ${status}: ${JSON.stringify(box)}`)
      await sleep(pollMs)
    }
  }

  /** Duration of one request for a sandbox, in milliseconds. */
  async measureGet(id: string): Promise<number> {
    const startedAt = performance.now()
    await this.#call('GET', `/api/v1/sandboxes?id=${id}`)
    return performance.now() - startedAt
  }

  async pause(id: string): Promise<void> {
    await this.#call('POST', `/api/v1/sandboxes/${id}/pause`)
  }

  async resume(id: string): Promise<void> {
    await this.#call('POST', `/api/v1/sandboxes/${id}/resume`)
  }

  /** Resolves when nothing is left of the sandbox. */
  async deleteSandbox(id: string): Promise<void> {
    await this.#call('DELETE', `/api/v1/sandboxes/${id}`)
    await this.#waitFor(() => this.#countSandboxes('WHERE id = ?', id) === 0, `${id} is gone`)
  }

  /** Resolves when this many sandboxes of the warm pool are ready. */
  async waitForWarmPool(count: number): Promise<void> {
    const isReady = () => this.#countSandboxes("WHERE owner IS NULL AND status = 'RUNNING'") === count
    await this.#waitFor(isReady, 'the pool is full')
  }

  /** The process backend's record of a sandbox: its control groups. */
  cgroups(id: string): readonly string[] {
    return readCgroups(join(this.data, 'sandboxes', id))
  }

  /** Removes all sandboxes, those of the pool too, and stops the server. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#program[Symbol.asyncDispose]()
    // Without a pool, so that no new sandbox starts.
    this.#program = await start(this.data, {
      ...this.#env,
      SLIPWAY_WARM_POOL: '0',
      SLIPWAY_RECONCILE_SECONDS: '1',
    })
    this.#url = serverUrl(this.#program)
    for (let items: SandboxInfo[] = []; ; ) {
      ;({ items } = await this.#call<{ items: SandboxInfo[] }>('GET', '/api/v1/sandboxes/search?limit=100'))
      if (items.length === 0) break
      for (const { id } of items) await this.#call('DELETE', `/api/v1/sandboxes/${id}`)
    }
    await this.#waitFor(() => this.#countSandboxes('') === 0, 'everything is gone')
    await this.#program[Symbol.asyncDispose]()
  }

  #countSandboxes(where: string, ...values: string[]): number {
    using database = new DatabaseSync(join(this.data, 'control.db'), { readOnly: true })
    return Number(
      must(database.prepare(`SELECT count(*) AS n FROM sandbox ${where}`).get(...values), 'a row').n,
    )
  }

  async #waitFor(condition: () => boolean, what: string): Promise<void> {
    const deadline = performance.now() + timeoutMs
    while (!condition()) {
      if (performance.now() > deadline) throw new Error(`timed out: ${what}`)
      await sleep(pollMs)
    }
  }

  async #call<T>(method: string, path: string): Promise<T> {
    const headers = { authorization: `Bearer ${key}` }
    const response = await fetch(`${this.#url}${path}`, { method, headers })
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
    return (await response.json()) as T // of the server under measurement
  }
}

function start(data: string, env: Readonly<Record<string, string>>): Promise<Program> {
  return startProgram([sandboxServerMain, '--port', '0', '--data', data], { ...env, SLIPWAY_API_KEY: key })
}

function serverUrl({ firstLine }: Program): string {
  return String(JSON.parse(firstLine).url)
}

function readCgroups(root: string): readonly string[] {
  const text = readText(join(root, 'process.json'))
  return text === '' ? [] : JSON.parse(text).groups
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
