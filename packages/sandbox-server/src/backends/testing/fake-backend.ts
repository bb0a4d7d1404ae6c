import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { unixSocketUrl } from '@slipway/http'
import type { Backend, Isolation, ObservedSandbox, SandboxConfig } from '../backend.ts'

/** An agent server as far as the control plane asks: a small one over real HTTP. */
export class FakeAgentServer {
  readonly env: Readonly<Record<string, string>>
  url = ''
  isReady = true
  idleSeconds = 0
  running = 0
  /** Requests are accepted and not answered. */
  isFrozen = false
  /** What needs a key is answered with 500. */
  isFailing = false
  /** Ids of the events of its conversations, oldest first. */
  readonly logs = new Map<string, string[]>()
  /** Undefined: it tells its uptime alone, as others do. */
  instance: string | undefined = 'first'
  uptimeSeconds = 0
  inits: unknown[] = []
  /** What a command of bash prints. */
  bash: (command: string) => string = () => ''
  #printed = ''
  requests: string[] = []
  onRequest: (request: IncomingMessage) => void = () => {}
  #keys: readonly string[]
  #isDormant: boolean
  readonly server: Server

  private constructor(env: Readonly<Record<string, string>>) {
    this.env = env
    this.#isDormant = env.SLIPWAY_DEFERRED_INIT === 'true'
    this.#keys = env.SLIPWAY_SESSION_API_KEY === undefined ? [] : [env.SLIPWAY_SESSION_API_KEY]
    this.server = createServer((request, response) => void this.#serve(request, response))
  }

  /** At a Unix socket if there is a path for it. */
  static async open(env: Readonly<Record<string, string>>, socketPath?: string): Promise<FakeAgentServer> {
    const agent = new FakeAgentServer(env)
    if (socketPath !== undefined) {
      await new Promise<void>((resolve) => agent.server.listen(socketPath, resolve))
      agent.url = unixSocketUrl(socketPath)
      return agent
    }
    await new Promise<void>((resolve) => agent.server.listen(0, '127.0.0.1', resolve))
    const { port } = agent.server.address() as AddressInfo
    agent.url = `http://127.0.0.1:${port}`
    return agent
  }

  get isDormant(): boolean {
    return this.#isDormant
  }

  /** As if something in the sandbox had started it again: it has its environment alone. */
  startAgain(instance: string | undefined = this.instance && `${this.instance} again`): void {
    this.instance = instance
    this.uptimeSeconds = 0
    this.#isDormant = this.env.SLIPWAY_DEFERRED_INIT === 'true'
    this.#keys = this.env.SLIPWAY_SESSION_API_KEY === undefined ? [] : [this.env.SLIPWAY_SESSION_API_KEY]
  }

  setKeys(keys: readonly string[]): void {
    this.#keys = keys
  }

  /** Listens again where it did before. */
  reopen(): void {
    this.server.listen(Number(new URL(this.url).port), '127.0.0.1')
  }

  close(): void {
    this.server.closeAllConnections()
    this.server.close()
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.onRequest(request)
    let body = ''
    for await (const chunk of request) body += chunk
    if (this.isFrozen) return
    const [status, answer] = this.#answer(request, body)
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
  }

  #answer({ url = '', method, headers }: IncomingMessage, body: string): [number, unknown] {
    this.requests.push(`${method} ${url}`)
    if (url === '/alive') return [200, { status: 'ok' }]
    if (url === '/ready') return this.isReady ? [200, { status: 'ready' }] : [503, { status: 'starting' }]
    if (url === '/api/init' && method === 'GET')
      return [200, { state: this.#isDormant ? 'dormant' : 'ready', error: null }]
    if (url === '/api/init' && headers['x-init-api-key'] !== this.env.SLIPWAY_INIT_API_KEY) return [401, {}]
    if (url === '/api/init' && method === 'POST') return this.#init(body)
    if (url === '/server_info')
      return [200, { idle_time: this.idleSeconds, uptime: this.uptimeSeconds, instance_id: this.instance }]
    if (this.#isDormant) return [503, { detail: 'dormant' }]
    if (!this.#keys.includes(String(headers['x-session-api-key']))) return [401, { detail: 'Unauthorized' }]
    if (this.isFailing) return [500, { detail: 'Internal Server Error' }]
    if (url.startsWith('/api/conversations/count')) return [200, this.running]
    if (url === '/api/bash/start_bash_command') return this.#startCommand(body)
    if (url.startsWith('/api/bash/bash_events/search')) return [200, this.#commandOutput()]
    return this.#answerLogs(new URL(url, this.url).pathname)
  }

  #startCommand(body: string): [number, unknown] {
    const { command } = JSON.parse(body) as { command: string }
    this.#printed = this.bash(command)
    const timestamp = '2026-01-01T00:00:00Z'
    return [200, { id: 'c'.repeat(32), command, cwd: null, timeout: 1, timestamp, kind: 'BashCommand' }]
  }

  #commandOutput() {
    const [command_id, id] = ['c'.repeat(32), 'd'.repeat(32)]
    const output = { id, command_id, order: 0, exit_code: 3, stdout: this.#printed, stderr: null }
    const items = [{ ...output, timestamp: '2026-01-01T00:00:00Z', kind: 'BashOutput' }]
    return { items, next_page_id: null }
  }

  #answerLogs(path: string): [number, unknown] {
    if (path === '/api/conversations/search')
      return [200, { items: [...this.logs.keys()].map((id) => ({ id })), next_page_id: null }]
    const [, id = '', verb] = /^\/api\/conversations\/([^/]+)\/events\/(search|count)$/.exec(path) ?? []
    const log = this.logs.get(id)
    if (verb === 'count' && log !== undefined) return [200, log.length]
    if (verb === 'search' && log !== undefined)
      return [200, { items: log.slice(-1).map((event) => ({ id: event })), next_page_id: null }]
    return [404, { detail: 'Not Found' }]
  }

  #init(body: string): [number, unknown] {
    if (!this.#isDormant) return [400, { detail: 'not dormant' }]
    const settings: { session_api_keys: string[] } = JSON.parse(body)
    this.inits.push(settings)
    this.#keys = settings.session_api_keys
    this.#isDormant = false
    return [200, { state: 'ready' }]
  }
}

interface FakeSandbox {
  order: SandboxConfig
  state: ObservedSandbox['state']
  epoch: string
  agent: FakeAgentServer | undefined
  detail: string | undefined
  /** Files: how often it was started on them. */
  starts: number
}

type Verb = 'start' | 'pause' | 'stop' | 'resume' | 'remove' | 'list'

/**
 * A backend in memory whose agent servers are real. It outlives the control plane that uses it, fails and
 * lies as told.
 */
export class FakeBackend implements Backend, AsyncDisposable {
  readonly name = 'model'
  appliesConfigOnResume = false
  readonly sandboxes = new Map<string, FakeSandbox>()
  readonly calls: string[] = []
  /** Agent servers listen on Unix sockets in it. */
  socketDirectory: string | undefined
  /** What each new agent server begins with. */
  prepare: (agent: FakeAgentServer) => void = () => {}
  /** Called before a verb does anything, and after; what it throws is the verb's failure. */
  before: (verb: Verb, id: string | undefined) => void | Promise<void> = () => {}
  after: (verb: Verb, id: string | undefined) => void | Promise<void> = () => {}
  /** So many questions are answered with what was there before. */
  staleLists = 0
  #staleList: readonly ObservedSandbox[] = []
  /** What each sandbox has printed. */
  log = ''
  /** How long a verb takes. */
  delayMs = 0
  /** Verbs under way by sandbox: the contract says one at a time. */
  readonly #busy = new Set<string>()
  #epochs = 0

  hostUrl(port: number): string {
    return `http://127.0.0.1:${port}`
  }

  async isolation(): Promise<Isolation> {
    return { kind: 'none', enforced: [], notes: ['A model.'] }
  }

  start(config: SandboxConfig): Promise<void> {
    return this.#runVerb('start', config.id, async () => {
      const existing = this.sandboxes.get(config.id)
      if (existing === undefined) {
        const created = {
          order: config,
          state: 'stopped',
          epoch: '',
          agent: undefined,
          detail: undefined,
          starts: 0,
        } as const
        this.sandboxes.set(config.id, { ...created })
      }
      await this.#launch(config)
    })
  }

  resume(config: SandboxConfig): Promise<void> {
    return this.#runVerb('resume', config.id, () => this.#launch(config))
  }

  pause(id: string): Promise<void> {
    return this.#runVerb('pause', id, async () => {
      const sandbox = this.sandboxes.get(id)
      if (sandbox?.state !== 'running') return
      sandbox.state = 'paused'
      if (sandbox.agent !== undefined) sandbox.agent.isFrozen = true
    })
  }

  stop(id: string): Promise<void> {
    return this.#runVerb('stop', id, async () => {
      const state = this.sandboxes.get(id)?.state
      if (state === 'running' || state === 'paused') this.crash(id, 'stopped')
    })
  }

  async readLog(id: string, maxBytes: number): Promise<string> {
    return this.sandboxes.has(id) ? this.log.slice(-maxBytes) : ''
  }

  remove(id: string): Promise<void> {
    return this.#runVerb('remove', id, async () => {
      this.sandboxes.get(id)?.agent?.close()
      this.sandboxes.delete(id)
    })
  }

  async list(id?: string): Promise<readonly ObservedSandbox[]> {
    await this.before('list', id)
    const fresh = [...this.sandboxes.values()].map(toObservedSandbox)
    const isStale = this.staleLists > 0
    if (isStale) this.staleLists -= 1
    const seen = isStale ? this.#staleList : fresh
    if (!isStale) this.#staleList = fresh
    await this.after('list', id)
    return seen.filter((one) => id === undefined || one.id === id)
  }

  /** Its processes end on their own. */
  crash(id: string, detail = 'exit code 1'): void {
    const sandbox = this.sandboxes.get(id)
    if (sandbox === undefined) return
    sandbox.agent?.close()
    sandbox.state = 'stopped'
    sandbox.detail = detail
  }

  /** Somebody takes all of it away. */
  vanish(id: string): void {
    this.sandboxes.get(id)?.agent?.close()
    this.sandboxes.delete(id)
  }

  agent(id: string): FakeAgentServer {
    const agent = this.sandboxes.get(id)?.agent
    if (agent === undefined) throw new Error(`${id} has no agent server`)
    return agent
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { agent } of this.sandboxes.values()) agent?.close()
  }

  async #launch(config: SandboxConfig): Promise<void> {
    const sandbox = this.sandboxes.get(config.id)
    if (sandbox === undefined) throw new Error('there is no such sandbox')
    if (sandbox.state === 'running') return
    if (sandbox.state === 'paused' && sandbox.agent !== undefined) {
      sandbox.agent.isFrozen = false
      sandbox.agent.isFailing = false
    } else {
      const epoch = `e${++this.#epochs}`
      const { socketDirectory } = this
      const socketPath = socketDirectory && join(socketDirectory, `${epoch}.sock`)
      sandbox.agent = await FakeAgentServer.open(config.env, socketPath)
      this.prepare(sandbox.agent)
      sandbox.epoch = epoch
      sandbox.starts += 1
    }
    sandbox.state = 'running'
    sandbox.detail = undefined
  }

  async #runVerb(verb: Verb, id: string, work: () => Promise<void>): Promise<void> {
    if (this.#busy.has(id)) throw new Error(`two verbs at once for ${id}`)
    this.#busy.add(id)
    try {
      this.calls.push(`${verb} ${id}`)
      if (this.delayMs > 0) await sleep(this.delayMs)
      await this.before(verb, id)
      await work()
      await this.after(verb, id)
    } finally {
      this.#busy.delete(id)
    }
  }
}

function toObservedSandbox({ order, state, epoch, agent, detail }: FakeSandbox): ObservedSandbox {
  const addresses =
    agent === undefined || state !== 'running' ? {} : { AGENT_SERVER: agent.url, WORKER_1: agent.url }
  return { id: order.id, state, epoch, addresses, ...(detail === undefined ? {} : { detail }) }
}
