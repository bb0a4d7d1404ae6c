import { must, validateEvent } from '@slipway/protocol'
import { shownAction } from '@slipway/protocol/confirmation'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ModelReply } from '../../llm/model.ts'
import { asksToReplaceAll } from '../../tools/calls/parse-call.ts'
import type { Tool } from '../../tools/core/tool.ts'
import { openTools } from '../../tools/registry.ts'
import { ToolFixtures as Workbench } from '../../tools/testing/fixtures.ts'
import { eventsFromModelTurn, finalText, type ModelTurnOptions } from './model-turn.ts'

let workbench: Workbench
let options: ModelTurnOptions

beforeAll(async () => {
  workbench = await Workbench.open()
  const tools: ReadonlyMap<string, Tool> = await openTools({
    specs: [
      { name: 'terminal', params: {} },
      { name: 'file_editor', params: {} },
    ],
    defaults: ['FinishTool', 'ThinkTool'],
    context: workbench.context,
  })
  options = { tools, analyzer: undefined, redact: (text) => text }
})
afterAll(() => workbench[Symbol.asyncDispose]())

type Call = readonly [id: string, name: string, args: string]

function answer(
  message: Partial<ModelReply['message']>,
  calls: readonly Call[] = [],
  more: Partial<ModelReply> = {},
): ModelReply {
  return {
    kind: 'reply',
    responseId: 'resp-1',
    message: {
      role: 'assistant',
      content: [],
      thinking_blocks: [],
      ...(calls.length === 0
        ? {}
        : {
            tool_calls: calls.map(([id, name, args]) => ({
              id,
              name,
              arguments: args,
              origin: 'responses' as const,
            })),
          }),
      ...message,
    },
    usage: {
      model: 'm',
      prompt_tokens: 1,
      completion_tokens: 1,
      cache_read_tokens: 0,
      cache_write_tokens: 0,
      reasoning_tokens: 0,
      context_window: 0,
      per_turn_token: 2,
      response_id: 'resp-1',
    },
    cost: 0,
    latencyMs: 1,
    model: 'm',
    usageId: 'agent',
    stop: calls.length > 0 ? 'tool_calls' : 'stop',
    ...more,
  }
}

const textContent = (text: string) => [{ type: 'text' as const, text, cache_prompt: false }]
const wrong = (events: readonly object[]) =>
  events.flatMap((event) => validateEvent(JSON.parse(JSON.stringify(event))))

test('members of the whole reply are on its first action alone, unchanged', async () => {
  const reasoning = {
    reasoning_content: 'Let me see.',
    thinking_blocks: [
      { type: 'thinking' as const, thinking: 'hm', signature: 'c2lnbmF0dXJl' },
      { type: 'redacted_thinking' as const, data: 'b3BhcXVl' },
    ],
    responses_reasoning_item: {
      id: 'rs_1',
      summary: ['short'],
      content: ['long'],
      encrypted_content: 'ZW5jcnlwdGVk',
      status: 'completed',
    },
  }
  const { kind, events } = await eventsFromModelTurn(
    answer({ content: textContent('First I look.'), ...reasoning }, [
      ['a', 'terminal', '{"command":"ls"}'],
      ['b', 'think', '{"thought":"hm"}'],
    ]),
    options,
  )
  expect(kind).toBe('calls')
  expect(events).toHaveLength(2)
  expect(wrong(events)).toEqual([])
  const [first, second] = events
  expect(first).toMatchObject({ ...reasoning, thought: textContent('First I look.') })
  expect(second).toMatchObject({ thought: [], thinking_blocks: [] })
  expect(second?.reasoning_content ?? second?.responses_reasoning_item).toBeUndefined()
  expect(events.map(({ llm_response_id }) => llm_response_id)).toEqual(['resp-1', 'resp-1'])
  expect(events.map(({ source }) => source)).toEqual(['agent', 'agent'])
})

test('an action keeps its call as received, with the risk and the summary that the action itself has not', async () => {
  const args = '{"command": "rm x",  "security_risk": "HIGH", "summary": "Removes a file."}'
  const llm = { ...options, analyzer: { kind: 'LLMSecurityAnalyzer' as const } }
  const { events } = await eventsFromModelTurn(answer({}, [['a', 'terminal', args]]), llm)
  expect(events[0]).toMatchObject({
    tool_name: 'terminal',
    tool_call_id: 'a',
    tool_call: { id: 'a', name: 'terminal', arguments: args, origin: 'responses' },
    security_risk: 'HIGH',
    summary: 'Removes a file.',
  })
  expect(events[0]?.action).toEqual({
    kind: 'TerminalAction',
    command: 'rm x',
    is_input: false,
    reset: false,
  })
})

test('an action without a summary gets one line of its call, and one that is cut is cut after secrets are hidden', async () => {
  const call = async (args: string, redact = (text: string) => text) => {
    const { events } = await eventsFromModelTurn(answer({}, [['a', 'terminal', args]]), {
      ...options,
      redact,
    })
    return String(events[0]?.summary)
  }
  expect(await call('{"command":\n"ls"}')).toBe('terminal: {"command": "ls"}')
  const secret = 'hunter22-and-more'
  const long = JSON.stringify({ command: `echo ${'x'.repeat(76)} ${secret} ${'y'.repeat(50)}` })
  expect(await call(long)).toMatch(/ hunter2.*\.\.\.$/)
  const masked = await call(long, (text) => text.replaceAll(secret, '<secret-hidden>'))
  expect(masked).not.toContain('hunter')
  expect(masked).toHaveLength(120)
})

test('a call that cannot be done is an action of null with its call as received, and an error behind all actions', async () => {
  const { events } = await eventsFromModelTurn(
    answer({}, [
      ['a', 'no_such_tool', '{"x":1}'],
      ['b', 'terminal', '{"command":'],
      ['c', 'terminal', '{"command":"ls"}'],
      ['d', 'file_editor', '{"command":"fly"}'],
    ]),
    options,
  )
  expect(events.map(({ kind }) => kind)).toEqual([
    ...Array(4).fill('ActionEvent'),
    ...Array(3).fill('AgentErrorEvent'),
  ])
  expect(wrong(events)).toEqual([])
  expect(events.slice(0, 4).map(({ action }) => action === undefined)).toEqual([true, true, false, true])
  expect(events.slice(0, 4).map(({ tool_call }) => tool_call)).toMatchObject([
    { arguments: '{"x":1}' },
    { arguments: '{"command":' },
    {},
    { arguments: '{"command":"fly"}' },
  ])
  expect(events.slice(4).map(({ tool_call_id }) => tool_call_id)).toEqual(['a', 'b', 'd'])
})

test('calls after a finish are dropped, also when the finish has none before it', async () => {
  const { events } = await eventsFromModelTurn(
    answer({}, [
      ['a', 'think', '{"thought":"hm"}'],
      ['b', 'finish', '{"message":"ok"}'],
      ['c', 'terminal', '{"command":"ls"}'],
    ]),
    options,
  )
  expect(events.map(({ tool_call_id }) => tool_call_id)).toEqual(['a', 'b'])
})

test('calls that share or lack an id get separate ids', async () => {
  const args = '{"thought":"hm"}'
  const { events } = await eventsFromModelTurn(
    answer({}, [
      ['', 'think', args],
      ['x', 'think', args],
      ['x', 'think', args],
      ['', 'think', args],
    ]),
    options,
  )
  const ids = events.map(({ tool_call_id }) => String(tool_call_id))
  expect(new Set(ids).size).toBe(4)
  expect(ids.every((id) => id !== '')).toBe(true)
  expect(events.map(({ tool_call }) => must(tool_call as { id: string } | undefined, 'a call').id)).toEqual(
    ids,
  )
})

test('an answer in words is a message exactly as the model gave it', async () => {
  const given = answer({
    content: textContent('Done.'),
    reasoning_content: 'hm',
    thinking_blocks: [{ type: 'thinking', thinking: 'hm', signature: 's' }],
  })
  const { kind, events } = await eventsFromModelTurn(given, options)
  expect(kind).toBe('text')
  expect(events).toHaveLength(1)
  expect(events[0]).toMatchObject({ kind: 'MessageEvent', source: 'agent', llm_response_id: 'resp-1' })
  expect(events[0]?.llm_message).toEqual(given.message)
})

test('completion log and token ids precede the events of the reply', async () => {
  const { events } = await eventsFromModelTurn(
    answer({ content: textContent('Done.') }, [], {
      completionLog: { filename: 'f', data: '{}' },
      tokenIds: { prompt: [1], response: [2] },
    }),
    options,
  )
  expect(events.map(({ kind }) => kind)).toEqual(['LLMCompletionLogEvent', 'TokenEvent', 'MessageEvent'])
  expect(wrong(events)).toEqual([])
})

test('a call that was cut off is not executed, and is told the limit and what to do', async () => {
  for (const args of ['{"command":"rm -rf /tmp/x', '{"command":"ls"', '', '{"command":"ls"}']) {
    const reply = answer(
      {},
      [
        ['a', 'think', '{"thought":"hm"}'],
        ['b', 'terminal', args],
      ],
      { stop: 'length' },
    )
    const { events } = await eventsFromModelTurn(reply, options)
    const isWhole = args.endsWith('}')
    expect(events.map(({ kind }) => kind)).toEqual([
      'ActionEvent',
      'ActionEvent',
      ...(isWhole ? [] : ['AgentErrorEvent']),
    ])
    expect(events[1]?.action === undefined).toBe(!isWhole)
    if (!isWhole)
      expect(events[2]?.error).toMatch(/cut off after \d+ characters.*max_output_tokens.*smaller pieces/)
  }
  const empty = await eventsFromModelTurn(answer({}, [], { stop: 'length' }), options)
  expect(empty.kind).toBe('empty')
  expect(JSON.stringify(empty.events)).toContain('max_output_tokens')
})

test('an answer closes the work when it is a finish or words alone', () => {
  expect(finalText(answer({ content: textContent('Done.') }))).toBe('Done.')
  expect(finalText(answer({}, [['a', 'finish', '{"message":"ok"}']]))).toBe('ok')
  expect(finalText(answer({}, [['a', 'finish', '{"mess']]))).toBe('')
  expect(finalText(answer({}, [['a', 'finish', '{"message":null}']]))).toBe('')
  expect(finalText(answer({}, [['a', 'think', '{}']]))).toBeUndefined()
  expect(finalText(answer({ content: textContent('  ') }))).toBeUndefined()
  expect(finalText(answer({ content: textContent('No.') }, [], { stop: 'refusal' }))).toBeUndefined()
})

test('the analysis of one answer is bounded: commands beyond the limit are HIGH unread', async () => {
  const command = JSON.stringify({ command: `echo ${'x'.repeat(30_000)}` })
  const calls = ['a', 'b', 'c', 'd'].map((id) => [id, 'terminal', command] as const)
  for (const kind of ['PatternSecurityAnalyzer', 'PolicyRailSecurityAnalyzer'] as const) {
    const { events } = await eventsFromModelTurn(answer({}, calls), { ...options, analyzer: { kind } })
    expect(events.map(({ security_risk }) => security_risk)).toEqual(['LOW', 'LOW', 'HIGH', 'HIGH'])
  }
})

test('a repair comes before risk and question: what is asked about is what runs', async () => {
  const analyzer = { kind: 'PatternSecurityAnalyzer' } as ModelTurnOptions['analyzer']
  const path = workbench.path('a.txt')
  const calls: Call[] = [
    ['1', 'shell', '{"cmd": ["bash", "-lc", "rm -rf ssh"], "workdir": "/etc", "description": "Lists files"'],
    ['2', 'Edit', '{"filePath": "a.txt", "oldString": "x", "newString": "y", "replaceAll": "true"}'],
  ]
  const { events } = await eventsFromModelTurn(answer({}, calls), { ...options, analyzer })
  const [command, edit] = events.filter(({ kind }) => kind === 'ActionEvent')
  expect(command).toMatchObject({
    action: { kind: 'TerminalAction', command: 'cd -- /etc && rm -rf ssh' },
    tool_name: 'terminal',
    tool_call: { name: 'terminal', arguments: '{"command":"cd -- /etc && rm -rf ssh"}' },
    security_risk: 'HIGH',
  })
  expect(shownAction({ ...command })).toMatchObject({
    tool: 'terminal',
    risk: 'HIGH',
    lines: [{ kind: 'command', text: 'cd -- /etc && rm -rf ssh' }],
  })
  expect(edit).toMatchObject({ action: { kind: 'FileEditorAction', command: 'str_replace', path } })
  expect(shownAction({ ...edit })).toMatchObject({
    tool: 'file_editor',
    subject: `str_replace ${path}`,
    lines: [{ text: '- x' }, { text: '+ y' }, { kind: 'member', text: 'replace_all: true' }],
  })
  expect(asksToReplaceAll({ action: edit?.action, tool_call: edit?.tool_call })).toBe(true)
})
