import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from '@slipway/client'
import { app, listen, reach } from '@slipway/http'
import {
  type AppConversation,
  type AppConversationStartTask,
  appConversationRoutes,
  homeRoutes,
  invalid,
  type Llm,
  llm,
  Problem,
  Secret,
} from '@slipway/protocol'
import { type Ledger, openLedger, openStorage, type SandboxRow, type Scope } from '@slipway/storage'
import { Lanes } from '../async/keyed-mutex.ts'
import { ConversationCalls } from '../conversations/agent-calls.ts'
import { Conversations } from '../conversations/conversations.ts'
import { Downloads } from '../conversations/download.ts'
import { Pending } from '../conversations/pending-messages.ts'
import { Removals } from '../conversations/records/removed-conversations.ts'
import { appConversationHandlers } from '../handlers/app-conversations.ts'
import { eventHandlers } from '../handlers/events.ts'
import { startTaskHandlers } from '../handlers/start-tasks.ts'
import { webhookHandlers } from '../handlers/webhooks.ts'
import { Home } from '../ingest/event-ingest.ts'
import type { Reached } from '../sandboxes/sandboxes.ts'
import type { StartSettings } from '../start/conversation-request.ts'
import { Starts } from '../start/conversation-starter.ts'
import { type PrepareLimits, prepareLimits } from '../start/prepare-workspace.ts'
import { temporary } from './fixtures.ts'

const main = resolve(import.meta.dirname, '../../../agent-server/src/main.ts')

/** A sandbox of a test: a real agent server in a process of its own, without a backend. */
interface Place {
  row: SandboxRow
  process: ChildProcess | undefined
  /** Of its agent server; a test may put another one in its place. */
  url: string
  readonly key: string
  readonly directory: string
}

/** The verbs of sandboxes on processes of the test. */
export class TestSandboxes implements AsyncDisposable {
  readonly places = new Map<string, Place>()
  readonly touched: string[] = []
  /** What the next new one becomes instead of RUNNING. */
  next: Partial<SandboxRow> = {}
  /** New ones are refused with this. */
  refusal: Problem | undefined
  homeUrl = ''
  readonly #directory: string
  #count = 0

  constructor(directory: string) {
    this.#directory = directory
  }

  async start(scope: Scope, options: { readonly spec?: string | undefined } = {}): Promise<SandboxRow> {
    if (this.refusal !== undefined) throw this.refusal
    if (options.spec !== undefined && options.spec !== 'process')
      throw invalid(['query', 'sandbox_spec_id'], 'No such spec')
    const id = `sb-${++this.#count}`
    const now = Date.now() * 1000
    const key = `sk-${id}-${'k'.repeat(20)}`
    const row: SandboxRow = {
      id,
      owner: scope.owner,
      org: scope.org ?? null,
      spec: 'process',
      backend: 'test',
      wanted: 'running',
      status: 'STARTING',
      detail: null,
      key_hash: null,
      sealed: Buffer.alloc(0),
      epoch: null,
      addresses: '{}',
      created_at: now,
      changed_at: now,
      used_at: now,
    }
    const place: Place = { row, process: undefined, url: '', key, directory: join(this.#directory, id) }
    this.places.set(id, place)
    if (Object.keys(this.next).length > 0) place.row = { ...row, ...this.next }
    else void this.#run(place)
    return row
  }

  async get(scope: Scope, id: string): Promise<SandboxRow> {
    const row = this.places.get(id)?.row
    if (row === undefined || row.owner !== scope.owner)
      throw new Problem('not_found', 'There is no such sandbox')
    return row
  }

  async find(ids: readonly string[]): Promise<(SandboxRow | undefined)[]> {
    return ids.map((id) => this.places.get(id)?.row)
  }

  async search(scope: Scope) {
    const rows = [...this.places.values()].map(({ row }) => row)
    const items = rows.filter(({ owner, wanted }) => owner === scope.owner && wanted !== 'gone').reverse()
    return { items, next_page_id: null }
  }

  /** Ends its process as a pause of a backend without a freezer would. */
  async pause(row: SandboxRow): Promise<void> {
    const place = this.place(row.id)
    await this.#end(place)
    place.row = { ...place.row, wanted: 'paused', status: 'PAUSED' }
  }

  async resume(row: SandboxRow): Promise<void> {
    const place = this.place(row.id)
    place.row = { ...place.row, wanted: 'running', status: 'STARTING' }
    void this.#run(place)
  }

  async remove(row: SandboxRow): Promise<void> {
    const place = this.place(row.id)
    await this.#end(place)
    this.places.delete(row.id)
  }

  async byKey(key: string): Promise<SandboxRow | undefined> {
    return [...this.places.values()].find((place) => place.key === key)?.row
  }

  async until(id: string, signal: AbortSignal): Promise<SandboxRow> {
    for (;;) {
      signal.throwIfAborted()
      const row = this.places.get(id)?.row
      if (row === undefined) throw new Problem('not_found', 'There is no such sandbox')
      const isThere = row.status === (row.wanted === 'running' ? 'RUNNING' : 'PAUSED')
      if (isThere || row.status === 'ERROR' || row.status === 'MISSING') return row
      await sleep(10, undefined, { signal })
    }
  }

  reached(row: SandboxRow): Reached | undefined {
    const place = this.places.get(row.id)
    if (place === undefined || place.row.status !== 'RUNNING') return undefined
    const key = new Secret(place.key)
    return {
      client: new Client({ url: place.url, sessionApiKey: key, fetch: reach }),
      url: place.url,
      publicUrl: place.url,
      secrets: () => [],
      key,
      workingDir: join(place.directory, 'project'),
      row: place.row,
    }
  }

  touch(id: string): void {
    this.touched.push(id)
  }

  place(id: string): Place {
    const place = this.places.get(id)
    if (place === undefined) throw new Error(`no sandbox ${id}`)
    return place
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.places.values()].map((place) => this.#end(place, 'SIGKILL')))
  }

  async #run(place: Place): Promise<void> {
    const home = join(place.directory, 'home')
    for (const path of [home, join(place.directory, 'project')]) mkdirSync(path, { recursive: true })
    const child = spawn(process.execPath, [main, '--port', '0', '--data', join(place.directory, 'data')], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        PATH: process.env.PATH,
        HOME: home,
        TMPDIR: home,
        SLIPWAY_SESSION_API_KEY: place.key,
        SLIPWAY_LOG_LEVEL: 'error',
        SLIPWAY_WEBHOOKS: JSON.stringify([{ base_url: `${this.homeUrl}/api/v1/webhooks` }]),
      },
    })
    place.process = child
    const [line] = await once(child.stdout, 'data')
    place.url = String(line).split('\n')[0] ?? ''
    if (place.row.status === 'STARTING') place.row = { ...place.row, status: 'RUNNING' }
  }

  async #end({ process: child }: Place, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill(signal)
    await exit
  }
}

/** The account of every user of a test. */
export class TestAccounts {
  settingsNow: StartSettings = {
    git_full_clone: false,
    max_iterations: 100,
    confirmation_mode: false,
    security_analyzer: null,
    sandbox_grouping_strategy: 'NO_GROUPING',
    disabled_skills: [],
    agent_settings: {},
  }
  secretValues: Record<string, string> = {}
  tokens: Record<string, { readonly token: Secret; readonly host?: string }> = {}
  script: unknown[] = [{ text: 'Hello.' }]

  async model(
    _owner: string | null,
    {
      profile,
      model = 'scripted/test',
    }: { readonly profile?: string | undefined; readonly model?: string | undefined },
  ): Promise<Llm> {
    if (profile !== undefined && profile !== 'saved')
      throw new Problem('not_found', `Profile not found: ${profile}`)
    return llm.parse({ model, api_key: 'sk-model-canary', script: this.script })
  }

  async settings(): Promise<StartSettings> {
    return this.settingsNow
  }

  async secrets() {
    return Object.fromEntries(
      Object.entries(this.secretValues).map(([name, value]) => [name, { value: new Secret(value) }]),
    )
  }

  async gitToken(_owner: string | null, provider: string) {
    return this.tokens[provider]
  }
}

/** Slots of a day, with a limit that a test sets. */
export class TestQuota {
  limit = Number.POSITIVE_INFINITY
  used = 0

  async take(): Promise<string | null> {
    if (this.used >= this.limit) throw new Problem('too_many', 'Used up', undefined, { limit: this.limit })
    this.used++
    return '2026-01-31'
  }

  async giveBack(): Promise<void> {
    this.used--
  }
}

/** A control plane of one test: everything of this part over real HTTP, with agent servers as processes. */
export async function openStage(
  options: {
    readonly directory?: string
    readonly waitMs?: number
    readonly limits?: Partial<PrepareLimits>
    readonly ledger?: (ledger: Ledger) => Ledger
  } = {},
) {
  const own = options.directory === undefined ? temporary() : undefined
  const directory = options.directory ?? own?.path ?? ''
  const logged: string[] = []
  const log = (...line: unknown[]) => void logged.push(JSON.stringify(line))
  const opened = await openLedger({ directory })
  const ledger = options.ledger?.(opened) ?? opened
  const storage = await openStorage({ directory })
  const sandboxes = new TestSandboxes(directory)
  const accounts = new TestAccounts()
  const quota = new TestQuota()
  const lanes = new Lanes()
  const removals = new Removals(ledger.documents)
  const now = () => Date.now() * 1000
  const common = { ledger, storage, sandboxes, accounts, removals, lanes, log, now, reach }
  const pending = new Pending(common, lanes)
  const starts = new Starts({
    ...common,
    quota,
    waitMs: options.waitMs ?? 60_000,
    limits: { ...prepareLimits, ...options.limits },
    deliver: (id) => pending.deliver(id),
  })
  const conversations = new Conversations({ ...common, starts, pending })
  const home = new Home({
    ...common,
    conversations: ledger.conversations,
    onRemoved: (id, sandbox) => conversations.removeLate(id, sandbox),
  })
  const routes = { ...appConversationRoutes, ...homeRoutes }
  const handlers = {
    ...appConversationHandlers({
      conversations,
      accounts,
      pending,
      calls: new ConversationCalls(common),
      downloads: new Downloads({ log: storage.log, records: storage.conversations }),
      count: (scope, filter) => ledger.conversations.count(scope, filter),
    }),
    ...startTaskHandlers({ starts, startTasks: ledger.startTasks }),
    ...eventHandlers({ conversations, storage }),
    ...webhookHandlers({ home, pending }),
  }
  const web = app(routes, handlers, {
    openapi: {},
    log,
    async identify(route, header) {
      if (route.tag !== 'webhooks')
        return { owner: header('x-user') ?? 'ada', org: undefined, scopes: [], keyId: null }
      const sandbox = await sandboxes.byKey(header('x-session-api-key') ?? '')
      if (sandbox === undefined) throw new Problem('unauthorized', 'No such key')
      return { sandbox }
    },
  })
  const listening = await listen(web, { host: '127.0.0.1', port: 0 })
  sandboxes.homeUrl = listening.url

  const open = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    fetch(`${listening.url}/api/v1${path}`, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
  const call = async (...to: Parameters<typeof open>) => {
    const response = await open(...to)
    const text = await response.text()
    return { status: response.status, json: text === '' ? undefined : JSON.parse(text) }
  }
  const task = async (id: string, headers = {}): Promise<AppConversationStartTask> =>
    (await call('GET', `/app-conversations/start-tasks?ids=${id}`, undefined, headers)).json[0]
  const over = async (id: string, headers = {}): Promise<AppConversationStartTask> => {
    for (;;) {
      const now = await task(id, headers)
      if (now.status === 'READY' || now.status === 'ERROR') return now
      await sleep(20)
    }
  }
  return {
    directory,
    ledger,
    storage,
    sandboxes,
    accounts,
    quota,
    starts,
    home,
    logged,
    url: listening.url,
    open,
    call,
    task,
    over,
    /** Starts a conversation and waits for its end. */
    async start(body: object = {}, headers: Record<string, string> = {}): Promise<AppConversationStartTask> {
      const { status, json } = await call('POST', '/app-conversations', body, headers)
      if (status !== 200) throw new Error(`the start answered ${status}: ${JSON.stringify(json)}`)
      return await over(json.id, headers)
    },
    async conversation(id: string | null): Promise<AppConversation> {
      return (await call('GET', `/app-conversations?ids=${id}`)).json[0]
    },
    async until<T>(read: () => Promise<T>, isEnough: (value: T) => boolean): Promise<T> {
      const limit = AbortSignal.timeout(60_000)
      for (;;) {
        const value = await read()
        if (isEnough(value)) return value
        if (limit.aborted) throw new Error(`it did not come: ${JSON.stringify(value)}`)
        await sleep(20)
      }
    },
    /** As after a stop. */
    async [Symbol.asyncDispose]() {
      await starts[Symbol.asyncDispose]()
      await pending[Symbol.asyncDispose]()
      await listening.close()
      await sandboxes[Symbol.asyncDispose]()
      await ledger[Symbol.asyncDispose]()
      await storage[Symbol.asyncDispose]()
      own?.[Symbol.dispose]()
    },
  }
}
