import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { must } from '@slipway/protocol'
import type { Bench } from './fixtures.ts'
import { type Program, startProgram } from './processes.ts'

const main = fileURLToPath(new URL('../../packages/sandbox-server/src/main.ts', import.meta.url))
const key = 'sk-of-the-administrator'
/** No step takes this long unless it never ends. */
const patienceMs = 180_000
const pollMs = 10

/** A sandbox as the API answers it, as far as it matters here. */
export interface Box {
  readonly id: string
  readonly status: string
  readonly status_detail?: string | null
  readonly exposed_urls: readonly { readonly name: string; readonly url: string }[] | null
}

/** A sandbox server in a process of its own, asked as its users ask it. All of its sandboxes end with it. */
export class ControlPlane implements AsyncDisposable {
  readonly data: string
  readonly #env: Readonly<Record<string, string>>
  #program: Program
  #url: string

  private constructor(data: string, env: Readonly<Record<string, string>>, program: Program) {
    this.data = data
    this.#env = env
    this.#program = program
    this.#url = urlOf(program)
  }

  /** `env`: its settings, named `SLIPWAY_*`. */
  static async open(bench: Bench, env: Readonly<Record<string, string>>): Promise<ControlPlane> {
    const data = await bench.directory()
    process.on('exit', () => endAll(data))
    return new ControlPlane(data, env, await start(data, env))
  }

  get pid(): number {
    return this.#program.pid
  }

  get cpuSeconds(): number {
    return this.#program.cpuSeconds()
  }

  /** Asks for a sandbox; it is on its way when this resolves. */
  begin(query = ''): Promise<Box> {
    return this.#call<Box>('POST', `/api/v1/sandboxes${query}`)
  }

  /** Looks every few milliseconds; rejects when it comes to another end. */
  async until(id: string, status: string): Promise<Box> {
    const deadline = performance.now() + patienceMs
    for (;;) {
      const [box] = await this.#call<(Box | null)[]>('GET', `/api/v1/sandboxes?id=${id}`)
      if (box?.status === status) return box
      if (box?.status === 'ERROR' || performance.now() > deadline)
        throw new Error(`a sandbox is not ${status}: ${JSON.stringify(box)}`)
      await sleep(pollMs)
    }
  }

  /** Milliseconds of one question about a sandbox. */
  async ask(id: string): Promise<number> {
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

  /** Resolves when nothing is left of it. */
  async remove(id: string): Promise<void> {
    await this.#call('DELETE', `/api/v1/sandboxes/${id}`)
    await this.#becomes(() => this.#count('WHERE id = ?', id) === 0, `${id} is gone`)
  }

  /** Resolves when so many of the warm pool wait for somebody. */
  async warm(count: number): Promise<void> {
    const isReady = () => this.#count("WHERE owner IS NULL AND status = 'RUNNING'") === count
    await this.#becomes(isReady, 'the pool is full')
  }

  /** The record that the process backend keeps of a sandbox: its control groups. */
  groupsOf(id: string): readonly string[] {
    return groupsIn(join(this.data, 'sandboxes', id))
  }

  /** Removes all sandboxes, those of the pool too, and ends the server. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#program[Symbol.asyncDispose]()
    // Without a pool, so that none comes after the last has gone.
    this.#program = await start(this.data, {
      ...this.#env,
      SLIPWAY_WARM_POOL: '0',
      SLIPWAY_RECONCILE_SECONDS: '1',
    })
    this.#url = urlOf(this.#program)
    for (let items: Box[] = []; ; ) {
      ;({ items } = await this.#call<{ items: Box[] }>('GET', '/api/v1/sandboxes/search?limit=100'))
      if (items.length === 0) break
      for (const { id } of items) await this.#call('DELETE', `/api/v1/sandboxes/${id}`)
    }
    await this.#becomes(() => this.#count('') === 0, 'everything is gone')
    await this.#program[Symbol.asyncDispose]()
  }

  #count(where: string, ...values: string[]): number {
    using database = new DatabaseSync(join(this.data, 'control.db'), { readOnly: true })
    return Number(
      must(database.prepare(`SELECT count(*) AS n FROM sandbox ${where}`).get(...values), 'a row').n,
    )
  }

  async #becomes(isTrue: () => boolean, what: string): Promise<void> {
    const deadline = performance.now() + patienceMs
    while (!isTrue()) {
      if (performance.now() > deadline) throw new Error(`it does not come true that ${what}`)
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
  return startProgram([main, '--port', '0', '--data', data], { ...env, SLIPWAY_API_KEY: key })
}

function urlOf({ firstLine }: Program): string {
  return String(JSON.parse(firstLine).url)
}

/** When the benchmark is cut off: what lives on by design must not. */
function endAll(data: string): void {
  const folder = join(data, 'sandboxes')
  for (const id of namesIn(folder).filter((name) => !name.startsWith('.'))) {
    const groups = groupsIn(join(folder, id))
    const supervisors = namesIn(join(folder, id))
      .filter((name) => name.startsWith('pid.'))
      .map((name) => Number.parseInt(textOf(join(folder, id, name)), 10))
    const members = groups.flatMap((group) => textOf(join(group, 'cgroup.procs')).split('\n').map(Number))
    for (const pid of [...supervisors, ...members].filter((each) => each > 1)) kill(pid)
    for (const group of groups) thaw(group)
  }
}

function groupsIn(root: string): readonly string[] {
  const text = textOf(join(root, 'process.json'))
  return text === '' ? [] : JSON.parse(text).groups
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {}
}

/** A killed process that stands still ends when it goes on. */
function thaw(group: string): void {
  for (const [name, text] of Object.entries({ 'freezer.state': 'THAWED', 'cgroup.freeze': '0' })) {
    try {
      writeFileSync(join(group, name), text, { flag: 'r+' })
    } catch {}
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
