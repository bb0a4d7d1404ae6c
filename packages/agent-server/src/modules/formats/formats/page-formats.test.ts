import type { StoredEvent } from '@slipway/storage'
import { expect, test } from 'vitest'
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
  const record = { id: '7f3c1de2-52a4-4b1e-9a54-0c2f6a3b9d10', head: log.length, title, tags: {} }
  let text = ''
  for await (const chunk of format({ record, batches: batches() } as unknown as ExportSource)) text += chunk
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
