import type { Message } from '@slipway/protocol'
import { parseJsonObject, wellFormed } from '@slipway/shared/json'
import fc from 'fast-check'
import sharp from 'sharp'
import type { SdkStreamPart } from '../../llm/request/sdk-types.ts'
import { ResponseAccumulator } from '../../llm/response/accumulator.ts'
import { assistantMessage } from '../../llm/response/assistant-message.ts'
import type { ModelRoute } from '../../llm/route.ts'
import { sign } from '../../llm/testing/validators/signed.ts'
import type { LogEvent } from '../view/log-event.ts'

/**
 * Random logs of conversations in which models of several providers took turns: texts, names, ids, pictures
 * and pieces of reasoning as they may come from any of them. The messages of models are made by the code that
 * reads answers; their signatures say who made them (`signed.ts`).
 */

const half = '\ud82d'
const texts = fc.constantFrom(
  ...['Look into the tests, please.', '', ' ', '\n\t', `cut ${half}`, half, '\0'],
  ...['äöü 🙂'.repeat(30), 'x'.repeat(400)],
)
const said = fc.constantFrom('I look.', `So: ${half}`, '\n\n', ' ', 'Done 🙂.', 'y'.repeat(120), '')
const names = fc.constantFrom(
  ...['terminal', 'file_editor', 'repo_browser.print_tree', 'my tool', '読む', 't'.repeat(300), ''],
  ...['_private', '9lives', `cut${half}`, 'my_tool'],
)
const ids = fc.constantFrom(
  ...['call_1', 'call_2', 'call_2', 'functions.terminal:0', 'toolu_01A-b.c:d', 'toolu_01A-b:c:d', ''],
  ...['c'.repeat(80), `c${half}`, 'abcdefghi', 'call 3', 'ключ'],
)
const inputs = fc.constantFrom(
  ...['{"command":"ls"}', '{}', '', '[1]', '{"broken": ', 'null', `{"a":"${half}"}`],
  ...['{"a":"\\ud82d","b":{"\\ude00":1}}', '{ "a" : 1.50 }', '"text"'],
)

async function picture(width: number, height: number, type: 'png' | 'jpeg' | 'gif' | 'webp' = 'png') {
  const image = sharp({ create: { width, height, channels: 3, background: 'red' } })
  return await image.toFormat(type).toBuffer()
}

const dataUrl = (bytes: Buffer, type: string) => `data:image/${type};base64,${bytes.toString('base64')}`
const small = await picture(4, 3)
const pictureUrls = [
  dataUrl(small, 'png'),
  dataUrl(small, 'jpeg'),
  dataUrl(small.subarray(0, small.length - 20), 'png'),
  dataUrl(await picture(8100, 1), 'png'),
  dataUrl(await picture(3, 2100), 'png'),
  ...(await Promise.all(
    (['jpeg', 'gif', 'webp'] as const).map(async (type) => dataUrl(await picture(4, 3, type), type)),
  )),
  'data:image/svg+xml;base64,PHN2Zy8+',
  'data:image/png;base64,AAAA',
  'data:image/png,none',
  'https://h.test/a.png',
  'no address',
]
const pictures = fc.oneof(
  { weight: 60, arbitrary: fc.constant<string[]>([]) },
  { weight: 20, arbitrary: fc.array(fc.constantFrom(...pictureUrls), { minLength: 1, maxLength: 2 }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(22, 104).map((count) => Array<string>(count).fill(pictureUrls[0] ?? '')),
  },
)

const vendors = [
  ...(['claude', 'bedrock', 'gemini', 'openai', 'openrouter', 'unknown'] as const),
  ...(['deepseek', 'moonshot', 'xai', 'mistral'] as const),
] as const
type Vendor = (typeof vendors)[number]

const servers: Readonly<Partial<Record<Vendor, string>>> = {
  deepseek: 'https://api.deepseek.com/v1',
  moonshot: 'https://api.moonshot.ai/v1',
  xai: 'https://api.x.ai/v1',
  mistral: 'https://api.mistral.ai/v1',
  openrouter: 'https://openrouter.ai/api/v1',
  unknown: 'https://models.test/v1',
}

function routeOf(vendor: Vendor): ModelRoute {
  const name = 'm'
  if (vendor === 'claude') return { provider: 'anthropic', api: 'anthropic', name, baseUrl: undefined }
  if (vendor === 'gemini') return { provider: 'google', api: 'google', name, baseUrl: undefined }
  if (vendor === 'bedrock') return { provider: 'bedrock', api: 'bedrock', name, baseUrl: undefined }
  if (vendor === 'openai') return { provider: 'openai', api: 'responses', name, baseUrl: undefined }
  const provider = vendor === 'unknown' ? 'openai-compatible' : vendor
  return { provider, api: 'compatible', name, baseUrl: servers[vendor] }
}

interface Call {
  readonly name: string
  readonly id: string
  readonly input: string
  readonly outcome: 'observation' | 'error' | 'reject' | 'none' | 'twice'
  readonly text: string
  readonly pictures: readonly string[]
}

interface Turn {
  readonly step: 'turn'
  readonly vendor: Vendor
  /** Of thoughts (r), hidden thoughts (h), texts (t) and calls (c). */
  readonly order: string
  readonly said: readonly string[]
  readonly calls: readonly Call[]
  readonly isSigned: boolean
  readonly isInterrupted: boolean
}

type Step =
  | Turn
  | { readonly step: 'user'; readonly texts: readonly string[]; readonly pictures: readonly string[] }
  | { readonly step: 'system'; readonly text: string }
  | { readonly step: 'late' | 'other'; readonly pick: number }
  | {
      readonly step: 'condensation'
      readonly picks: readonly number[]
      readonly summary: string | null
      readonly offset: number
    }

const call = fc.record<Call>({
  ...{ name: names, id: ids, input: inputs, text: texts, pictures },
  outcome: fc.constantFrom('observation', 'observation', 'observation', 'error', 'reject', 'twice', 'none'),
})
const turn = fc.record<Turn>({
  step: fc.constant('turn'),
  vendor: fc.constantFrom(...vendors),
  order: fc.stringMatching(/^[rhtc]{1,6}$/),
  said: fc.array(said, { minLength: 6, maxLength: 6 }),
  calls: fc.array(call, { minLength: 6, maxLength: 6 }),
  isSigned: fc.boolean(),
  isInterrupted: fc.boolean(),
})
const user = fc.record({
  step: fc.constant('user' as const),
  texts: fc.array(texts, { maxLength: 2 }),
  pictures,
})
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: turn },
  { weight: 8, arbitrary: user },
  { weight: 1, arbitrary: fc.record({ step: fc.constant('system' as const), text: texts }) },
  {
    weight: 1,
    arbitrary: fc.record({ step: fc.constantFrom('late' as const, 'other' as const), pick: fc.nat() }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      step: fc.constant('condensation' as const),
      picks: fc.array(fc.nat(), { maxLength: 8 }),
      summary: fc.option(texts),
      offset: fc.nat({ max: 6 }),
    }),
  },
)

/**
 * A log whose next step is a request: it ends with a message of the user or with the results of all calls.
 */
export const mixedHistory: fc.Arbitrary<LogEvent[]> = fc
  .tuple(fc.array(step, { maxLength: 7 }), user, turn, fc.boolean())
  .map(([steps, last, answered, isAnswered]) => {
    const log: LogEvent[] = []
    const end: Step[] = isAnswered ? [last, withResults(answered)] : [last]
    for (const [index, one] of [...steps, ...end].entries()) log.push(...eventsOf(one, `e${index}`, log))
    return log
  })

function withResults(one: Turn): Turn {
  const calls = one.calls.map((call) =>
    call.outcome === 'none' ? { ...call, outcome: 'error' as const } : call,
  )
  return { ...one, order: `${one.order.slice(0, 5)}c`, calls }
}

function eventsOf(one: Step, id: string, log: readonly LogEvent[]): LogEvent[] {
  const pickId = (pick: number) => log[pick % Math.max(1, log.length)]?.id ?? 'none'
  switch (one.step) {
    case 'turn':
      return turnEvents(one, id)
    case 'user': {
      const content = contentOf(one.texts, one.pictures)
      const llm_message = { role: 'user' as const, content }
      return [{ id, kind: 'MessageEvent', source: 'user', llm_message }]
    }
    case 'system': {
      const system_prompt = { type: 'text' as const, text: one.text }
      return [
        { id, kind: 'SystemPromptEvent', source: 'agent', system_prompt, tools: [], dynamic_context: null },
      ]
    }
    case 'late':
      return [
        { id, kind: 'ConversationStateUpdateEvent', key: 'last_user_message_id', value: pickId(one.pick) },
      ]
    case 'other':
      return [{ id, kind: 'PauseEvent' }]
    case 'condensation': {
      const forgotten_event_ids = one.picks.map(pickId)
      const { summary, offset: summary_offset } = one
      return [{ id, kind: 'Condensation', forgotten_event_ids, summary, summary_offset, llm_response_id: id }]
    }
  }
}

function contentOf(texts: readonly string[], urls: readonly string[]): Message['content'] {
  return [
    ...texts.map((text) => ({ type: 'text' as const, text, cache_prompt: false })),
    ...urls.map((url) => ({ type: 'image' as const, image_urls: [url], cache_prompt: false })),
  ]
}

/** As `eventsFromModelTurn` makes them; calls without results and second results come from elsewhere. */
function turnEvents(one: Turn, id: string): LogEvent[] {
  const message = messageOf(one, id)
  const used = new Set<string>()
  const calls = (message.tool_calls ?? []).map((tool_call, index) => {
    const own = used.has(tool_call.id) ? { ...tool_call, id: `${tool_call.id}-${index}` } : tool_call
    used.add(own.id)
    return own
  })
  const { content, reasoning_content, thinking_blocks, responses_reasoning_item } = message
  if (calls.length === 0) return [{ id, kind: 'MessageEvent', source: 'agent', llm_message: message }]
  const actions = calls.map(
    (tool_call, index): LogEvent => ({
      ...{ id: `${id}a${index}`, kind: 'ActionEvent', source: 'agent', llm_response_id: id, tool_call },
      ...{ tool_name: tool_call.name, tool_call_id: tool_call.id, thought: [], thinking_blocks: [] },
      ...(index === 0 && {
        thought: content.filter((part) => part.type === 'text'),
        ...{ reasoning_content, thinking_blocks, responses_reasoning_item },
      }),
    }),
  )
  const results = calls.flatMap((tool_call, index) => {
    const given = one.calls[index]
    return given === undefined ? [] : resultEvents(given, `${id}a${index}`, tool_call)
  })
  const between: LogEvent[] = one.isInterrupted
    ? [
        {
          id: `${id}m`,
          kind: 'MessageEvent',
          source: 'user',
          llm_message: { role: 'user', content: contentOf(['And?'], []) },
        },
      ]
    : []
  return [...actions, ...between, ...results]
}

function resultEvents(
  { outcome, text, pictures: urls }: Call,
  action_id: string,
  call: { readonly id: string; readonly name: string },
): LogEvent[] {
  const own = { tool_name: call.name, tool_call_id: call.id }
  const error: LogEvent = { ...own, id: `${action_id}e`, kind: 'AgentErrorEvent', error: text }
  const observation: LogEvent = {
    ...{ ...own, id: `${action_id}o`, kind: 'ObservationEvent', source: 'environment', action_id },
    observation: {
      ...{ kind: 'TerminalObservation', command: 'ls', content: contentOf([text], urls) },
      is_error: text === '',
    },
  }
  if (outcome === 'none') return []
  if (outcome === 'error') return [error]
  if (outcome === 'twice') return [error, observation]
  if (outcome === 'observation') return [observation]
  return [{ ...own, id: `${action_id}r`, kind: 'UserRejectObservation', action_id, rejection_reason: text }]
}

/** The message of an answer, by the code that reads answers. */
function messageOf(one: Turn, id: string): Message {
  const response = new ResponseAccumulator(undefined)
  for (const part of partsOf(one, id)) response.add(part)
  return JSON.parse(JSON.stringify(assistantMessage(response, routeOf(one.vendor), new Set(), new Map())))
}

function partsOf({ vendor, order, said, calls, isSigned }: Turn, id: string): SdkStreamPart[] {
  // Blank texts are not sent, and only Claude hides thoughts.
  const letters = [...order].map((letter) => (letter === 'h' ? 'r' : letter))
  const isBlank = (at: number) => letters[at] === 't' && (said[at] ?? '').trim() === ''
  const hides = vendor === 'claude' || vendor === 'bedrock'
  const isHidden = (at: number) => hides && order[at] === 'h'
  const shown = letters.filter((_, at) => !isBlank(at) && !isHidden(at)).join('')
  let callCount = 0
  return letters.flatMap((letter, at): SdkStreamPart[] => {
    const part = `${id}p${at}`
    const index = letters.slice(0, at).filter((_, before) => !isBlank(before) && !isHidden(before)).length
    const text = letter === 't' ? (said[at] ?? '') : `Thought ${part}. ${half}`
    if (letter !== 'c') {
      const type = letter === 't' ? 'text' : 'reasoning'
      const place = { text: isHidden(at) ? '' : text, part, order: shown, index, isHidden: isHidden(at) }
      const metadata =
        isSigned || vendor === 'claude' || vendor === 'bedrock' ? pieceOf(vendor, type, place) : {}
      const own = { id: part, providerMetadata: metadata }
      const delta = isHidden(at) ? '' : text
      const raw = { choices: [{ delta: { reasoning_content: delta } }] }
      const members: SdkStreamPart[] = type === 'reasoning' ? [{ type: 'raw', rawValue: raw }] : []
      const start: SdkStreamPart = { type: `${type}-start`, ...own }
      return [
        ...members,
        start,
        { type: `${type}-delta`, id: part, delta },
        { type: `${type}-end`, id: part },
      ]
    }
    const one = calls[callCount++]
    if (one === undefined) return []
    const input = JSON.stringify(wellFormed(parseJsonObject(one.input) ?? {}))
    const isFirst = callCount === 1
    const signature = { thoughtSignature: sign('gemini', input) }
    const key = vendor === 'gemini' ? 'google' : 'openaiCompatible'
    const hasSignature = isFirst && isSigned && (vendor === 'gemini' || vendor === 'unknown')
    return [
      { type: 'tool-input-start', id: part, toolName: one.name },
      {
        ...{ type: 'tool-call', toolCallId: one.id, toolName: one.name, input: one.input },
        providerMetadata: hasSignature ? { [key]: signature } : {},
      },
    ]
  })
}

interface Place {
  readonly text: string
  readonly part: string
  readonly order: string
  readonly index: number
  readonly isHidden: boolean
}

/** What a provider adds to a text or thought. */
function pieceOf(vendor: Vendor, type: 'text' | 'reasoning', { text, part, ...place }: Place) {
  const signed = wellFormed(text)
  if (vendor === 'gemini') return { google: { thoughtSignature: sign('gemini', signed.trim()) } }
  if (vendor === 'openai' && type === 'text') return { openai: { phase: 'commentary' } }
  if (vendor === 'openai')
    return { openai: { itemId: `rs_${part}`, reasoningEncryptedContent: sign('openai', signed) } }
  if (type === 'text') return {}
  const signature = sign('claude', signed, place.order, place.index)
  if (vendor === 'claude') return { anthropic: place.isHidden ? { redactedData: signature } : { signature } }
  if (vendor === 'bedrock')
    return { amazonBedrock: place.isHidden ? { redactedContent: signature } : { signature } }
  return {}
}
