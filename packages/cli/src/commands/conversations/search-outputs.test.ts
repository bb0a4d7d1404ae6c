import { expect, test } from 'vitest'
import { matchResult } from './search-outputs.ts'

function result(command: string, exit_code: number, output: string) {
  const observation = {
    kind: 'TerminalObservation',
    command,
    exit_code,
    content: [{ type: 'text', text: output }],
  }
  return { kind: 'ObservationEvent', timestamp: '2026-03-14T09:27:32Z', tool_name: 'terminal', observation }
}

test.each([
  ['a failed command', result('make', 2, 'error: x'), { text: undefined, isFailed: true }, ['error: x']],
  [
    'a text of the output in any case',
    result('make', 0, 'one\nTwo X\n'),
    { text: 'two', isFailed: false },
    ['Two X'],
  ],
  ['a text of the command', result('npm test', 0, 'fine'), { text: 'NPM', isFailed: false }, []],
  [
    'the last lines of a failed command, without the note of the tool,',
    result('make', 2, 'one\ntwo\n\nthree\nfour\n[Exit code 2. Working directory: /tmp]'),
    { text: undefined, isFailed: true },
    ['two', 'three', 'four'],
  ],
  [
    'a text of a failed command alone',
    result('make all', 2, 'one\ntwo\n[Exit code 2]'),
    { text: 'ONE', isFailed: true },
    ['one'],
  ],
])('%s is found with the lines that show it', (_, event, query, lines) => {
  expect(matchResult(event, query)).toMatchObject({ lines })
})

test.each([
  ['a command that succeeded', result('make', 0, 'error'), { text: undefined, isFailed: true }],
  ['a command that still runs', result('make', -1, ''), { text: undefined, isFailed: true }],
  ['another text', result('make', 2, 'error'), { text: 'success', isFailed: true }],
])('%s is not', (_, event, query) => {
  expect(matchResult(event, query)).toBeUndefined()
})

test('an error of another tool is a failure', () => {
  const event = {
    tool_name: 'file_editor',
    observation: { is_error: true, content: [{ text: 'No such file' }] },
  }
  expect(matchResult(event, { text: undefined, isFailed: true })).toMatchObject({
    command: 'file_editor',
    exitCode: undefined,
    lines: ['No such file'],
  })
})

test.each([
  ['a code in metadata', { output: 'fatal: x', metadata: { exit_code: 128 } }, ['fatal: x']],
  ['the text of an error', { output: '', error: 'Invalid path' }, ['Invalid path']],
  ['an error that is true', { error: true, content: [{ text: 'late' }] }, ['late']],
])('in a log of another version, %s is a failure', (_, members, lines) => {
  const observation = { kind: 'ExecuteBashObservation', command: 'git status', ...members }
  const event = { kind: 'ObservationEvent', tool_name: 'execute_bash', observation }
  expect(matchResult(event, { text: undefined, isFailed: true })).toMatchObject({ lines })
})

test('a log of another version that has no code, or -1, in metadata did not fail', () => {
  for (const metadata of [{ exit_code: -1 }, { exit_code: 0 }, {}, null])
    expect(
      matchResult({ observation: { metadata, error: '' } }, { text: undefined, isFailed: true }),
    ).toBeUndefined()
})
