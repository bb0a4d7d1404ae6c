import { eventKinds } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { displayWidth } from './sanitize.ts'
import { TranscriptRenderer } from './transcript.ts'

const content = (text: string) => [{ type: 'text', text }]
const piece = (text: string) => ({ kind: 'StreamingDeltaEvent', content: text }) as const
const answer = (text: string) => ({
  kind: 'MessageEvent',
  source: 'agent',
  llm_message: { content: content(text) },
})
const action = (members: object, more: object = {}) => ({
  kind: 'ActionEvent',
  tool_name: 'terminal',
  thought: [],
  action: members,
  ...more,
})

const stateUpdate = (key: string, value: object) => ({ kind: 'ConversationStateUpdateEvent', key, value })
const hookUpdate = (members: object) =>
  stateUpdate('hook_execution', {
    ...{ event: 'PreToolUse', command: '.openhands/no-rm.sh', tool_name: 'terminal', blocked: false },
    ...members,
  })
const consent = (decision: string, repository = '/project') =>
  stateUpdate('repository_consent', { decision, repository, items: [{ kind: 'hook' }, { kind: 'agent' }] })

function render(steps: TranscriptRenderer, ...items: readonly object[]): string {
  return items
    .map((item) =>
      'kind' in item && item.kind === 'StreamingDeltaEvent'
        ? steps.renderUpdate(piece(String('content' in item && item.content)))
        : steps.renderEvent(item),
    )
    .join('')
}

test('what was shown as it came is not shown again', () => {
  const steps = new TranscriptRenderer({ columns: 40 })
  expect(render(steps, piece('One '), piece('tw'), piece('o.'))).toBe('Agent\n  One')
  expect(render(steps, answer('One two.'))).toBe(' two.\n')
})

test('what was missed is completed, and what came differently is shown in full', () => {
  expect(render(new TranscriptRenderer({ columns: 40 }), piece('One '), answer('One two.'))).toBe(
    'Agent\n  One two.\n',
  )
  expect(render(new TranscriptRenderer({ columns: 40 }), piece('One '), answer('Two.'))).toBe(
    'Agent\n  One\n  Two.\n',
  )
  expect(render(new TranscriptRenderer({ columns: 40 }), answer('Two.'))).toBe('Agent\n  Two.\n')
})

test('an answer that broke off is marked, and the next one is shown in full', () => {
  const steps = new TranscriptRenderer({ columns: 40 })
  const reset = () => steps.renderUpdate({ kind: 'StreamingResetEvent' })
  expect(reset()).toBe('')
  expect(render(steps, piece('One tw'))).toBe('Agent\n  One')
  expect(reset()).toBe(' tw\n· the answer broke off\n')
  expect(render(steps, piece('One '), answer('One two.'))).toBe('  One two.\n')
})

test('a message in the middle of an answer is shown on its own', () => {
  const steps = new TranscriptRenderer({ columns: 40 })
  const user = { kind: 'MessageEvent', source: 'user', llm_message: { content: content('Stop?') } }
  expect(render(steps, piece('One '), user, piece('two.'), answer('One two.'))).toBe(
    'Agent\n  One\nYou\n  Stop?\nAgent\n  two.\n',
  )
})

test('an action is shown with its command, its risk and its edit, files by their path in the workspace', () => {
  const steps = new TranscriptRenderer({ columns: 60, directory: '/tmp/w' })
  const edit = {
    kind: 'FileEditorAction',
    command: 'str_replace',
    path: '/tmp/w/src/a.js',
    old_str: 'a\nb',
    new_str: 'c',
  }
  expect(
    render(steps, action({ kind: 'TerminalAction', command: 'rm -rf build' }, { security_risk: 'HIGH' }), {
      ...action(edit),
      tool_name: 'file_editor',
    }),
  ).toBe(
    [
      'Agent',
      '  ▸ terminal [HIGH] rm -rf build',
      '  ▸ file_editor str_replace src/a.js',
      '    - a',
      '    - b',
      '    + c',
      '',
    ].join('\n'),
  )
})

test('a plan is shown with its tasks and not again with its result', () => {
  const list = [
    { title: 'Write', status: 'done' },
    { title: 'Test', status: 'in_progress' },
    { title: 'Tidy', status: 'todo' },
  ]
  const plan = { kind: 'TaskTrackerAction', command: 'plan', task_list: list }
  const result = {
    kind: 'ObservationEvent',
    observation: { kind: 'TaskTrackerObservation', content: content('x') },
  }
  expect(
    render(new TranscriptRenderer({ columns: 60 }), { ...action(plan), tool_name: 'task_tracker' }, result),
  ).toBe('Agent\n  ▸ task_tracker plan: 1 of 3 done\n    [x] Write\n    [~] Test\n    [ ] Tidy\n')
})

test('of a long result the beginning and the end are shown, and how much is between', () => {
  const lines = Array.from({ length: 30 }, (_, n) => `line ${n + 1}`)
  const result = {
    kind: 'ObservationEvent',
    observation: { kind: 'TerminalObservation', content: content(lines.join('\r\n')) },
  }
  expect(render(new TranscriptRenderer({ columns: 60 }), result)).toBe(
    [...lines.slice(0, 3), '… 22 more lines', ...lines.slice(-5)].map((line) => `    ${line}\n`).join(''),
  )
})

test.each([
  [{ kind: 'ConversationStateUpdateEvent', key: 'execution_status', value: 'running' }, '· running\n'],
  [
    { kind: 'ConversationStateUpdateEvent', key: 'execution_status', value: 'waiting_for_confirmation' },
    '· waits for confirmation\n',
  ],
  [
    { kind: 'ConversationErrorEvent', code: 'LLMAuthenticationError', detail: 'no\nkey' },
    '✗ LLMAuthenticationError: no\nkey\n',
  ],
  [
    { kind: 'UserRejectObservation', tool_name: 'terminal', rejection_reason: 'Too risky.' },
    '    terminal refused: Too risky.\n',
  ],
  [{ kind: 'AgentErrorEvent', tool_name: 'x', error: 'no such tool' }, '    x: no such tool\n'],
  [{ kind: 'SystemPromptEvent', tools: [{}, {}] }, '· system prompt, 2 tools\n'],
  [{ kind: 'PauseEvent' }, '· PauseEvent the run was stopped\n'],
  [hookUpdate({ exit_code: 0, success: true }), ''],
  [
    hookUpdate({ exit_code: 126, success: false, error: 'ended with exit code 126: sh: 1:\nno permission' }),
    '· hook .openhands/no-rm.sh failed (exit code 126): the command was not checked\n    sh: 1:\n    no permission\n',
  ],
  [
    hookUpdate({ exit_code: -1, success: false, error: 'took longer than 1 s', event: 'Stop' }),
    '· hook .openhands/no-rm.sh failed (took longer than 1 s): the end was not\nchecked\n',
  ],
  [
    hookUpdate({ exit_code: 2, success: true, blocked: true, reason: 'No.' }),
    '· hook .openhands/no-rm.sh blocked the command\n',
  ],
  [
    hookUpdate({ success: true, blocked: true, reason: 'off topic', event: 'UserPromptSubmit' }),
    '· hook .openhands/no-rm.sh blocked the message: off topic\n',
  ],
  [
    {
      ...{ kind: 'HookExecutionEvent', hook_event_type: 'PreToolUse', hook_command: 'check', tool_name: 'x' },
      ...{ success: false, exit_code: 1, error: 'ended with exit code 1' },
    },
    '· hook check failed (exit code 1): the call was not checked\n',
  ],
  [consent('skipped'), '· the hooks of this repository are not active: slipway trust .\n'],
  [consent('skipped', '/other'), '· the hooks of this repository are not active: slipway trust /other\n'],
  [consent('pending'), '· the hooks of this repository wait for consent: slipway trust .\n'],
  [consent('denied'), '· the hooks of this repository were denied\n'],
  [consent('allowed'), ''],
  [consent('constructor'), ''],
  [{ kind: 'ConversationStateUpdateEvent', key: 'last_user_message_id', value: 'x' }, ''],
  [
    { kind: 'ConversationStateUpdateEvent', key: 'leaf_event_id', value: 'x' },
    '· back to an earlier event\n',
  ],
])('%j is shown as %j', (event, text) => {
  expect(render(new TranscriptRenderer({ columns: 80, directory: '/project' }), event)).toBe(text)
})

test('messages that are taken back are named, also after others', () => {
  const steps = new TranscriptRenderer({ columns: 40 })
  const message = (id: string) => ({
    ...{ id, kind: 'MessageEvent', source: 'user', llm_message: { content: content(`say ${id}`) } },
  })
  const goTo = (value: unknown) => ({ ...stateUpdate('leaf_event_id', {}), id: `to ${value}`, value })
  const back = (value: unknown) => render(steps, goTo(value))
  render(steps, message('a'), message('b'), message('c'))
  expect(back('b')).toBe('· back to before: say c\n')
  expect(back('b')).toBe('· back to an earlier event\n')
  render(steps, message('d'))
  expect(back('b')).toBe('· back to before: say d\n')
  expect(back('a')).toBe('· back to before: say b\n')
  expect(back(null)).toBe('· back to before: say a\n')
})

test('any JSON value is shown in lines that fit and hold no control character', () => {
  const kinds = fc.constantFrom(...eventKinds, 'StreamingDeltaEvent', 'Other', '__proto__')
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.jsonValue(), kinds)),
      fc.integer({ min: 20, max: 90 }),
      (events, columns) => {
        const steps = new TranscriptRenderer({ columns })
        const printed =
          render(steps, ...events.map(([value, kind]) => ({ ...Object(value), kind }))) +
          steps.renderEvent({})
        for (const line of printed.split('\n')) {
          expect(line).not.toMatch(/\p{Cc}/u)
          expect(displayWidth(line)).toBeLessThanOrEqual(columns)
        }
      },
    ),
  )
})

test.each([
  [
    { detail: 'Cannot connect to API: connect ECONNREFUSED 127.0.0.1:11434', host: '127.0.0.1:11434' },
    'connect ECONNREFUSED 127.0.0.1:11434, trying again in 8 s (1 of 5)\n',
  ],
  [
    { detail: 'Nothing came from the model for 60 s.', host: 'model.example', code: 'LLMTimeoutError' },
    'model.example: Nothing came from the model for 60 s, trying again in 8 s (1 of 5)\n',
  ],
  [
    { status: 500, detail: 'HTTP 500: over\u001b[31m loaded', host: 'model.example' },
    'HTTP 500 from model.example: over␛[31m loaded, trying again in 8 s (1 of 5)\n',
  ],
  [{ status: 429, detail: '', code: 'LLMError' }, 'HTTP 429: LLMError, trying again in 8 s (1 of 5)\n'],
  [
    { status: 429, code: 'LLMError', wait_seconds: undefined, attempt: undefined },
    'HTTP 429: LLMError, trying again\n',
  ],
])('a model that is asked again: %j', (members, text) => {
  const value = { wait_seconds: 8, attempt: 1, attempts: 5, ...members }
  const update = { kind: 'ConversationStateUpdateEvent', key: 'model_retry', value } as const
  expect(new TranscriptRenderer({ columns: 100 }).renderUpdate(update as never)).toBe(text)
})

test('a call of an external agent has its title once and its output; its message is not shown again', () => {
  const steps = new TranscriptRenderer({ columns: 60, directory: '/project' })
  const call = { kind: 'ACPToolCallEvent', tool_call_id: 'a', title: 'Read /project/a.txt', is_error: false }
  const output = [{ type: 'content', content: { type: 'text', text: 'one\ntwo' } }]
  expect(
    render(
      steps,
      piece('Let me see.'),
      { ...call, status: 'pending' },
      { ...call, status: 'completed', content: output },
      piece('\n\nDone.'),
      answer('Let me see.\n\nDone.'),
      { ...call, tool_call_id: 'b', title: 'Run', status: 'failed', is_error: true },
    ),
  ).toBe('Agent\n  Let me see.\n  ▸ Read a.txt\n    one\n    two\n\n\n  Done.\n  ▸ Run\n    (failed)\n')
})
