import type { Message } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { modelCapabilities } from '../capabilities/capabilities.ts'
import type { ModelRoute, ProviderApi } from '../route.ts'
import { toPrompt } from './prompt.ts'
import { encodeProviderMetadata, googleThoughtBlock, withSomeCalls } from './provider-metadata.ts'
import type { SdkPrompt } from './sdk-types.ts'

const apis: readonly ProviderApi[] = ['chat', 'responses', 'anthropic', 'google', 'bedrock', 'compatible']

function route(api: ProviderApi): ModelRoute {
  return {
    api,
    provider: api === 'chat' || api === 'responses' ? 'openai' : api,
    name: 'm',
    baseUrl: undefined,
  }
}

function project(
  messages: readonly Message[],
  api: ProviderApi,
  more: { hasVision?: boolean; canCache?: boolean } = {},
) {
  const { hasVision = true, canCache = true } = more
  const capabilities = modelCapabilities(route(api), { supports_vision: hasVision })
  return toPrompt(messages, { route: route(api), capabilities, canCache })
}

function message(role: Message['role'], content: Message['content'], more: Partial<Message> = {}): Message {
  return { role, content, thinking_blocks: [], ...more }
}

function text(value: string, cache_prompt = false): Message['content'][number] {
  return { type: 'text', text: value, cache_prompt }
}

function image(...image_urls: string[]): Message['content'][number] {
  return { type: 'image', image_urls, cache_prompt: false }
}

/** The calls and results of a prompt, in order. */
function describePrompt(prompt: SdkPrompt): string[] {
  return prompt.flatMap(({ content }) => {
    if (typeof content === 'string') return []
    return content.flatMap((part) => {
      if (part.type === 'tool-call') return [`call ${part.toolCallId} ${part.toolName}`]
      return part.type === 'tool-result' ? [`result ${part.toolCallId} ${part.toolName}`] : []
    })
  })
}

const name = fc.stringMatching(/^[a-z][a-z_]{0,11}$/)
const args = fc.oneof(fc.json(), fc.string(), fc.constant('{"a": 1}'))
const turn = fc.record({
  calls: fc.array(fc.tuple(name, args), { maxLength: 4 }),
  said: fc.string(),
  answer: fc.string(),
})

/** A conversation of turns: each a question, an answer with calls, and their results. */
function conversation(
  turns: readonly { calls: readonly (readonly [string, string])[]; said: string; answer: string }[],
) {
  return turns.flatMap(({ calls, said, answer }, at): Message[] => {
    const tool_calls = calls.map(([name, text], i) => ({
      id: `call_${at}_${i}`,
      name,
      arguments: text,
      origin: 'completion' as const,
    }))
    return [
      message('user', [text(said)]),
      message('assistant', [text(answer)], { tool_calls }),
      ...tool_calls.map(({ id, name }) => message('tool', [text(`did ${id}`)], { tool_call_id: id, name })),
    ]
  })
}

test.each(apis)(
  '%s: calls and results keep their ids, names and order, whatever their arguments are',
  (api) => {
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 6 }), (turns) => {
        const expected = turns.flatMap(({ calls }, at) => [
          ...calls.map(([name], i) => `call call_${at}_${i} ${name}`),
          ...calls.map(([name], i) => `result call_${at}_${i} ${name}`),
        ])
        const messages = conversation(turns)
        const before = JSON.stringify(messages)
        expect(describePrompt(project(messages, api))).toEqual(expected)
        expect(JSON.stringify(messages)).toBe(before)
      }),
    )
  },
)

test.each(apis)('%s: results of one answer stand together, right behind it', (api) => {
  fc.assert(
    fc.property(fc.array(turn, { maxLength: 4 }), (turns) => {
      const prompt = project(conversation(turns), api)
      for (const [at, { role }] of prompt.entries()) {
        if (role === 'tool') expect(prompt[at - 1]?.role).toBe('assistant')
      }
    }),
  )
})

test('arguments that are an object go as the text they came as, others as an empty object', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), (object, other) => {
      const sent = (received: string, api: ProviderApi) => {
        const call = { id: 'a', name: 't', arguments: received, origin: 'completion' as const }
        const prompt = project([message('assistant', [], { tool_calls: [call] })], api)
        const part = prompt.flatMap((one) => (one.role === 'assistant' ? one.content : []))[0]
        return part?.type === 'tool-call' ? part.input : 'no call'
      }
      const received = JSON.stringify(object, undefined, 1)
      expect(sent(received, 'compatible')).toBe(received)
      expect(sent(received, 'anthropic')).toEqual(JSON.parse(received))
      expect(sent(`{${other}`, 'chat')).toEqual(isObject(`{${other}`) ? `{${other}` : {})
    }),
  )
})

function isObject(text: string): boolean {
  try {
    return typeof JSON.parse(text) === 'object'
  } catch {
    return false
  }
}

test('a system message is one where a second might be refused, and one for each text where marks are set', () => {
  const messages = [message('system', [text('Static.', true), text('Today.')]), message('user', [text('Hi')])]
  expect(project(messages, 'chat')[0]).toEqual({ role: 'system', content: 'Static.\n\nToday.' })
  expect(project(messages, 'anthropic').slice(0, 2)).toEqual([
    {
      role: 'system',
      content: 'Static.',
      providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } },
    },
    { role: 'system', content: 'Today.' },
  ])
  expect(project(messages, 'bedrock')[0]).toMatchObject({
    providerOptions: { amazonBedrock: { cachePoint: { type: 'default' } } },
  })
})

test('of many marks the first and the last three are set, and none when caching is off', () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { maxLength: 12 }), (marks) => {
      const messages = [
        message('system', [text('S', true)]),
        ...marks.map((mark, at) => message('user', [text(`m${at}`, mark)])),
      ]
      const marked = project(messages, 'anthropic').flatMap(({ role, content, providerOptions }) => {
        if (role === 'system') return providerOptions === undefined ? [] : ['S']
        return typeof content === 'string'
          ? []
          : content.flatMap((part) => (part.type === 'text' && part.providerOptions ? [part.text] : []))
      })
      const all = ['S', ...marks.flatMap((mark, at) => (mark ? [`m${at}`] : []))]
      expect(marked).toEqual(all.length <= 4 ? all : ['S', ...all.slice(-3)])
      expect(JSON.stringify(project(messages, 'anthropic', { canCache: false }))).not.toContain(
        'cacheControl',
      )
    }),
  )
})

const png = 'data:image/png;base64,iVBORw0KGgo='

test('images of a user are shown by data and by address', () => {
  const [first] = project([message('user', [image(png, 'https://h.test/a.webp?x=1')])], 'anthropic')
  expect(first?.content).toEqual([
    { type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'iVBORw0KGgo=' } },
    {
      type: 'file',
      mediaType: 'image/webp',
      data: { type: 'url', url: new URL('https://h.test/a.webp?x=1') },
    },
  ])
})

test.each(['anthropic', 'google', 'bedrock', 'responses'] as const)(
  '%s: images of a result stand in it',
  (api) => {
    const result = message('tool', [text('Seen:'), image(png)], { tool_call_id: 'a', name: 't' })
    expect(project([result], api)).toMatchObject([
      {
        role: 'tool',
        content: [{ output: { type: 'content', value: [{ type: 'text' }, { type: 'file' }] } }],
      },
    ])
  },
)

test.each(['chat', 'compatible'] as const)('%s: images of results follow behind the last of them', (api) => {
  const results = ['a', 'b'].map((id) =>
    message('tool', [text('Seen:'), image(png)], { tool_call_id: id, name: 't' }),
  )
  const prompt = project([...results, message('user', [text('And?')])], api)
  expect(prompt.map(({ role }) => role)).toEqual(['tool', 'user', 'user'])
  expect(prompt[0]?.content).toMatchObject([{ toolCallId: 'a' }, { toolCallId: 'b' }])
  expect(prompt[1]?.content).toMatchObject([
    { type: 'text' },
    { type: 'file' },
    { type: 'text' },
    { type: 'file' },
  ])
})

test('an image that cannot be shown leaves a word', () => {
  const shown = (part: Message['content'][number], api: ProviderApi, hasVision = true) =>
    JSON.stringify(project([message('user', [part])], api, { hasVision })[0]?.content)
  expect(shown(image(png), 'chat', false)).toContain('does not take images')
  expect(shown(image('https://h.test/a.png'), 'bedrock')).toContain('https://h.test/a.png')
  expect(shown(image('not an address'), 'chat')).toContain('cannot be read')
  expect(shown(image('data:text/html,x'), 'chat')).toContain('cannot be read')
})

test('what one provider thought is not sent to another', () => {
  const thoughtful = message('assistant', [text('So.')], {
    reasoning_content: 'Hm.',
    thinking_blocks: [
      { type: 'thinking', thinking: 'Hm.', signature: 'anthropic-signature' },
      { type: 'redacted_thinking', data: 'anthropic-data' },
      { type: 'thinking', thinking: 'unsigned' },
      googleThoughtBlock('Hm.', 'google-signature'),
      encodeProviderMetadata('google', 'text', 0, 'google-text'),
      encodeProviderMetadata('openrouter', 'details', 0, '{"details":[{"a":"router-details"}]}'),
      encodeProviderMetadata('openai', 'item', 0, '{"id":"i","encrypted_content":"openai-item"}'),
    ],
    responses_reasoning_item: { id: 'rs', summary: [], encrypted_content: 'openai-first' },
  })
  const marks = ['anthropic-', 'google-', 'router-', 'openai-', 'unsigned']
  const found = (api: ProviderApi) => {
    const sent = JSON.stringify(project([thoughtful], api))
    return marks.filter((mark) => sent.includes(mark))
  }
  expect(found('anthropic')).toEqual(['anthropic-'])
  expect(found('bedrock')).toEqual(['anthropic-'])
  expect(found('google')).toEqual(['google-'])
  expect(found('responses')).toEqual(['openai-'])
  expect(found('chat')).toEqual([])
})

test('an id that an earlier call has becomes another one, with its result', () => {
  const turn = ['a', 'b'].flatMap((name) => [
    message('assistant', [], { tool_calls: [{ id: 'call_1', name, arguments: '{}', origin: 'completion' }] }),
    message('tool', [text('did')], { tool_call_id: 'call_1', name }),
  ])
  const all = describePrompt(project([...turn, message('user', [text('And?')])], 'compatible'))
  expect(all).toEqual(['call call_1 a', 'result call_1 a', 'call call_1-2 b', 'result call_1-2 b'])
  expect(describePrompt(project(turn.slice(0, 2), 'compatible'))).toEqual(all.slice(0, 2))
})

test('an answer at the beginning follows a word of the user where it must', () => {
  const roles = (api: ProviderApi) =>
    project([message('assistant', [text('Hello.')]), message('user', [text('Hi')])], api).map(
      ({ role }) => role,
    )
  for (const api of ['anthropic', 'google', 'bedrock'] as const)
    expect(roles(api)).toEqual(['user', 'assistant', 'user'])
  expect(roles('compatible')).toEqual(['assistant', 'user'])
})

test('what belongs to a text or call stays with it when a blank text or a call is left out', () => {
  const signed = message('assistant', [], {
    thinking_blocks: [
      encodeProviderMetadata('google', 'call', 1, 'second'),
      encodeProviderMetadata('openai', 'item', 2, '{}'),
      encodeProviderMetadata('anthropic', 'order', 0, 'rcrtcc'),
    ],
  })
  const kept = withSomeCalls(signed.thinking_blocks, [1, 2])
  expect(kept.map((block) => 'data' in block && block.data)).toEqual([
    'google:call:0:second',
    'openai:item:1:{}',
    'anthropic:order:0:rrtcc',
  ])
  expect(withSomeCalls(signed.thinking_blocks, [0])).toHaveLength(1)
})

test('a message of which nothing can be sent is left out, and an empty question is not', () => {
  const hollow = message('assistant', [text('')], { thinking_blocks: [{ type: 'thinking', thinking: 'x' }] })
  const prompt = project([message('user', [text('')]), hollow], 'anthropic')
  expect(prompt).toEqual([{ role: 'user', content: [{ type: 'text', text: '(no text)' }] }])
})

test('carried values that are not ours to read do no harm', () => {
  fc.assert(
    fc.property(
      fc.constantFrom('openai:item:0:', 'openrouter:details:0:', 'google:call:0:', ''),
      fc.string(),
      (head, tail) => {
        const call = { id: 'a', name: 't', arguments: '{}', origin: 'responses' as const }
        const odd = message('assistant', [], {
          tool_calls: [call],
          thinking_blocks: [{ type: 'redacted_thinking', data: head + tail }],
        })
        for (const api of apis) expect(describePrompt(project([odd], api))).toEqual(['call a t'])
        const openrouter: ModelRoute = { ...route('compatible'), provider: 'openrouter' }
        expect(
          toPrompt([odd], { route: openrouter, capabilities: modelCapabilities(openrouter), canCache: true }),
        ).toHaveLength(1)
      },
    ),
  )
})
