import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { type Conversation, type Model, models, openConversation, type Settings } from '@slipway/agent'
import { type Llm, must, startConversationRequest } from '@slipway/protocol'
import { openStorage, type Storage } from '@slipway/storage'
import { type Bench, importLog } from '../support/fixtures.ts'
import { agentHistory, maxView } from '../support/generate-agent-history.ts'
import { atMost, information, median, type Row } from '../support/result-table.ts'

/**
 * What the loop adds to each step of a conversation, with a model that answers at once and a tool that does nothing: the
 * question is made of the history, the call and its result are written durably, each in a transaction of its own. With a
 * condenser that keeps what the model is shown at 40 to 80 events, a step after 100,000 events takes at most 1.5 times as
 * long as one after 100, by the clock and in CPU time outside the kernel. Runs of both by turns, on the same machine then.
 */
export async function steps(bench: Bench): Promise<Row[]> {
  const size = bench.isQuick ? { deep: 2_000, batch: 5, rounds: 2 } : { deep: 100_000, batch: 50, rounds: 20 }
  await using shallow = await Place.open(bench)
  await using deep = await Place.open(bench)
  const opening = await openings(deep, size.deep)
  const few: Cost[] = []
  const many: Cost[] = []
  await using old = await deep.conversation(opening.id, { ...size, hasCondenser: true })
  await run(deep, old, size.batch)
  for (let round = 0; round < size.rounds; round++) {
    await using young = await shallow.conversation(await shallow.history(100), {
      ...size,
      hasCondenser: true,
    })
    await run(shallow, young, size.batch)
    few.push(await run(shallow, young, size.batch))
    many.push(await run(deep, old, size.batch))
  }
  const name = `after ${size.deep} events beside 100`
  const wall = (costs: readonly Cost[]) => median(costs.map(({ wallUs }) => wallUs))
  // The kernel counts in ticks: the mean of all rounds is finer than any of them.
  const cpu = (costs: readonly Cost[]) => costs.reduce((sum, { cpuUs }) => sum + cpuUs, 0) / costs.length
  return [
    atMost(`a step ${name}`, 'µs', wall(many), wall(few), 1.5),
    atMost(`user CPU time of a step ${name}`, 'µs', cpu(many), cpu(few), 1.5),
    ...opening.rows,
    ...(await uncondensed(deep, size)),
  ]
}

/** Opening a long conversation with the fold that was saved and without. */
async function openings(place: Place, count: number) {
  const id = await place.history(count)
  const openMs = async () => {
    const startedAt = performance.now()
    await using _ = await place.conversation(id, { batch: 1, hasCondenser: true })
    return performance.now() - startedAt
  }
  const whole = await openMs()
  const saved = [await openMs(), await openMs(), await openMs()]
  return {
    id,
    rows: [
      information(`open after ${count} events, without a snapshot`, 'ms', whole),
      information('open with a snapshot', 'ms', median(saved)),
    ],
  }
}

/** The same without a condenser: the model is shown all of it. */
async function uncondensed(place: Place, { deep }: { readonly deep: number }): Promise<Row[]> {
  const rows: Row[] = []
  const plan = { batch: 5, hasCondenser: false }
  for (const count of [100, deep / 10, deep]) {
    await using conversation = await place.conversation(
      await place.history(count, { hasCondenser: false }),
      plan,
    )
    await run(place, conversation, plan.batch)
    const { wallUs } = await run(place, conversation, plan.batch)
    rows.push(information(`a step after ${count} events without a condenser`, 'µs', wallUs))
  }
  return rows
}

type Answered = Extract<Awaited<ReturnType<Model['respond']>>, { kind: 'answer' }>

/** A step's share of a run. */
interface Cost {
  readonly wallUs: number
  /** User time; the kernel's is mostly that of the disk. */
  readonly cpuUs: number
}

/** From a user's message to the end of the run. */
async function run(place: Place, conversation: Conversation, batch: number): Promise<Cost> {
  const before = conversation.state.position
  const startedAt = performance.now()
  const usage = process.cpuUsage()
  await conversation.send({
    role: 'user',
    content: [{ type: 'text', text: 'Go on.', cache_prompt: false }],
    run: true,
    sender: undefined,
    extended_content: undefined,
  })
  await conversation.settled()
  const { user } = process.cpuUsage(usage)
  const wallMs = performance.now() - startedAt
  // Behind a pause of the log its text index follows, on a thread that must not meet the next run.
  await place.indexed()
  const done = await place.observations(conversation.id, before)
  const { status, view } = conversation.state
  if (status !== 'finished' || done !== batch) {
    throw new Error(`the run has ended ${status} after ${done} steps`)
  }
  const { condenser } = conversation.settings.agent
  if (condenser?.kind !== 'NoOpCondenser' && view.size > maxView + 2) throw new Error('nothing was condensed')
  return { wallUs: (wallMs * 1000) / done, cpuUs: user / done }
}

/** A storage of its own, and what conversations need besides. */
class Place implements AsyncDisposable {
  readonly #directory: string
  readonly #storage: Storage

  private constructor(directory: string, storage: Storage) {
    this.#directory = directory
    this.#storage = storage
  }

  static async open(bench: Bench): Promise<Place> {
    const directory = await bench.directory()
    return new Place(directory, await openStorage({ directory }))
  }

  /** Writes the log of a new conversation; answers its id. */
  async history(count: number, options: { readonly hasCondenser?: boolean } = {}): Promise<string> {
    const id = randomUUID()
    await importLog(this.#storage, agentHistory(count, options), id)
    return id
  }

  /** Opens a conversation whose runs have `batch` steps. */
  async conversation(id: string, { batch, hasCondenser }: Plan): Promise<Conversation> {
    const { log, conversations } = this.#storage
    const vault = must(await conversations.vault(id), 'the conversation')
    const openModel = await models()
    return await openConversation({
      id,
      settings: settingsFor(hasCondenser, join(this.#directory, 'workspace')),
      rim: {
        log,
        logLine: () => {},
        now: () => Date.now() * 1000,
        openModel: (llm) => immediate(llm, batch, openModel(llm)),
        environment: {},
        directory: join(this.#directory, 'conversations'),
        isConfined: true,
      },
      keeping: {
        snapshot: vault.snapshot,
        stats: null,
        saveSnapshot: (snapshot) => conversations.saveSnapshot(id, snapshot),
        seal: () => ({}),
      },
    })
  }

  /** How many observations are after a position. */
  async observations(id: string, after: number): Promise<number> {
    const events = await this.#storage.log.read(id, after, 10_000)
    return events.filter(({ bytes }) => JSON.parse(bytes.toString()).kind === 'ObservationEvent').length
  }

  async indexed(): Promise<void> {
    await this.#storage.indexed()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#storage[Symbol.asyncDispose]()
  }
}

interface Plan {
  readonly batch: number
  readonly hasCondenser: boolean
}

function settingsFor(hasCondenser: boolean, working_dir: string): Settings {
  const condenser = hasCondenser
    ? { kind: 'LLMSummarizingCondenser', max_size: maxView }
    : { kind: 'NoOpCondenser' }
  const { agent, ...rest } = startConversationRequest.parse({
    agent: { llm: { model: 'immediate' }, condenser },
    workspace: { working_dir },
    autotitle: false,
  })
  return { ...rest, agent: must(agent, 'the agent') }
}

/** A model that answers at once: so many calls, then a text, then calls again. Tokens are counted as for any model. */
function immediate(llm: Llm, batch: number, counter: Model): Model {
  let asked = 0
  return {
    llm,
    contextWindow: 200_000,
    countTokens: (messages) => counter.countTokens(messages),
    respond: async ({ tools }) => {
      // Without tools it is asked for a summary.
      if (tools.length === 0) return answerOf(llm, { content: 'It thought about all of that.' })
      asked++
      if (asked % (batch + 1) === 0) return answerOf(llm, { content: 'That is clear now.' })
      return answerOf(llm, { thought: `Thought ${asked}: ${thought}` })
    },
  }
}

const thought = 'what was found before leads to the next question. '.repeat(7)

function answerOf(llm: Llm, { content, thought }: { content?: string; thought?: string }): Answered {
  const responseId = randomUUID()
  const call = { id: `call-${responseId}`, name: 'think', origin: 'completion' as const }
  return {
    kind: 'answer',
    responseId,
    message: {
      role: 'assistant',
      content: content === undefined ? [] : [{ type: 'text', text: content, cache_prompt: false }],
      ...(thought === undefined ? {} : { tool_calls: [{ ...call, arguments: JSON.stringify({ thought }) }] }),
      thinking_blocks: [],
    },
    usage: {
      model: llm.model,
      prompt_tokens: 10_000,
      completion_tokens: 100,
      cache_read_tokens: 9_000,
      cache_write_tokens: 0,
      reasoning_tokens: 0,
      context_window: 200_000,
      per_turn_token: 10_100,
      response_id: responseId,
    },
    cost: 0,
    latencyMs: 0,
    model: llm.model,
    usageId: llm.usage_id,
    stop: thought === undefined ? 'stop' : 'tool_calls',
  }
}
