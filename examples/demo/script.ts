import { join } from 'node:path'

/** The user's task. */
export const task =
  'Write duration.mjs with a function inWords that turns seconds into a text such as "1 h 30 min", and a test for it ' +
  'with node:test. When the test passes, remove the old directory build. Für unsere Büros in Łódź und Αθήνα.'

export const finalMessage = 'duration.mjs turns seconds into words, and its three tests pass.'

const source = `/** Seconds as hours and minutes, for example "1 h 30 min". */
export function inWords(seconds) {
  const hours = Math.round(seconds / 3600)
  const minutes = Math.floor((seconds % 3600) / 60)
  const words = [hours > 0 && \`\${hours} h\`, minutes > 0 && \`\${minutes} min\`]
  return words.filter(Boolean).join(' ') || '0 min'
}
`

const testSource = `import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inWords } from './duration.mjs'

test('an hour and a half', () => assert.equal(inWords(5400), '1 h 30 min'))
test('whole hours', () => assert.equal(inWords(7200), '2 h'))
test('nothing at all', () => assert.equal(inWords(0), '0 min'))
`

const taskTitles = ['Write the function and its test', 'Make the test pass', 'Remove the directory build']

/**
 * The texts and calls of the scripted model. The tools are real: a test fails and passes because of the edits
 * below.
 */
export function buildScript(directory: string, isFast: boolean): unknown[] {
  const file = join(directory, 'duration.mjs')
  const turns: readonly [text: string, ...calls: readonly Call[]][] = [
    ['I begin with a plan.', taskTrackerCall(0)],
    [
      'First the function, and a test that says what it has to do.',
      fileEditorCall('Write the function', { command: 'create', path: file, file_text: source }),
      fileEditorCall('Write its test', {
        command: 'create',
        path: join(directory, 'duration.test.mjs'),
        file_text: testSource,
      }),
    ],
    ['Now I run the test.', terminalCall('Run the test', 'node --test', 'LOW'), taskTrackerCall(1)],
    [
      'An hour and a half comes out as two and a half: the hours are rounded where they have to be cut.',
      fileEditorCall('Cut the hours', {
        command: 'str_replace',
        path: file,
        old_str: 'Math.round(seconds',
        new_str: 'Math.floor(seconds',
      }),
    ],
    ['The test again.', terminalCall('Run the test again', 'node --test', 'LOW')],
    ['It passes.', taskTrackerCall(2)],
    ['What is left is the old build.', terminalCall('Remove the old build', 'rm -rf build', 'HIGH')],
    ['That was the last task.', taskTrackerCall(3)],
    ['', { name: 'finish', arguments: { message: finalMessage } }],
  ]
  const pace = isFast ? {} : { delay_ms: 400, delta_ms: 50 }
  const title = { text: 'Seconds in words', side: true }
  return [...turns.map(([text, ...tool_calls]) => ({ text, tool_calls, ...pace })), title]
}

interface Call {
  readonly name: string
  readonly arguments: object
}

/** The task list with this many tasks done. */
function taskTrackerCall(done: number): Call {
  const status = (at: number) => (at < done ? 'done' : at === done ? 'in_progress' : 'todo')
  const task_list = taskTitles.map((title, at) => ({ title, status: status(at) }))
  return {
    name: 'task_tracker',
    arguments: { command: 'plan', task_list, summary: `${done} of ${taskTitles.length} tasks are done` },
  }
}

function fileEditorCall(summary: string, input: object): Call {
  return { name: 'file_editor', arguments: { ...input, summary, security_risk: 'LOW' } }
}

function terminalCall(summary: string, line: string, security_risk: 'LOW' | 'HIGH'): Call {
  return { name: 'terminal', arguments: { command: line, summary, security_risk } }
}
