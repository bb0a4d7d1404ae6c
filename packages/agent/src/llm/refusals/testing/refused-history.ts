import { crc32, deflateSync } from 'node:zlib'
import { llm, type Message } from '@slipway/protocol'
import type { ModelTool } from '../../model.ts'
import { encodeOrigin } from '../../request/provider-metadata.ts'

export type Wire = 'chat' | 'responses' | 'anthropic' | 'google' | 'bedrock' | 'compatible'

const models: Readonly<Record<Wire, string>> = {
  chat: 'openai/gpt-4o',
  responses: 'openai/gpt-5',
  anthropic: 'anthropic/claude-sonnet-4-5',
  google: 'gemini/gemini-2.5-pro',
  bedrock: 'bedrock/anthropic.claude-sonnet-4-5',
  compatible: 'openai-compatible/m',
}

export function settingsOf(wire: Wire, url: string) {
  const base_url = wire === 'anthropic' || wire === 'google' || wire === 'bedrock' ? url : `${url}/v1`
  return llm.parse({
    ...{ model: models[wire], base_url, api_key: 'sk-test', num_retries: 0 },
    ...{ temperature: 0.5, top_p: 0.9, top_k: 40, seed: 7, max_output_tokens: 100_000 },
    ...(wire === 'responses' && { api_mode: 'responses' }),
    ...(['responses', 'compatible', 'google'].includes(wire) && { reasoning_effort: 'low' }),
    ...(wire === 'anthropic' && { extended_thinking_budget: 4096 }),
  })
}

/** A picture of one pixel. */
function png(shade: number): string {
  const chunk = (type: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(type), data])
    const ends = Buffer.alloc(8)
    ends.writeUInt32BE(data.length)
    ends.writeUInt32BE(crc32(body), 4)
    return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)])
  }
  const size = Buffer.from([0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0])
  const bytes = Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', size),
    chunk('IDAT', deflateSync(Buffer.from([0, shade]))),
    chunk('IEND', Buffer.alloc(0)),
  ])
  return bytes.toString('base64')
}

export const pictures = { first: png(10), second: png(200) }
export const encrypted = 'gAAAAABo1234567890encrypted'
export const signature = 'EqQBCgIYAhIM1234567890sig'

const text = (value: string) => ({ type: 'text' as const, text: value, cache_prompt: false })
const image = (data: string) => ({
  type: 'image' as const,
  image_urls: [`data:image/png;base64,${data}`],
  cache_prompt: false,
})
const none = { thinking_blocks: [] }

const tool = (name: string, parameters: Record<string, unknown>): ModelTool => ({
  name,
  description: `Does ${name}.`,
  parameters,
})

export const tools: readonly ModelTool[] = [
  tool('grep', { type: 'object', properties: { pattern: { type: 'string' } }, required: ['pattern'] }),
  tool('mcp_search', {
    type: 'object',
    anyOf: [{ required: ['query'] }, { required: ['mode'] }],
    properties: {
      query: { type: 'string' },
      mode: { anyOf: [{ type: 'integer', enum: [1, 2] }, { type: 'null' }] },
    },
  }),
  tool('finish', { type: 'object', properties: { message: { type: 'string' } } }),
]

/** A history with every kind of thing that servers refuse. */
export function history(wire: Wire, host: string): readonly Message[] {
  const reasoning: Partial<Record<Wire, Partial<Message>>> = {
    anthropic: { thinking_blocks: [{ type: 'thinking', thinking: 'Hm.', signature }] },
    bedrock: { thinking_blocks: [{ type: 'thinking', thinking: 'Hm.', signature }] },
    google: {
      thinking_blocks: [{ type: 'thinking', thinking: 'Hm.', signature: `google:thought:${signature}` }],
    },
    responses: {
      responses_reasoning_item: { id: 'rs_1234567890', summary: ['Hm.'], encrypted_content: encrypted },
    },
    compatible: {
      reasoning_content: 'Hm.',
      thinking_blocks: [encodeOrigin({ server: host, member: 'reasoning_content' })],
    },
  }
  const calls = ['call_one_1', 'call_two_2']
  return [
    { role: 'system', content: [{ ...text('You help.'), cache_prompt: true }], ...none },
    { role: 'user', content: [text('Look at this.'), image(pictures.first)], ...none },
    {
      role: 'assistant',
      content: [text('I look.')],
      tool_calls: calls.map((id, at) => ({
        id,
        name: tools[at]?.name ?? '',
        arguments: JSON.stringify({ query: `towns ${at}` }),
        origin: 'completion',
      })),
      ...none,
      ...reasoning[wire],
    },
    { role: 'tool', tool_call_id: 'call_one_1', name: 'grep', content: [text('grey POISON')], ...none },
    {
      role: 'tool',
      tool_call_id: 'call_two_2',
      name: 'mcp_search',
      content: [text('rain'), image(pictures.second)],
      ...none,
    },
    { role: 'assistant', content: [text('It rains.')], ...none },
    { role: 'user', content: [{ ...text('And now?'), cache_prompt: true }], ...none },
  ]
}

/**
 * Paths at which two values differ; `-1` behind a list that has become shorter, `order` behind one of names.
 */
export function differences(before: unknown, after: unknown, path = ''): string[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return []
  const at = (name: string | number) => (path === '' ? String(name) : `${path}.${name}`)
  if (Array.isArray(before) && Array.isArray(after)) {
    if (before.length !== after.length) return [`${path} ${after.length - before.length}`]
    return before.flatMap((one, index) => differences(one, after[index], at(index)))
  }
  const isPlain = (value: unknown): value is object => typeof value === 'object' && value !== null
  if (!isPlain(before) || !isPlain(after) || Array.isArray(before) !== Array.isArray(after)) return [path]
  if (Reflect.get(before, 'type') !== Reflect.get(after, 'type')) return [path]
  if (!Object.keys(before).some((name) => name in after)) return [path]
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  const kept = Object.keys(before).filter((name) => name in after)
  if (kept.some((name, index) => Object.keys(after)[index] !== name)) return [`${path} order`]
  return [...names].flatMap((name) =>
    name in before && name in after
      ? differences(Reflect.get(before, name), Reflect.get(after, name), at(name))
      : [at(name)],
  )
}

/** The path of the first text or name that has a mark. */
export function pathOf(node: unknown, mark: string): (string | number)[] | undefined {
  if (typeof node === 'string') return node.includes(mark) ? [] : undefined
  if (typeof node !== 'object' || node === null) return undefined
  for (const [name, value] of Object.entries(node)) {
    const key = Array.isArray(node) ? Number(name) : name
    if (name === mark) return [key]
    const found = pathOf(value, mark)
    if (found !== undefined) return [key, ...found]
  }
  return undefined
}
