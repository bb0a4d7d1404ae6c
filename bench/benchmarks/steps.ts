import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import {
  type Conversation,
  loadOpenModel,
  type Model,
  openConversation,
  type ResolvedSettings,
} from '@slipway/agent'
import { type Llm, must, startConversationRequest } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import { openStorage, type Storage } from '@slipway/storage'
import { type BenchContext, importLog } from '../support/fixtures.ts'
import { generateAgentHistory, maxView } from '../support/generate-agent-history.ts'
import { atMost, Floor, information, median, type ResultRow } from '../support/result-table.ts'

/**
 * The overhead of the agent loop for each step of a conversation, with a model that replies at once and a
 * tool that does nothing: the request is built from the history, and the call and its result are written
 * durably, each in its own transaction. With a condenser that holds the view at 40 to 80 events, a step
 * after 100,000 events takes at most 1.5 times as long as one after 100, in wall time and in user CPU time.
 * Both run alternately, on the same machine.
 */
export async function steps(bench: BenchContext): Promise<ResultRow[]> {
  const size = bench.isQuick ? { deep: 2_000, batch: 5, rounds: 2 } : { deep: 100_000, batch: 50, rounds: 20 }
  await using shallow = await StepsFixture.open(bench)
  await using deep = await StepsFixture.open(bench)
  const opening = await measureOpening(deep, size.deep)
  const few: StepCost[] = []
  const many: StepCost[] = []
  await using old = await deep.openConversation(opening.id, { ...size, hasCondenser: true })
  await measureRun(deep, old, size.batch)
  for (let round = 0; round < size.rounds; round++) {
    await using young = await shallow.openConversation(await shallow.createHistory(100), {
      ...size,
      hasCondenser: true,
    })
    await measureRun(shallow, young, size.batch)
    few.push(await measureRun(shallow, young, size.batch))
    many.push(await measureRun(deep, old, size.batch))
  }
  const name = `after ${size.deep} events beside 100`
  const floorName = 'a step after 100 events'
  const wall = (costs: readonly StepCost[]) => median(costs.map(({ wallUs }) => wallUs))
  // The kernel counts in ticks: the mean of all rounds is more precise than any of them.
  const cpu = (costs: readonly StepCost[]) => costs.reduce((sum, { cpuUs }) => sum + cpuUs, 0) / costs.length
  return [
    atMost(`a step ${name}`, 'µs', wall(many), Floor.of(floorName, [wall(few)]), 1.5),
    atMost(`user CPU time of a step ${name}`, 'µs', cpu(many), Floor.of(floorName, [cpu(few)]), 1.5),
    ...opening.rows,
    ...(await measureUncondensed(deep, size)),
  ]
}

/** Opens a long conversation with the saved fold and without. */
async function measureOpening(fixture: StepsFixture, count: number) {
  const id = await fixture.createHistory(count)
  const openMs = async () => {
    const startedAt = performance.now()
    await using _ = await fixture.openConversation(id, { batch: 1, hasCondenser: true })
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

/** The same without a condenser: the view is the whole log. */
async function measureUncondensed(
  fixture: StepsFixture,
  { deep }: { readonly deep: number },
): Promise<ResultRow[]> {
  const rows: ResultRow[] = []
  const plan = { batch: 5, hasCondenser: false }
  for (const count of [100, deep / 10, deep]) {
    await using conversation = await fixture.openConversation(
      await fixture.createHistory(count, { hasCondenser: false }),
      plan,
    )
    await measureRun(fixture, conversation, plan.batch)
    const { wallUs } = await measureRun(fixture, conversation, plan.batch)
    rows.push(information(`a step after ${count} events without a condenser`, 'µs', wallUs))
  }
  return rows
}

type ModelAnswer = Extract<Awaited<ReturnType<Model['generate']>>, { kind: 'reply' }>

/** A step's share of a run. */
interface StepCost {
  readonly wallUs: number
  /** User time; system time is mostly that of the disk. */
  readonly cpuUs: number
}

/** From a user's message to the end of the run. */
async function measureRun(
  fixture: StepsFixture,
  conversation: Conversation,
  batch: number,
): Promise<StepCost> {
  const before = conversation.state.position
  const startedAt = performance.now()
  const usage = process.cpuUsage()
  await conversation.send({
    role: 'user',
    content: [{ type: 'text', text: 'Continue.', cache_prompt: false }],
    run: true,
    sender: undefined,
    extended_content: undefined,
  })
  await conversation.waitUntilIdle()
  const { user } = process.cpuUsage(usage)
  const wallMs = performance.now() - startedAt
  // After a pause of the log its text index is updated, on a thread that must not overlap the next run.
  await fixture.waitUntilIndexed()
  const done = await fixture.countObservations(conversation.id, before)
  const { status, view } = conversation.state
  if (status !== 'finished' || done !== batch) {
    throw new Error(`the run ended as ${status} after ${done} steps`)
  }
  const { condenser } = conversation.settings.agent
  if (condenser?.kind !== 'NoOpCondenser' && view.size > maxView + 2) throw new Error('nothing was condensed')
  return { wallUs: (wallMs * 1000) / done, cpuUs: user / done }
}

/** A separate storage, and the other dependencies of conversations. */
class StepsFixture implements AsyncDisposable {
  readonly #directory: string
  readonly #storage: Storage

  private constructor(directory: string, storage: Storage) {
    this.#directory = directory
    this.#storage = storage
  }

  static async open(bench: BenchContext): Promise<StepsFixture> {
    const directory = await bench.directory()
    return new StepsFixture(directory, await openStorage({ directory }))
  }

  /** Writes the log of a new conversation; returns its id. */
  async createHistory(count: number, options: { readonly hasCondenser?: boolean } = {}): Promise<string> {
    const id = randomUUID()
    await importLog(this.#storage, generateAgentHistory(count, options), id)
    return id
  }

  /** Opens a conversation whose runs have `batch` steps. */
  async openConversation(id: string, { batch, hasCondenser }: RunPlan): Promise<Conversation> {
    const { log, conversations } = this.#storage
    const vault = must(await conversations.getSealedState(id), 'the conversation')
    const openModel = await loadOpenModel()
    return await openConversation({
      id,
      settings: createSettings(hasCondenser, join(this.#directory, 'workspace')),
      deps: {
        log,
        logLine: () => {},
        clock: systemClock,
        openModel: (llm) => immediateModel(llm, batch, openModel(llm)),
        environment: {},
        directory: join(this.#directory, 'conversations'),
        isConfined: true,
      },
      store: {
        snapshot: vault.snapshot,
        stats: null,
        saveSnapshot: (snapshot) => conversations.saveSnapshot(id, snapshot),
        seal: () => ({}),
      },
    })
  }

  /** The number of observations after a position. */
  async countObservations(id: string, after: number): Promise<number> {
    const events = await this.#storage.log.read(id, after, 10_000)
    return events.filter(({ bytes }) => JSON.parse(bytes.toString()).kind === 'ObservationEvent').length
  }

  async waitUntilIndexed(): Promise<void> {
    await this.#storage.waitUntilIndexed()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#storage[Symbol.asyncDispose]()
  }
}

interface RunPlan {
  readonly batch: number
  readonly hasCondenser: boolean
}

function createSettings(hasCondenser: boolean, working_dir: string): ResolvedSettings {
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

/**
 * A model that replies at once: a number of calls, then a text, then calls again. Tokens are counted as for
 * any model.
 */
function immediateModel(llm: Llm, batch: number, counter: Model): Model {
  let requestCount = 0
  return {
    llm,
    contextWindow: 200_000,
    countTokens: (messages) => counter.countTokens(messages),
    generate: async ({ toolChoice }) => {
      // Only a request for a summary forbids tools.
      if (toolChoice === 'none') return createAnswer(llm, { content: 'It thought about all of that.' })
      requestCount++
      if (requestCount % (batch + 1) === 0) return createAnswer(llm, { content: 'That is clear now.' })
      return createAnswer(llm, { thought: `Thought ${requestCount}: ${thought}` })
    },
  }
}

const thought = 'what was found before leads to the next question. '.repeat(7)

function createAnswer(llm: Llm, { content, thought }: { content?: string; thought?: string }): ModelAnswer {
  const responseId = randomUUID()
  const call = { id: `call-${responseId}`, name: 'think', origin: 'completion' as const }
  return {
    kind: 'reply',
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
