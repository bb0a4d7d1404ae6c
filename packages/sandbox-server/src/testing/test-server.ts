import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from '@slipway/client'
import { createApp, listen, unixFetch } from '@slipway/http'
import {
  type AppConversation,
  type AppConversationStartTask,
  appConversationRoutes,
  invalidInput,
  type Llm,
  llm,
  Problem,
  type RepositoryTrust,
  sandboxStatus,
  scriptConsentRoutes,
  userSettings,
  webhookRoutes,
} from '@slipway/protocol'
import { KeyedMutex } from '@slipway/shared/async'
import { agentServerMain } from '@slipway/shared/process/testing'
import { Secret } from '@slipway/shared/redaction'
import { type Clock, systemClock } from '@slipway/shared/time'
import { Cipher, openStorage } from '@slipway/storage'
import {
  type ControlPlaneStore,
  openControlPlaneStore,
  type QuotaRows,
  type SandboxRow,
  type Scope,
} from '@slipway/storage/control-plane'
import { UserLlmProfiles } from '../accounts/llm-profiles.ts'
import type { QuotaSlot } from '../accounts/quota.ts'
import { scriptConsentHandlers } from '../accounts/script-consent-handlers.ts'
import { ScriptConsents } from '../accounts/script-consents.ts'
import { StorageQuota } from '../accounts/storage-quota.ts'
import type { CopiedFiles } from '../backends/backend.ts'
import { AgentCalls } from '../conversations/agent-calls.ts'
import { Conversations } from '../conversations/conversations.ts'
import { ConversationDownloads } from '../conversations/download.ts'
import { eventHandlers } from '../conversations/event-handlers.ts'
import { appConversationHandlers } from '../conversations/handlers.ts'
import { PendingMessages } from '../conversations/pending-messages.ts'
import { RemovedConversations } from '../conversations/records/removed-conversations.ts'
import { timelineHandlers } from '../conversations/timeline-handlers.ts'
import { workspaceHandlers } from '../conversations/workspace-handlers.ts'
import { type BodyLimits, EventIngest } from '../ingest/event-ingest.ts'
import { EventPull } from '../ingest/event-pull.ts'
import { webhookHandlers } from '../ingest/handlers.ts'
import { Organizations } from '../organizations/organizations.ts'
import type { SandboxConnection } from '../sandboxes/sandboxes.ts'
import { findStatusReason } from '../sandboxes/state/status-reason.ts'
import { ConversationStarter } from '../start/conversation-starter.ts'
import { startTaskHandlers } from '../start/handlers.ts'
import type { CheckModelAddress } from '../start/model-address.ts'
import { defaultPrepareTimeouts, type PrepareTimeouts } from '../start/prepare-workspace.ts'
import { temporaryDirectory } from './fixtures.ts'

/** A sandbox of a test: a real agent server in its own process, without a backend. */
interface TestSandbox {
  row: SandboxRow
  process: ChildProcess | undefined
  /** Of its agent server; a test may put another one in its place. */
  url: string
  readonly key: string
  readonly directory: string
}

/** The verbs of sandboxes on processes of the test. */
export class TestSandboxes implements AsyncDisposable {
  readonly entries = new Map<string, TestSandbox>()
  readonly touched: string[] = []
  /** What the next new one becomes instead of RUNNING. */
  next: Partial<SandboxRow> = {}
  /** New ones are refused with this. */
  startProblem: Problem | undefined
  controlPlaneUrl = ''
  readonly #directory: string
  #count = 0

  constructor(directory: string) {
    this.#directory = directory
  }

  async start(
    scope: Scope,
    options: {
      readonly id?: string
      readonly spec?: string | undefined
      readonly specPath?: readonly string[]
    } = {},
  ): Promise<SandboxRow> {
    if (this.startProblem !== undefined) throw this.startProblem
    if (options.spec !== undefined && options.spec !== 'process')
      throw invalidInput(options.specPath ?? ['query', 'sandbox_spec_id'], 'No such spec')
    const id = options.id ?? `sb-${++this.#count}`
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
      caught_up_at: null,
      deletes_at: null,
    }
    const sandbox: TestSandbox = {
      row,
      process: undefined,
      url: '',
      key,
      directory: join(this.#directory, id),
    }
    this.entries.set(id, sandbox)
    if (Object.keys(this.next).length > 0) sandbox.row = { ...row, ...this.next }
    else void this.#run(sandbox)
    return row
  }

  async get(scope: Scope, id: string): Promise<SandboxRow> {
    const row = this.entries.get(id)?.row
    if (row === undefined || row.owner !== scope.owner)
      throw new Problem('not_found', 'There is no such sandbox')
    return row
  }

  async find(ids: readonly string[]): Promise<(SandboxRow | undefined)[]> {
    return ids.map((id) => this.entries.get(id)?.row)
  }

  async getInfo({ detail, ...row }: SandboxRow) {
    const status = sandboxStatus.parse(row.status)
    const status_reason = findStatusReason({ ...row, status, detail, spec: {} })
    return { id: row.id, status, status_detail: detail, status_reason }
  }

  async search(scope: Scope) {
    const rows = [...this.entries.values()].map(({ row }) => row)
    const items = rows.filter(({ owner, wanted }) => owner === scope.owner && wanted !== 'gone').reverse()
    return { items, next_page_id: null }
  }

  /** Ends its process as a pause of a backend without a freezer would. */
  async pause(row: SandboxRow): Promise<void> {
    const sandbox = this.getSandbox(row.id)
    await this.#end(sandbox)
    sandbox.row = { ...sandbox.row, wanted: 'paused', status: 'PAUSED' }
  }

  async resume(row: SandboxRow): Promise<void> {
    const sandbox = this.getSandbox(row.id)
    sandbox.row = { ...sandbox.row, wanted: 'running', status: 'STARTING' }
    void this.#run(sandbox)
  }

  async remove(row: SandboxRow): Promise<void> {
    const sandbox = this.getSandbox(row.id)
    await this.#end(sandbox)
    this.entries.delete(row.id)
  }

  /** Without freezing it. */
  async copyFiles(from: SandboxRow, to: SandboxRow, _signal: AbortSignal): Promise<CopiedFiles> {
    const takenAt = Date.now() * 1000
    for (const name of ['home', 'project'])
      await cp(join(this.getSandbox(from.id).directory, name), join(this.getSandbox(to.id).directory, name), {
        recursive: true,
      })
    return { takenAt }
  }

  async findByKey(key: string): Promise<SandboxRow | undefined> {
    return [...this.entries.values()].find((sandbox) => sandbox.key === key)?.row
  }

  async waitSettled(id: string, signal: AbortSignal): Promise<SandboxRow> {
    for (;;) {
      signal.throwIfAborted()
      const row = this.entries.get(id)?.row
      if (row === undefined) throw new Problem('not_found', 'There is no such sandbox')
      const isSettled = row.status === (row.wanted === 'running' ? 'RUNNING' : 'PAUSED')
      if (isSettled || row.status === 'ERROR' || row.status === 'MISSING') return row
      await sleep(10, undefined, { signal })
    }
  }

  getConnection(row: SandboxRow): SandboxConnection | undefined {
    const sandbox = this.entries.get(row.id)
    if (sandbox === undefined || sandbox.row.status !== 'RUNNING') return undefined
    const key = new Secret(sandbox.key)
    return {
      client: new Client({ url: sandbox.url, sessionApiKey: key, fetch: unixFetch }),
      url: sandbox.url,
      publicUrl: sandbox.url,
      secrets: () => [],
      key,
      workingDir: join(sandbox.directory, 'project'),
      row: sandbox.row,
    }
  }

  touch(id: string): void {
    this.touched.push(id)
  }

  getSandbox(id: string): TestSandbox {
    const sandbox = this.entries.get(id)
    if (sandbox === undefined) throw new Error(`no sandbox ${id}`)
    return sandbox
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.entries.values()].map((sandbox) => this.#end(sandbox, 'SIGKILL')))
  }

  async #run(sandbox: TestSandbox): Promise<void> {
    const homeDirectory = join(sandbox.directory, 'home')
    for (const path of [homeDirectory, join(sandbox.directory, 'project')])
      mkdirSync(path, { recursive: true })
    const child = spawn(
      process.execPath,
      [agentServerMain, '--port', '0', '--data', join(sandbox.directory, 'data')],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
        env: {
          PATH: process.env.PATH,
          HOME: homeDirectory,
          TMPDIR: homeDirectory,
          NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
          SLIPWAY_SESSION_API_KEY: sandbox.key,
          SLIPWAY_LOG_LEVEL: 'error',
          SLIPWAY_WEBHOOKS: JSON.stringify([{ base_url: `${this.controlPlaneUrl}/api/v1/webhooks` }]),
        },
      },
    )
    sandbox.process = child
    const [line] = await once(child.stdout, 'data')
    sandbox.url = String(line).split('\n')[0] ?? ''
    if (sandbox.row.status === 'STARTING') sandbox.row = { ...sandbox.row, status: 'RUNNING' }
  }

  async #end({ process: child }: TestSandbox, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill(signal)
    await exit
  }
}

/** The account of every user of a test. */
export class TestAccounts {
  currentSettings = userSettings.parse({})
  secretValues: Record<string, string> = {}
  tokens: Record<string, { readonly token: Secret; readonly host?: string }> = {}
  script: unknown[] = [{ text: 'Hello.' }]
  baseUrl: string | undefined

  async model(
    _owner: string | null,
    {
      profile,
      model = 'scripted/test',
    }: { readonly profile?: string | undefined; readonly model?: string | undefined },
  ): Promise<Llm> {
    if (profile !== undefined && profile !== 'saved')
      throw new Problem('not_found', `Profile not found: ${profile}`)
    const { script, baseUrl: base_url } = this
    return llm.parse({ model, api_key: 'sk-model-canary', script, base_url })
  }

  readonly userSettings = { read: async () => this.currentSettings }
  readonly gitProviders = {
    getToken: async (_owner: string | null, provider: string) => this.tokens[provider],
    readTokens: async () => new Map(Object.entries(this.tokens)),
  }

  async secrets() {
    return Object.fromEntries(
      Object.entries(this.secretValues).map(([name, value]) => [name, { value: new Secret(value) }]),
    )
  }
}

/** Slots of one day, with a limit that a test sets. */
export class TestQuota {
  limit = Number.POSITIVE_INFINITY
  readonly #rows: QuotaRows
  readonly #slot = { day: '2026-01-31', now: 0 }

  constructor({ quota }: Pick<ControlPlaneStore, 'quota'>) {
    this.#rows = quota
  }

  async slotOf(): Promise<QuotaSlot> {
    return { ...this.#slot, limit: this.limit }
  }

  refusal({ limit }: QuotaSlot): Problem {
    return new Problem('too_many', 'Used up', undefined, { limit })
  }

  /** By the user of requests without another. */
  get used(): Promise<number> {
    return this.#rows.getUsed('ada', this.#slot.day)
  }
}

/** A control plane of one test: everything of this part over real HTTP, with agent servers as processes. */
export async function openTestServer(
  options: {
    readonly directory?: string
    readonly waitMs?: number
    readonly maxConversations?: number
    readonly maxStoredMb?: number
    readonly bodyLimits?: BodyLimits
    readonly limits?: Partial<PrepareTimeouts>
    /** `always` unless passed. */
    readonly scriptTrust?: RepositoryTrust
    readonly checkModelAddress?: CheckModelAddress
    readonly controlPlane?: (controlPlane: ControlPlaneStore) => ControlPlaneStore
  } = {},
) {
  const own = options.directory === undefined ? temporaryDirectory() : undefined
  const directory = options.directory ?? own?.path ?? ''
  const logged: string[] = []
  const log = (...line: unknown[]) => void logged.push(JSON.stringify(line))
  const openedControlPlane = await openControlPlaneStore({ directory })
  const controlPlane = options.controlPlane?.(openedControlPlane) ?? openedControlPlane
  const storage = await openStorage({ directory })
  const sandboxes = new TestSandboxes(directory)
  const accounts = new TestAccounts()
  const quota = new TestQuota(controlPlane)
  const { documents } = openedControlPlane
  const cipher = await Cipher.open({ directory, secretKey: undefined })
  const scriptConsents = new ScriptConsents({ documents, cipher })
  const organizations = new Organizations({
    ...{ users: openedControlPlane.users, documents, cipher },
    llmProfiles: new UserLlmProfiles({ documents, cipher, maxProfiles: 5 }),
    specs: { list: () => [{ id: 'process' }] },
  })
  const conversationMutex = new KeyedMutex()
  const removedConversations = new RemovedConversations(controlPlane.documents)
  const storageQuota = new StorageQuota({
    users: controlPlane.users,
    conversations: controlPlane.conversations,
    records: storage.conversations,
    maxConversations: options.maxConversations ?? 0,
    maxStoredMb: options.maxStoredMb ?? 0,
  })
  const common = {
    storageQuota,
    controlPlane,
    storage,
    sandboxes,
    accounts,
    organizations,
    removedConversations,
    conversationMutex,
    log,
    clock: systemClock,
    fetch: unixFetch,
  }
  const pendingMessages = new PendingMessages(common)
  const starter = new ConversationStarter({
    ...common,
    quota,
    waitMs: options.waitMs ?? 60_000,
    limits: { ...defaultPrepareTimeouts, ...options.limits },
    scriptTrust: options.scriptTrust ?? 'always',
    scriptConsents,
    deliver: (id) => pendingMessages.deliver(id),
    checkModelAddress: options.checkModelAddress ?? (() => {}),
  })
  const conversations = new Conversations({ ...common, starter, pendingMessages })
  const ingest = new EventIngest({
    ...common,
    bodyLimits: options.bodyLimits,
    onRemoved: (id, sandbox) => void conversations.removeFromSandbox(id, sandbox),
  })
  const calls = new AgentCalls(common)
  const routes = { ...appConversationRoutes, ...webhookRoutes, ...scriptConsentRoutes }
  const handlers = {
    ...appConversationHandlers({
      ...{ conversations, accounts, organizations, pendingMessages, calls },
      downloads: new ConversationDownloads(storage),
    }),
    ...workspaceHandlers({ conversations, calls }),
    ...startTaskHandlers({ starter, conversations, startTasks: controlPlane.startTasks }),
    ...eventHandlers({ conversations, storage }),
    ...timelineHandlers({ conversations, storage }),
    ...webhookHandlers({ ingest, pendingMessages }),
    ...scriptConsentHandlers({ consents: scriptConsents, trust: options.scriptTrust ?? 'always' }),
  }
  const httpApp = createApp(routes, handlers, {
    openapi: {},
    log,
    async identify(route, header) {
      if (route.tag !== 'webhooks')
        return { owner: header('x-user') ?? 'ada', org: undefined, scopes: ['read', 'write'], keyId: null }
      const sandbox = await sandboxes.findByKey(header('x-session-api-key') ?? '')
      if (sandbox === undefined) throw new Problem('unauthorized', 'No such key')
      return { sandbox }
    },
  })
  const listening = await listen(httpApp, { host: '127.0.0.1', port: 0 })
  sandboxes.controlPlaneUrl = listening.url

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
  const waitFinished = async (id: string, headers = {}): Promise<AppConversationStartTask> => {
    for (;;) {
      const now = await task(id, headers)
      if (now.status === 'READY' || now.status === 'ERROR') return now
      await sleep(20)
    }
  }
  return {
    directory,
    controlPlane,
    storage,
    sandboxes,
    accounts,
    quota,
    starter,
    ingest,
    /** Looks at running sandboxes as soon as it is made. */
    pull(hasWebhooks: boolean, clock: Clock = systemClock): EventPull {
      const listRunning = async function* () {
        for (const { row } of sandboxes.entries.values()) if (row.status === 'RUNNING') yield row
      }
      const running = {
        listRunning,
        hasWebhooks: () => hasWebhooks,
        lastUse: () => clock.now() * 1000,
        getConnection: sandboxes.getConnection.bind(sandboxes),
      }
      const pull = new EventPull({
        ...common,
        clock,
        sandboxes: running,
        ingest,
        leases: controlPlane.leases,
      })
      pull.start()
      return pull
    },
    logged,
    url: listening.url,
    open,
    call,
    task,
    waitFinished,
    /** Starts a conversation and waits for its end. */
    async start(body: object = {}, headers: Record<string, string> = {}): Promise<AppConversationStartTask> {
      const { status, json } = await call('POST', '/app-conversations', body, headers)
      if (status !== 200) throw new Error(`the start answered ${status}: ${JSON.stringify(json)}`)
      return await waitFinished(json.id, headers)
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
      await starter[Symbol.asyncDispose]()
      await pendingMessages[Symbol.asyncDispose]()
      await listening.close()
      await sandboxes[Symbol.asyncDispose]()
      await controlPlane[Symbol.asyncDispose]()
      await storage[Symbol.asyncDispose]()
      own?.[Symbol.dispose]()
    },
  }
}
