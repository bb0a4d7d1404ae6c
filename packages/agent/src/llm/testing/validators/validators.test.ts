import { describe, expect, test } from 'vitest'
import { refusalsOf } from './rule.ts'
import { sign } from './signed.ts'
import { validators } from './validators.ts'

type Json = Record<string, unknown>
type Name =
  | 'openai'
  | 'responses'
  | 'anthropic'
  | 'gemini'
  | 'bedrock'
  | 'mistral'
  | 'deepseek'
  | 'kimi'
  | 'xai'

const models: Readonly<Record<Name, string>> = {
  openai: 'openai/gpt-4o',
  responses: 'openai/gpt-5',
  anthropic: 'anthropic/claude-sonnet-4-5',
  gemini: 'gemini/gemini-3-pro-preview',
  bedrock: 'bedrock/anthropic.claude-sonnet-4-5',
  mistral: 'mistral/mistral-large',
  deepseek: 'deepseek/deepseek-chat',
  kimi: 'moonshot/kimi-k2.5',
  xai: 'xai/grok-4',
}

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=='
const schema = { type: 'object', properties: { town: { type: 'string' } } }

/** What the requests of these tests differ in. */
interface Parts {
  readonly text?: string
  readonly id?: string
  readonly name?: string
  readonly tool?: string
  readonly schema?: Json
  readonly input?: Json
  readonly picture?: { readonly data: string; readonly type?: string; readonly count?: number }
  /** Without it, the call has no result. */
  readonly isAnswered?: boolean
  readonly more?: Json
  /** Of the message with the call, or of the call (Gemini). */
  readonly answer?: Json
}

function chat(parts: Parts, answer: Json = {}, id = 'call_1'): Json {
  const { text = 'Kiel?', tool = 'weather', input = { town: 'Kiel' }, isAnswered = true } = parts
  const callId = parts.id ?? id
  const call = { name: parts.name ?? 'weather', arguments: JSON.stringify(input) }
  return {
    ...{ model: 'm', stream: true },
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text },
          ...pictures(parts, (url) => ({ type: 'image_url', image_url: { url } })),
        ],
      },
      {
        ...{ role: 'assistant', content: '', tool_calls: [{ id: callId, type: 'function', function: call }] },
        ...{ ...answer, ...parts.answer },
      },
      ...(isAnswered ? [{ role: 'tool', tool_call_id: callId, content: 'rain' }] : []),
    ],
    tools: [
      { type: 'function', function: { name: tool, description: 'd', parameters: parts.schema ?? schema } },
    ],
    ...parts.more,
  }
}

function pictures<T>({ picture }: Parts, toPart: (url: string, data: string, type: string) => T): T[] {
  if (picture === undefined) return []
  const { data, type = 'image/png', count = 1 } = picture
  return Array.from({ length: count }, () => toPart(`data:${type};base64,${data}`, data, type))
}

function messages(parts: Parts): Json {
  const {
    text = 'Kiel?',
    id = 'toolu_1',
    name = 'weather',
    tool = 'weather',
    input = {},
    isAnswered = true,
  } = parts
  const source = (data: string, media_type: string) => ({ type: 'base64', media_type, data })
  return {
    ...{ model: 'm', max_tokens: 4000, stream: true },
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text },
          ...pictures(parts, (_, data, type) => ({ type: 'image', source: source(data, type) })),
        ],
      },
      { role: 'assistant', content: parts.answer?.content ?? [{ type: 'tool_use', id, name, input }] },
      {
        role: 'user',
        content: isAnswered
          ? [{ type: 'tool_result', tool_use_id: id, content: 'rain' }]
          : [{ type: 'text', text: 'And?' }],
      },
    ],
    tools: [{ name: tool, description: 'd', input_schema: parts.schema ?? schema }],
    ...parts.more,
  }
}

const bodies: Readonly<Record<Name, (parts: Parts) => Json>> = {
  openai: (parts) => chat(parts),
  mistral: (parts) =>
    chat({ ...parts, ...(parts.isAnswered === undefined && { isAnswered: true }) }, {}, 'abcdefghi'),
  deepseek: (parts) => {
    const body = chat(parts, { reasoning_content: '' })
    const [user, ...rest] = body.messages as Json[] // as made above
    return { ...body, messages: [{ ...user, content: parts.text ?? 'Kiel?' }, ...rest] }
  },
  kimi: (parts) => chat(parts, { reasoning_content: ' ' }),
  xai: (parts) => chat(parts),
  anthropic: messages,
  responses: (parts) => {
    const { text = 'Kiel?', id = 'call_1', name = 'weather', tool = 'weather', isAnswered = true } = parts
    const call = { type: 'function_call', call_id: id, name, arguments: JSON.stringify(parts.input ?? {}) }
    return {
      ...{ model: 'm', stream: true, store: false },
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text },
            ...pictures(parts, (image_url) => ({ type: 'input_image', image_url })),
          ],
        },
        ...((parts.answer?.items as Json[] | undefined) ?? [call]), // the tests below give items
        ...(isAnswered ? [{ type: 'function_call_output', call_id: id, output: 'rain' }] : []),
      ],
      tools: [
        { type: 'function', name: tool, description: 'd', parameters: parts.schema ?? schema, strict: false },
      ],
      ...parts.more,
    }
  },
  gemini: (parts) => {
    const {
      text = 'Kiel?',
      id = 'c',
      name = 'weather',
      tool = 'weather',
      input = {},
      isAnswered = true,
    } = parts
    const signature = { thoughtSignature: sign('gemini', JSON.stringify(input)) }
    return {
      contents: [
        {
          role: 'user',
          parts: [{ text }, ...pictures(parts, (_, data, mimeType) => ({ inlineData: { mimeType, data } }))],
        },
        {
          role: 'model',
          parts: [{ functionCall: { id, name, args: input }, ...(parts.answer ?? signature) }],
        },
        ...(isAnswered
          ? [{ role: 'user', parts: [{ functionResponse: { id, name, response: { content: 'rain' } } }] }]
          : [{ role: 'user', parts: [{ text: 'And?' }] }]),
      ],
      generationConfig: {},
      tools: [
        {
          functionDeclarations: [
            { name: tool, description: 'd', parametersJsonSchema: parts.schema ?? schema },
          ],
        },
      ],
      ...parts.more,
    }
  },
  bedrock: (parts) => {
    const {
      text = 'Kiel?',
      id = 'toolu_1',
      name = 'weather',
      tool = 'weather',
      input = {},
      isAnswered = true,
    } = parts
    return {
      messages: [
        {
          role: 'user',
          content: [
            { text },
            ...pictures(parts, (_, bytes, type) => ({ image: { format: type.slice(6), source: { bytes } } })),
          ],
        },
        {
          role: 'assistant',
          content: parts.answer?.content ?? [{ toolUse: { toolUseId: id, name, input } }],
        },
        {
          role: 'user',
          content: isAnswered
            ? [{ toolResult: { toolUseId: id, content: [{ text: 'rain' }] } }]
            : [{ text: 'And?' }],
        },
      ],
      toolConfig: {
        tools: [
          { toolSpec: { name: tool, description: 'd', inputSchema: { json: parts.schema ?? schema } } },
        ],
      },
      ...parts.more,
    }
  },
}

function rulesOf(name: Name, parts: Parts = {}): string[] {
  const validator = validators[models[name]]
  if (validator === undefined) throw new Error(name)
  return [...new Set(refusalsOf(validator, bodies[name](parts)).map(({ rule }) => rule))]
}

const names = Object.keys(models) as Name[] // of the record above
const chats: readonly Name[] = ['openai', 'mistral', 'deepseek', 'kimi', 'xai']
const half = '\ud82d'
const thought = (order: string, index: number, text = 'Hm.') => ({
  ...{ type: 'thinking', thinking: text, signature: sign('claude', text, order, index) },
})
const use = (id: string) => ({ type: 'tool_use', id, name: 'weather', input: {} })

test.each(names)('%s takes a plain request', (name) => {
  expect(rulesOf(name)).toEqual([])
})

const large = (width: number) => {
  const bytes = Buffer.from(png, 'base64')
  bytes.writeUInt32BE(width, 16)
  return bytes.toString('base64')
}
const cut = Buffer.from(png, 'base64').subarray(0, 40).toString('base64')

/** Requests as they were before each fix. */
const cases: readonly (readonly [what: string, names: readonly Name[], parts: Parts, rule: string])[] = [
  [
    'thoughts that moved before a text',
    ['anthropic'],
    {
      answer: {
        content: [thought('rtrc', 0), thought('rtrc', 2), { type: 'text', text: 'So.' }, use('toolu_1')],
      },
    },
    'order',
  ],
  [
    'thoughts that moved before a call',
    ['anthropic'],
    { answer: { content: [thought('rcr', 0), thought('rcr', 2), use('toolu_1')] } },
    'order',
  ],
  [
    'a changed thought',
    ['anthropic'],
    { answer: { content: [{ ...thought('rc', 0), thinking: 'Hm' }, use('toolu_1')] } },
    'signatures',
  ],
  ['half a character in a text', names, { text: half }, 'well-formed'],
  ['half a character in arguments', names, { input: { town: half } }, 'well-formed'],
  ['half a character in a schema', names, { schema: { ...schema, description: half } }, 'well-formed'],
  [
    'half a character in the name of a property',
    names,
    { schema: { type: 'object', properties: { [half]: {} } } },
    'well-formed',
  ],
  [
    'a picture with an edge above 8,000',
    ['anthropic', 'bedrock'],
    { picture: { data: large(8001) } },
    'picture-edges',
  ],
  [
    'the 21st picture with an edge above 2,000',
    ['anthropic'],
    { picture: { data: large(2001), count: 21 } },
    'picture-edges',
  ],
  ['101 pictures', ['anthropic'], { picture: { data: png, count: 101 } }, 'picture-count'],
  ['21 pictures', ['bedrock'], { picture: { data: png, count: 21 } }, 'picture-count'],
  ['nine pictures', ['mistral'], { picture: { data: png, count: 9 } }, 'picture-count'],
  [
    'PNG declared as JPEG',
    names.filter((one) => one !== 'deepseek'),
    { picture: { data: png, type: 'image/jpeg' } },
    'picture-type',
  ],
  ['a cut PNG', names.filter((one) => one !== 'deepseek'), { picture: { data: cut } }, 'picture-data'],
  [
    'reasoning of another provider',
    ['responses'],
    {
      answer: {
        items: [
          { type: 'reasoning', id: 'rs_1', encrypted_content: sign('claude', ''), summary: [] },
          { type: 'function_call', call_id: 'call_1', name: 'weather', arguments: '{}' },
        ],
      },
    },
    'reasoning',
  ],
  [
    'a schema of forms',
    ['openai', 'responses', 'anthropic', 'bedrock'],
    { schema: { type: 'object', anyOf: [{}], properties: {} } },
    'schema-top',
  ],
  ['a schema without a type', names, { schema: { properties: {} } }, 'schema-type'],
  ['a parameter that no one knows', names, { more: { unknown_parameter: 1 } }, 'members'],
  ['a name with a dot', names, { name: 'repo_browser.print_tree' }, 'tool-name'],
  ['a name with a space', names, { name: 'my tool' }, 'tool-name'],
  ['a name of other letters', names, { name: '読む' }, 'tool-name'],
  ['a name of 300 letters', names, { name: 't'.repeat(300) }, 'tool-name'],
  ['an id of 41 characters', ['openai'], { id: 'c'.repeat(41) }, 'call-id'],
  ['an id of 65 characters', ['responses', 'bedrock'], { id: 'c'.repeat(65) }, 'call-id'],
  ['an id with a colon', ['anthropic', 'bedrock', 'mistral'], { id: 'functions.weather:0' }, 'call-id'],
  [
    'a member of Gemini in a call',
    chats,
    {
      answer: {
        tool_calls: [
          {
            id: 'abcdefghi',
            type: 'function',
            function: { name: 'weather', arguments: '{}' },
            extra_content: { google: {} },
          },
        ],
      },
      id: 'abcdefghi',
    },
    'members',
  ],
  [
    'a call without reasoning',
    ['deepseek', 'kimi'],
    { answer: { reasoning_content: undefined } },
    'reasoning',
  ],
  ['a call with an empty reasoning', ['kimi'], { answer: { reasoning_content: '' } }, 'reasoning'],
  ['a call without a signature', ['gemini'], { answer: {} }, 'missing-signature'],
  [
    'a call with the signature of another',
    ['gemini'],
    { answer: { thoughtSignature: sign('gemini', '{"a":1}') } },
    'moved-signature',
  ],
  [
    'a call with the signature of Claude',
    ['gemini'],
    { answer: { thoughtSignature: sign('claude', '{}') } },
    'foreign-signature',
  ],
  ['a call without a result', names, { isAnswered: false }, 'answered-calls'],
  ['a blank text', ['anthropic', 'bedrock'], { text: ' \n' }, 'blank-text'],
  ['no content beside a call', ['xai'], { answer: { content: null } }, 'contents'],
  [
    'a name of a property with a dollar',
    ['anthropic', 'bedrock'],
    { schema: { type: 'object', properties: { $top: {} } } },
    'schema-keys',
  ],
  [
    'five marks for a cache',
    ['anthropic'],
    { more: { system: Array(5).fill({ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }) } },
    'marks',
  ],
  [
    'a temperature beside thinking',
    ['anthropic'],
    { more: { temperature: 0.5, thinking: { type: 'enabled', budget_tokens: 2000 } } },
    'thinking-parameters',
  ],
  [
    'a call without thoughts beside thinking',
    ['anthropic'],
    { more: { thinking: { type: 'enabled', budget_tokens: 2000 } } },
    'thinking-first',
  ],
]

describe.each(cases)('%s is refused', (_, refusing, parts, rule) => {
  test.each(refusing)('by %s', (name) => {
    expect(rulesOf(name, parts)).toContain(rule)
  })
})

test('every rule has its source and words', () => {
  for (const { rules } of Object.values(validators)) {
    expect(new Set(rules.map(({ id }) => id)).size).toBe(rules.length)
    for (const rule of rules) {
      expect(rule.source).not.toBe('')
      expect(rule.says({ at: 'messages.1.content.0', what: 'x' })).not.toBe('')
    }
  }
})
