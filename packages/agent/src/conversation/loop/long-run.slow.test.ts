import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Message } from '@slipway/protocol'
import { Tiktoken } from 'js-tiktoken/lite'
import o200k from 'js-tiktoken/ranks/o200k_base'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ModelRequest, OpenModel } from '../../llm/model.ts'
import { countTokens } from '../../llm/tokens.ts'
import { ConversationFixtures, FakeModel } from '../testing/fixtures.ts'

const steps = Number(process.env.SLIPWAY_LONG_RUN_STEPS ?? 250)
const window = 40_000

let fixtures: ConversationFixtures
beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const code = readFileSync(join(import.meta.dirname, 'call-model.ts'), 'utf8')
const sentences = (text: string) => text.repeat(60)

const languages: readonly (readonly [string, string])[] = [
  ['English', sentences('The quick brown fox jumps over the lazy dog and goes home. ')],
  ['Russian', sentences('Быстрая лиса перепрыгнула через забор и ушла домой спать. ')],
  ['Chinese', sentences('今天天气很好，我们去公园散步，然后回家吃饭。')],
  ['code', code],
  ['base64', Buffer.from(code).toString('base64')],
]

const tokenizer = new Tiktoken(o200k)
const counts = new Map<string, number>()

/** What a provider counts: o200k, whose judgement is independent of our estimate. */
function count(text: string): number {
  const known = counts.get(text)
  if (known !== undefined) return known
  const tokens = tokenizer.encode(text, 'all').length
  counts.set(text, tokens)
  return tokens
}

function tokensOf({ messages, tools }: Pick<ModelRequest, 'messages' | 'tools'>): number {
  const texts = ({ content, tool_calls }: Message) => [
    ...content.map((part) => (part.type === 'text' ? part.text : '')),
    ...(tool_calls ?? []).map(({ name, arguments: args }) => name + args),
  ]
  const sizes = messages.map((message) => texts(message).reduce((sum, text) => sum + count(text), 4))
  return sizes.reduce((sum, size) => sum + size, count(JSON.stringify(tools)))
}

test.each(languages)(
  '%s: no request is too long for a known window, and condensing begins at 85 to 95 percent of it',
  async (_, text) => {
    counts.clear()
    const fake = new FakeModel([])
    let rejected = 0
    let asked = 0
    /** The size of the request that would have been sent, as a share of the window. */
    const condensedAt: number[] = []
    let tools: ModelRequest['tools'] = []
    const openModel: OpenModel = (llm) => ({
      ...fake.open(llm),
      contextWindow: window,
      countTokens,
      generate: async (request) => {
        const isSummary = request.toolChoice === 'none'
        if (isSummary)
          condensedAt.push(tokensOf({ messages: life.conversation.state.view.messages(), tools }) / window)
        else tools = request.tools
        const prompt_tokens = tokensOf(request)
        if (prompt_tokens > window) {
          rejected++
          return { kind: 'failure', code: 'LLMContextWindowExceedError', detail: 'Too long.' }
        }
        const start = (asked * 397) % 1000
        const thought = text.slice(start, start + 300 + ((asked * 811) % 1200))
        if (!isSummary) asked++
        const turn =
          isSummary || asked > steps ? { text: 'Done.' } : { calls: [['think', { thought }]] as const }
        const reply = await new FakeModel([turn], { sides: [{ text: 'So far.' }] })
          .open(llm)
          .generate(request, new AbortController().signal)
        if (reply.kind !== 'reply') return reply
        const calls = (reply.message.tool_calls ?? []).map((call) => ({ ...call, id: `call-${asked}` }))
        const message = { ...reply.message, ...(calls.length > 0 ? { tool_calls: calls } : {}) }
        return { ...reply, responseId: `r-${asked}`, message, usage: { ...reply.usage, prompt_tokens } }
      },
    })
    const life = await fixtures.create({
      model: openModel,
      request: { max_iterations: steps + 10, stuck_detection: false },
    })
    await life.sendAndWait('go')
    expect([life.status, rejected]).toEqual(['finished', 0])
    expect(asked).toBe(steps + 1)
    expect(condensedAt.length).toBeGreaterThan(1)
    expect(Math.min(...condensedAt)).toBeGreaterThan(0.85)
    expect(Math.max(...condensedAt)).toBeLessThan(0.95)
  },
  600_000,
)
