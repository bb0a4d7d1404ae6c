import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Backend, Isolation, Order, Seen } from '../backend.ts'

/** An agent server as far as the control plane asks: a small one over real HTTP. */
export class ModelAgent {
  readonly env: Readonly<Record<string, string>>
  url = ''
  isReady = true
  idleSeconds = 0
  running = 0
  /** Requests are taken and not answered. */
  isFrozen = false
  inits: unknown[] = []
  asked: string[] = []
  onRequest: (request: IncomingMessage) => void = () => {}
  #keys: readonly string[]
  #isDormant: boolean
  readonly #server: Server

  private constructor(env: Readonly<Record<string, string>>) {
    this.env = env
    this.#isDormant = env.SLIPWAY_DEFERRED_INIT === 'true'
    this.#keys = env.SLIPWAY_SESSION_API_KEY === undefined ? [] : [env.SLIPWAY_SESSION_API_KEY]
    this.#server = createServer((request, response) => void this.#serve(request, response))
  }

  static async open(env: Readonly<Record<string, string>>): Promise<ModelAgent> {
    const agent = new ModelAgent(env)
    await new Promise<void>((resolve) => agent.#server.listen(0, '127.0.0.1', resolve))
    const { port } = agent.#server.address() as AddressInfo
    agent.url = `http://127.0.0.1:${port}`
    return agent
  }

  get isDormant(): boolean {
    return this.#isDormant
  }

  /** As if it had never waited for its settings. */
  wake(): void {
    this.#isDormant = false
  }

  takeKeys(keys: readonly string[]): void {
    this.#keys = keys
  }

  /** Listens again where it did before. */
  reopen(): void {
    this.#server.listen(Number(new URL(this.url).port), '127.0.0.1')
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
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
    this.asked.push(`${method} ${url}`)
    if (url === '/alive') return [200, { status: 'ok' }]
    if (url === '/ready' && this.#isDormant) return [503, { status: 'dormant' }]
    if (url === '/ready') return this.isReady ? [200, { status: 'ready' }] : [503, { status: 'starting' }]
    if (url === '/api/init' && headers['x-init-api-key'] !== this.env.SLIPWAY_INIT_API_KEY) return [401, {}]
    if (url === '/api/init' && method === 'POST') return this.#init(body)
    if (url === '/server_info') return [200, { idle_time: this.idleSeconds }]
    if (this.#isDormant) return [503, { detail: 'dormant' }]
    if (!this.#keys.includes(String(headers['x-session-api-key']))) return [401, { detail: 'Unauthorized' }]
    if (url.startsWith('/api/conversations/count')) return [200, this.running]
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

interface Thing {
  order: Order
  state: Seen['state']
  epoch: string
  agent: ModelAgent | undefined
  detail: string | undefined
  /** Files: how often it was started on them. */
  starts: number
}

type Verb = 'start' | 'pause' | 'resume' | 'remove' | 'list'

/** A backend in memory whose agent servers are real. It outlives the control plane that uses it, fails and lies as told. */
export class ModelBackend implements Backend, AsyncDisposable {
  readonly name = 'model'
  readonly things = new Map<string, Thing>()
  readonly calls: string[] = []
  /** What each new agent server begins with. */
  prepare: (agent: ModelAgent) => void = () => {}
  /** Called before a verb does anything, and after; what it throws is the verb's failure. */
  before: (verb: Verb, id: string | undefined) => void | Promise<void> = () => {}
  after: (verb: Verb, id: string | undefined) => void | Promise<void> = () => {}
  /** So many questions are answered with what was there before. */
  staleLists = 0
  #stale: readonly Seen[] = []
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

  start(order: Order): Promise<void> {
    return this.#verb('start', order.id, async () => {
      const thing = this.things.get(order.id)
      if (thing === undefined) {
        const made = {
          order,
          state: 'stopped',
          epoch: '',
          agent: undefined,
          detail: undefined,
          starts: 0,
        } as const
        this.things.set(order.id, { ...made })
      }
      await this.#launch(order)
    })
  }

  resume(order: Order): Promise<void> {
    return this.#verb('resume', order.id, () => this.#launch(order))
  }

  pause(id: string): Promise<void> {
    return this.#verb('pause', id, async () => {
      const thing = this.things.get(id)
      if (thing?.state !== 'running') return
      thing.state = 'paused'
      if (thing.agent !== undefined) thing.agent.isFrozen = true
    })
  }

  remove(id: string): Promise<void> {
    return this.#verb('remove', id, async () => {
      this.things.get(id)?.agent?.close()
      this.things.delete(id)
    })
  }

  async list(id?: string): Promise<readonly Seen[]> {
    await this.before('list', id)
    const fresh = [...this.things.values()].map(seenOf)
    const isStale = this.staleLists > 0
    if (isStale) this.staleLists -= 1
    const seen = isStale ? this.#stale : fresh
    if (!isStale) this.#stale = fresh
    await this.after('list', id)
    return seen.filter((one) => id === undefined || one.id === id)
  }

  /** Its processes end by themselves. */
  crash(id: string, detail = 'exit code 1'): void {
    const thing = this.things.get(id)
    if (thing === undefined) return
    thing.agent?.close()
    thing.state = 'stopped'
    thing.detail = detail
  }

  /** Somebody takes all of it away. */
  vanish(id: string): void {
    this.things.get(id)?.agent?.close()
    this.things.delete(id)
  }

  agent(id: string): ModelAgent {
    const agent = this.things.get(id)?.agent
    if (agent === undefined) throw new Error(`${id} has no agent server`)
    return agent
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { agent } of this.things.values()) agent?.close()
  }

  async #launch(order: Order): Promise<void> {
    const thing = this.things.get(order.id)
    if (thing === undefined) throw new Error('there is no such sandbox')
    if (thing.state === 'running') return
    if (thing.state === 'paused' && thing.agent !== undefined) {
      thing.agent.isFrozen = false
    } else {
      thing.agent = await ModelAgent.open(order.env)
      this.prepare(thing.agent)
      thing.epoch = `e${++this.#epochs}`
      thing.starts += 1
    }
    thing.state = 'running'
    thing.detail = undefined
  }

  async #verb(verb: Verb, id: string, work: () => Promise<void>): Promise<void> {
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

function seenOf({ order, state, epoch, agent, detail }: Thing): Seen {
  const addresses =
    agent === undefined || state !== 'running' ? {} : { AGENT_SERVER: agent.url, WORKER_1: agent.url }
  return { id: order.id, state, epoch, addresses, ...(detail === undefined ? {} : { detail }) }
}
