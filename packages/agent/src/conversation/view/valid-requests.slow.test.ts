import { llm } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ModelTool } from '../../llm/model.ts'
import { openModel } from '../../llm/models/open-model.ts'
import { refusalsOf } from '../../llm/testing/validators/rule.ts'
import { validators } from '../../llm/testing/validators/validators.ts'
import { mixedHistory } from '../testing/mixed-history.ts'
import type { LogEvent } from './log-event.ts'
import { View } from './view.ts'

/** A failure prints the seed and the smallest history that it finds. */
const numRuns = Number(process.env.SLIPWAY_REQUEST_HISTORIES ?? 400)
const seed = Number(process.env.SLIPWAY_REQUEST_SEED ?? 20_261_130)

const half = '\ud82d'
const schema = fc.constantFrom<Record<string, unknown>[]>(
  { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] },
  { type: 'object' },
  {},
  { anyOf: [{ type: 'object', properties: { a: { type: 'string' } } }, { required: ['b'] }], type: 'object' },
  { oneOf: [{ properties: { a: { type: 'string' } }, required: ['a'] }], properties: { c: {} } },
  { allOf: [{ properties: { a: { type: 'integer' } }, required: ['a'] }], type: 'object' },
  { $ref: '#/$defs/input', $defs: { input: { type: 'object', properties: { a: { type: 'string' } } } } },
  { type: 'object', properties: { list: { type: 'array' }, $top: { type: 'integer' } }, required: ['$top'] },
  { type: 'object', properties: { [half]: { description: half }, 'my key': {} }, required: ['gone'] },
  {
    type: 'object',
    properties: {
      mode: { type: 'string', anyOf: [{ const: 'a' }, { const: 'b' }] },
      far: { $ref: 'http://h.test/a' },
    },
  },
)
const tool: fc.Arbitrary<ModelTool> = fc.record({
  name: fc.constantFrom('terminal', 'my tool', 'my_tool', '_private', '9lives', 't'.repeat(90), `x${half}`),
  description: fc.constantFrom('Runs a command.', '', ' ', `cut ${half}`, 'd'.repeat(1500)),
  parameters: schema,
})
const settings = fc.record({
  temperature: fc.constantFrom(undefined, 0, 0.5, 1),
  top_p: fc.constantFrom(undefined, 0.9),
  top_k: fc.constantFrom(undefined, 40),
  seed: fc.constantFrom(undefined, 7),
  reasoning_effort: fc.constantFrom(undefined, 'none', 'low', 'high'),
  extended_thinking_budget: fc.constantFrom(undefined, 4096),
  max_output_tokens: fc.constantFrom(undefined, 1, 8000),
  caching_prompt: fc.boolean(),
  enable_encrypted_reasoning: fc.boolean(),
})
const limits = fc.constantFrom(undefined, { chars: 161, tokens: 60 })

const never = new AbortController().signal
const defined = (members: object) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))

async function bodyOf(
  model: string,
  given: object,
  log: readonly LogEvent[],
  more: {
    readonly tools: readonly ModelTool[]
    readonly limits: { readonly chars: number; readonly tokens: number } | undefined
  },
) {
  let body: string | undefined
  const fetch = async (_: unknown, init?: RequestInit) => {
    body = String(init?.body)
    return new Response('{"error":{"message":"no"}}', { status: 401 })
  }
  const view = new View()
  for (const event of log) view.add(event)
  const parsed = llm.parse({ model, api_key: 'k', num_retries: 0, ...defined(given) })
  const opened = openModel(parsed, { fetch })
  const result = await opened.generate({ messages: view.messages(more.limits), tools: more.tools }, never)
  if (body === undefined) throw new Error(`Nothing was sent: ${JSON.stringify(result)}`)
  return JSON.parse(body)
}

test(`no provider refuses a request (seed ${seed})`, async () => {
  const models = fc.constantFrom(...Object.keys(validators))
  const tools = fc.uniqueArray(tool, { minLength: 1, maxLength: 3, selector: ({ name }) => name })
  await fc.assert(
    fc.asyncProperty(
      models,
      settings,
      mixedHistory,
      tools,
      limits,
      async (model, given, log, tools, limits) => {
        const validator = validators[model]
        if (validator === undefined) throw new Error(model)
        const body = await bodyOf(model, given, log, { tools, limits })
        expect(refusalsOf(validator, body)).toEqual([])
      },
    ),
    { numRuns, seed, endOnFailure: false },
  )
}, 600_000)
