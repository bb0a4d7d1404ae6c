import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AgentDriver } from '../../conformance/support/agent-driver.ts'
import { type StartedServer, startAgentServer } from '../../conformance/support/agent-server.ts'
import { AgentServerApi } from '../../conformance/support/agent-server-api.ts'
import { type ConversationOutcome, type KilledServer, RandomConversation } from './conversation.ts'
import { Random } from './random.ts'
import { models, type ProviderCounts, RandomProvider } from './random-provider.ts'

interface EndureOptions {
  readonly conversations: number
  readonly seed: number
  /** The number of the first conversation: to repeat one alone. */
  readonly first?: number
  /** Conversations between two kills of the server. */
  readonly killEvery?: number
  /** Only models whose names have this text. */
  readonly model?: string
  readonly onProgress?: (done: number) => void
}

export interface EndureResult {
  readonly seed: number
  readonly outcomes: readonly ConversationOutcome[]
  readonly kills: number
  readonly provider: ProviderCounts
}

const together = 6

/**
 * Random conversations with random models on a server that is killed now and then. Each has to end with an
 * answered message.
 */
export async function endure(options: EndureOptions): Promise<EndureResult> {
  const { conversations, seed, first = 0, killEvery = 10, model = '', onProgress } = options
  const chosen = models.filter((name) => name.includes(model))
  await using provider = await RandomProvider.open(seed)
  await using server = await RestartedServer.open()
  const random = new Random(seed, -1)
  const outcomes: ConversationOutcome[] = []
  let next = first
  let kills = 0
  const work = async () => {
    while (next < first + conversations) {
      const number = next++
      outcomes.push(await new RandomConversation({ number, seed, provider, server, models: chosen }).run())
      onProgress?.(outcomes.length)
      if (outcomes.length % killEvery !== 0 || outcomes.length === conversations) continue
      kills++
      await server.kill(random.below(3) === 0 ? 'SIGTERM' : 'SIGKILL')
    }
  }
  await Promise.all(Array.from({ length: Math.min(together, conversations) }, work))
  return { seed, outcomes, kills, provider: provider.counts }
}

/** The server of the working tree on one data directory. */
class RestartedServer implements KilledServer, AsyncDisposable {
  readonly #data: string
  readonly #workspace: string
  #process: StartedServer | undefined
  #starting: Promise<void> = Promise.resolve()

  private constructor(data: string, workspace: string) {
    this.#data = data
    this.#workspace = workspace
  }

  static async open(): Promise<RestartedServer> {
    const folder = async () => await realpath(await mkdtemp(join(tmpdir(), 'slipway-endure-')))
    const server = new RestartedServer(await folder(), await folder())
    await server.#start()
    return server
  }

  get driver(): AgentDriver {
    const url = this.#process?.url ?? ''
    return new AgentDriver({ api: new AgentServerApi({ url, headers: {} }), directory: this.#workspace })
  }

  async ready(): Promise<void> {
    await this.#starting
  }

  async kill(signal: NodeJS.Signals): Promise<void> {
    await this.#starting
    this.#starting = this.#process?.stop(signal).then(() => this.#start()) ?? Promise.resolve()
    await this.#starting
  }

  async #start(): Promise<void> {
    this.#process = await startAgentServer(this.#data)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#starting
    await this.#process?.stop('SIGKILL')
    for (const path of [this.#data, this.#workspace]) await rm(path, { recursive: true, force: true })
  }
}

/** What happened, one line a fact. */
export function resultTable({ seed, outcomes, kills, provider }: EndureResult): string {
  const count = (list: readonly string[]) => {
    const counts = new Map<string, number>()
    for (const one of list) counts.set(one, (counts.get(one) ?? 0) + 1)
    return [...counts].toSorted(([, one], [, other]) => other - one).map(([name, n]) => `${name} ${n}`)
  }
  const dead = outcomes.filter(({ death }) => death !== undefined)
  const refusals = Object.entries(provider.refusals).map(
    ([rule, { times, first }]) => `${rule} ${times} (${first})`,
  )
  const rows: readonly (readonly [string, string])[] = [
    ['seed', String(seed)],
    ['conversations', String(outcomes.length)],
    ['kills', String(kills)],
    ['requests to models', String(provider.requests)],
    ['models', count(outcomes.flatMap((one) => one.models)).join(', ')],
    ['what users did', count(outcomes.flatMap(({ did }) => did)).join(', ')],
    ['ends of runs', count(outcomes.flatMap(({ ends }) => ends)).join(', ')],
    [
      'faults',
      Object.entries(provider.faults)
        .map(([fault, times]) => `${fault} ${times}`)
        .join(', '),
    ],
    ['refused requests', refusals.join(', ') || '0'],
    ['dead', String(dead.length)],
    ...dead.map(({ number, models, death }): [string, string] => [
      `  number ${number}`,
      `${death} (${models.join(', ')})`,
    ]),
  ]
  return rows.map(([name, value]) => `${name.padEnd(20)} ${value}`).join('\n')
}
