import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { loadOpenModel, type Model, openConversation } from '@slipway/agent'
import { type Llm, must, startConversationRequest } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import { openStorage } from '@slipway/storage'
import type { BenchContext } from '../support/fixtures.ts'
import { type CacheUse, MarkedCache, PrefixCache } from '../support/prompt-cache.ts'
import { atMost, Floor, information, type ResultRow, withinBudget } from '../support/result-table.ts'

/** Providers with a prompt cache. The address is never called: each request is recorded and refused. */
const providers = {
  'Anthropic, direct': { model: 'anthropic/claude-sonnet-4-5', cache: MarkedCache },
  'Claude through OpenRouter': { model: 'openrouter/anthropic/claude-sonnet-4.5', cache: MarkedCache },
  'Claude through LiteLLM': { model: 'litellm_proxy/claude-sonnet-4-5', cache: MarkedCache },
  'OpenAI, no marks': { model: 'openai/gpt-5', cache: PrefixCache },
} as const
type Provider = keyof typeof providers

/** Dollars for a million tokens: those of Claude Sonnet, for every provider. */
const prices = { plain: 3, read: 0.3, written: 3.75 }
const charactersPerToken = 4

/**
 * Modelled cost of what the agent sends, from the requests that it would send to each provider: 100 steps
 * direct and through gateways (at most 1.1 times), the uncached share of the input at 1 to 18 parallel calls
 * (at most 5 percent), and a condensation at the end of the conversation beside one by its own request
 * (at most a quarter).
 */
export async function agentCost(bench: BenchContext): Promise<ResultRow[]> {
  const steps = bench.isQuick ? 10 : 100
  const names = Object.keys(providers) as Provider[]
  const costs: number[] = []
  for (const name of names)
    costs.push(dollars(await measure(bench, name, { steps, calls: 1, thoughtChars: 2_000 })))
  const [direct = Number.NaN, ...others] = costs
  const directly = Floor.of('the same steps, direct', [direct])
  const parallel = bench.isQuick ? [1, 10] : [1, 2, 4, 9, 10, 18]
  const shares: ResultRow[] = []
  for (const name of names) {
    for (const calls of parallel) {
      const use = await measure(bench, name, { steps: Math.min(steps, 50), calls, thoughtChars: 300 })
      const sum = use.reduce((total, one) => total + one.read + one.written + one.plain, 0)
      const uncached = 100 - (100 * use.reduce((total, one) => total + one.read, 0)) / sum
      shares.push(
        withinBudget(`uncached input, ${calls} calls a step: ${name}`, '% of the input', uncached, 5),
      )
    }
  }
  return [
    information(`${steps} steps: ${names[0]}`, '$', direct),
    ...others.map((cost, at) => atMost(`${steps} steps: ${names[at + 1]}`, '$', cost, directly, 1.1)),
    ...shares,
    ...(await measureCondensation(bench)),
  ]
}

/**
 * The requests for summaries: at the end of the conversation, and by their own model with the same
 * prices.
 */
async function measureCondensation(bench: BenchContext): Promise<ResultRow[]> {
  const provider = 'Anthropic, direct'
  const plan = { steps: bench.isQuick ? 40 : 130, calls: 1, thoughtChars: 4_000 }
  const maxTokens = bench.isQuick ? 30_000 : 100_000
  const inPlace = await measure(bench, provider, { ...plan, maxTokens, only: 'summaries' })
  const apart = await measure(bench, provider, { ...plan, maxTokens, only: 'summaries', hasOwnModel: true })
  const each = (use: readonly CacheUse[]) => dollars(use) / Math.max(1, use.length)
  const floor = Floor.of('its own request', [each(apart)])
  return [atMost('input of a condensation beside its own request', '$', each(inPlace), floor, 0.25)]
}

function dollars(use: readonly CacheUse[]): number {
  const millions = (member: keyof CacheUse) =>
    use.reduce((sum, one) => sum + one[member], 0) / charactersPerToken / 1_000_000
  return (['plain', 'read', 'written'] as const).reduce((sum, name) => sum + millions(name) * prices[name], 0)
}

interface Plan {
  readonly steps: number
  readonly calls: number
  readonly thoughtChars: number
  /** A condenser with this limit; without one nothing is condensed. */
  readonly maxTokens?: number
  readonly hasOwnModel?: boolean
  readonly only?: 'summaries'
}

/** What a provider's cache makes of each request of a run. */
async function measure(bench: BenchContext, name: Provider, plan: Plan): Promise<readonly CacheUse[]> {
  const directory = await bench.directory()
  await using storage = await openStorage({ directory })
  const id = randomUUID()
  await storage.conversations.create({ id, status: 'idle' })
  const { model, cache: Cache } = providers[name]
  const llm = { model, base_url: 'http://127.0.0.1:9/v1', api_key: 'none', num_retries: 0 }
  const condenser =
    plan.maxTokens === undefined
      ? { kind: 'NoOpCondenser' }
      : {
          ...{ kind: 'LLMSummarizingCondenser', max_size: 10_000, max_tokens: plan.maxTokens },
          ...(plan.hasOwnModel ? { llm: { ...llm, usage_id: 'condenser' } } : {}),
        }
  const { agent, ...rest } = startConversationRequest.parse({
    agent: { llm, condenser },
    workspace: { working_dir: join(directory, 'workspace') },
    ...{ autotitle: false, stuck_detection: false },
  })
  const cache = new Cache()
  const use: { readonly isSummary: boolean; readonly use: CacheUse }[] = []
  const openModel = await loadOpenModel()
  const player = new Player(plan)
  const conversation = await openConversation({
    id,
    settings: { ...rest, agent: must(agent, 'the agent') },
    deps: {
      ...{ log: storage.log, logLine: () => {}, clock: systemClock, environment: {} },
      ...{ directory: join(directory, 'conversations'), isConfined: true },
      openModel: (settings, options) => {
        let body: Readonly<Record<string, unknown>> = {}
        const record: typeof fetch = async (_, init) => {
          body = JSON.parse(String(init?.body))
          return Response.json({ error: { type: 'invalid_request_error', message: '' } }, { status: 400 })
        }
        const sender = openModel(settings, { ...options, fetch: record })
        return {
          llm: settings,
          contextWindow: 200_000,
          countTokens: (messages) => sender.countTokens(messages),
          generate: async (request, signal) => {
            await sender.generate(request, signal)
            const isSummary = request.tools.length === 0 || request.toolChoice === 'none'
            const one = cache.add(body)
            use.push({ isSummary, use: one })
            return player.reply(
              settings,
              isSummary,
              (one.read + one.written + one.plain) / charactersPerToken,
            )
          },
        }
      },
    },
    store: { snapshot: null, stats: null, saveSnapshot: async () => {}, seal: () => ({}) },
  })
  try {
    const content = [{ type: 'text' as const, text: 'Go.', cache_prompt: false }]
    await conversation.send({
      ...{ role: 'user', content, run: true, sender: undefined, extended_content: undefined },
    })
    await conversation.waitUntilIdle()
    const { status } = conversation.state
    if (status !== 'finished') throw new Error(`the run has ended as ${status}`)
  } finally {
    await conversation.close()
  }
  const chosen = plan.only === undefined ? use : use.filter(({ isSummary }) => isSummary)
  if (chosen.length === 0) throw new Error('nothing was condensed')
  return chosen.map((one) => one.use)
}

type Reply = Extract<Awaited<ReturnType<Model['generate']>>, { kind: 'reply' }>

/** Replies with parallel calls for a number of steps, then with a text. */
class Player {
  readonly #plan: Plan
  #step = 0

  constructor(plan: Plan) {
    this.#plan = plan
  }

  reply(llm: Llm, isSummary: boolean, promptTokens: number): Reply {
    const { steps, calls, thoughtChars } = this.#plan
    const step = isSummary ? steps : this.#step++
    const responseId = randomUUID()
    const thought = (at: number) => `Thought ${step}.${at}. ${'It leads on. '.repeat(thoughtChars / 13)}`
    const tool_calls = Array.from({ length: step < steps ? calls : 0 }, (_, at) => ({
      ...{ id: `call_${step}_${at}`, name: 'think', origin: 'completion' as const },
      arguments: JSON.stringify({ thought: thought(at) }),
    }))
    const isText = tool_calls.length === 0
    return {
      ...{ kind: 'reply', responseId, cost: 0, latencyMs: 0, model: llm.model, usageId: llm.usage_id },
      stop: isText ? 'stop' : 'tool_calls',
      message: {
        role: 'assistant',
        content: isText ? [{ type: 'text', text: 'That is clear.', cache_prompt: false }] : [],
        ...(isText ? {} : { tool_calls }),
        thinking_blocks: [],
      },
      usage: {
        ...{ model: llm.model, prompt_tokens: Math.ceil(promptTokens), completion_tokens: 100 },
        ...{ cache_read_tokens: 0, cache_write_tokens: 0, reasoning_tokens: 0, context_window: 200_000 },
        ...{ per_turn_token: Math.ceil(promptTokens) + 100, response_id: responseId },
      },
    }
  }
}
