import type { StoredEvent } from '@slipway/storage'
import { expect, test } from 'vitest'
import { writeAtif } from './atif.ts'
import type { ExportSource, WriteFormat } from './format.ts'
import { writeHtml } from './html.ts'
import { writeMarkdown } from './markdown.ts'

const hostile = `</pre></article><script>alert(1)</script><img src=x onerror=alert(1)>"'&\n\`\`\`\`\n# not a heading`

const events = [
  { kind: 'SystemPromptEvent', source: 'agent', system_prompt: { text: hostile } },
  {
    kind: 'MessageEvent',
    source: 'user',
    timestamp: hostile,
    llm_message: {
      content: [
        { type: 'text', text: hostile },
        { type: 'image', image_urls: ['data:image/png;base64,AAAA', `data:image/png;base64,"${hostile}`] },
        { type: 'image', image_urls: ['https://example.com/track.png', 'data:image/svg+xml;base64,AAAA'] },
      ],
    },
  },
  { kind: 'ActionEvent', tool_name: hostile, thought: [{ text: hostile }], action: { command: hostile } },
  { kind: 'ObservationEvent', tool_name: 't', observation: { output: hostile, metadata: { exit_code: 2 } } },
  { kind: 'AgentErrorEvent', error: hostile },
  { kind: 'ConversationErrorEvent', code: hostile, detail: 7 },
  { kind: 'ACPToolCallEvent', title: hostile, raw_output: { hostile } },
  { kind: hostile, api_key: 'sk-secret', list: [null, hostile] },
  { kind: 'ActionEvent' },
  { kind: 'ObservationEvent', observation: null },
]

async function write(
  format: WriteFormat,
  log: readonly object[],
  title: string | null = null,
): Promise<string> {
  const stored = log.map((event, at) => ({ position: at + 1, bytes: Buffer.from(JSON.stringify(event)) }))
  async function* batches() {
    yield stored as unknown as StoredEvent[]
  }
  const infoReader = {
    readInfo: async () => ({
      agent: { llm: { model: 'example/model' } },
      metrics: { accumulated_cost: 0.5, accumulated_token_usage: { prompt_tokens: 9, completion_tokens: 2 } },
    }),
  }
  const record = { id: '7f3c1de2-52a4-4b1e-9a54-0c2f6a3b9d10', head: log.length, title, tags: {} }
  let text = ''
  for await (const chunk of format({ record, infoReader, batches: batches() } as unknown as ExportSource))
    text += chunk
  return text
}

test('a hostile log writes no markup, and the page loads nothing and runs nothing', async () => {
  const page = await write(writeHtml, events, hostile)
  expect(page).toContain("default-src 'none'")
  const tags = new Set([...page.matchAll(/<(\/?[a-z!1]+)/g)].map(([, tag]) => tag))
  expect([...tags].filter((tag) => !tag?.startsWith('/')).sort()).toEqual(
    ['!doctype', 'article', 'body', 'details', 'div', 'h1', 'head', 'html', 'img', 'main', 'meta'].concat([
      'p',
      'pre',
      'style',
      'summary',
      'title',
    ]),
  )
  expect([...page.matchAll(/<img [^>]*>/g)].map(([tag]) => tag)).toEqual([
    '<img alt="" src="data:image/png;base64,AAAA">',
  ])
  expect(page.match(/<article class="[a-z ]*" id="e\d+">/g)).toHaveLength(events.length)
  expect(page.match(/ failed"/g)).toHaveLength(3)
  expect(page).toContain('exit code 2')
  expect(page).not.toContain('sk-secret')
})

test('outputs of Markdown cannot leave their fence, names are one line, secrets are redacted', async () => {
  const text = await write(writeMarkdown, events)
  expect(text.startsWith('# 7f3c1de2')).toBe(true)
  expect(text).toContain('`````\n</pre>')
  expect(text.match(/^### #\d+ /gm)).toHaveLength(events.length)
  expect(text).toContain('exit code 2')
  expect(text).not.toContain('sk-secret')
})

test('an empty conversation is a page and a text', async () => {
  expect(await write(writeHtml, [])).toContain('0 events')
  expect(await write(writeMarkdown, [], 'A\ntitle')).toContain('# A …')
})

test('the calls of one reply are one step of ATIF, with their results; other events are counted', async () => {
  const call = (id: string, response: string, more: object = {}) => ({
    kind: 'ActionEvent',
    source: 'agent',
    timestamp: '2026-01-01T00:00:00',
    ...{ tool_name: 'terminal', tool_call_id: id, llm_response_id: response, thought: [{ text: id }] },
    ...{ tool_call: { arguments: '{"command":"ls"}' }, ...more },
  })
  const result = (id: string, exit_code: number) => ({
    kind: 'ObservationEvent',
    tool_call_id: id,
    observation: { content: [{ text: 'out' }], exit_code },
  })
  const log = [
    { kind: 'MessageEvent', source: 'user', timestamp: 'noon', llm_message: { content: 'Go' } },
    ...[call('a', 'r1', { reasoning_content: 'why' }), call('b', 'r1'), result('a', 0), result('b', 1)],
    ...[call('c', 'r2', { tool_call: {}, action: { kind: 'X', path: 'p' } }), call('d', 'r3')],
    ...[result('c', 0), { kind: 'PauseEvent' }, { kind: 'PauseEvent' }],
  ]
  const { steps, ...rest } = JSON.parse(await write(writeAtif, log, 'T'))
  const ok = { extra: { exit_code: 0 } }
  expect(steps).toMatchObject([
    { step_id: 1, source: 'user', message: 'Go' },
    {
      ...{ step_id: 2, source: 'agent', message: 'a', reasoning_content: 'why' },
      timestamp: '2026-01-01T00:00:00.000000Z',
      tool_calls: [{ tool_call_id: 'a', arguments: { command: 'ls' } }, { tool_call_id: 'b' }],
      observation: {
        results: [
          { source_call_id: 'a', content: 'out', ...ok },
          { source_call_id: 'b', extra: { exit_code: 1, is_error: true } },
        ],
      },
    },
    { step_id: 3, tool_calls: [{ tool_call_id: 'c', arguments: { path: 'p' } }] },
    { step_id: 4, tool_calls: [{ tool_call_id: 'd' }] },
    { step_id: 5, source: 'system', observation: { results: [{ extra: { tool_call_id: 'c' } }] } },
  ])
  expect(steps[0].timestamp).toBeUndefined()
  expect(rest).toMatchObject({
    schema_version: 'ATIF-v1.8',
    agent: { name: 'slipway', model_name: 'example/model' },
    final_metrics: { total_prompt_tokens: 9, total_cost_usd: 0.5, total_steps: 5 },
    notes: 'Events without a step: 2 PauseEvent.',
    extra: { title: 'T' },
  })
  expect(JSON.parse(await write(writeAtif, [])).steps).toHaveLength(1)
  expect(await write(writeAtif, events)).not.toContain('sk-secret')
})

test('no event of an import ends a page: a source without a text, a million fences, deep lists', async () => {
  const odd = { toString: 1 }
  let deep: unknown = Array.from({ length: 20_000 }, () => 1)
  for (let level = 0; level < 400; level++) deep = [deep]
  const log = [
    { kind: 'MessageEvent', source: odd, llm_message: { content: [{ type: 'text', text: 'said' }] } },
    { kind: 'ObservationEvent', source: odd, observation: { output: '` '.repeat(500_000) } },
    { kind: 'ActionEvent', source: odd, action: { deep } },
    { kind: 'ACPToolCallEvent', source: odd, raw_output: { deep } },
    { kind: 'Other', source: odd, deep },
    { kind: 'PauseEvent', source: 'user' },
  ]
  for (const format of [writeHtml, writeMarkdown, writeAtif]) {
    const page = await write(format, log)
    expect(page).toContain(format === writeAtif ? 'PauseEvent' : '#6 ')
    expect(page.length).toBeLessThan(10 * JSON.stringify(log).length)
  }
})
