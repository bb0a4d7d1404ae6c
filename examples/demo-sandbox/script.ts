/** The user's task. */
export const task =
  'Say where you are, then count in the background. In the end tell me whether you still count.'

/** The file in the working directory that contains the loop's counter. */
export const counterFile = 'counter'

/** Ten times a second; renamed into place, so that a reader always finds a complete number. */
const counterCommand = `(n=0; while sleep 0.1; do n=$((n+1)); echo $n > ${counterFile}.new && mv ${counterFile}.new ${counterFile}; done) > /dev/null 2>&1 & echo counting`

/** The second message, after the resume. */
export const question = 'Do you still count?'

export const lastWords = 'Yes, and I have not noticed that anything stood still.'

/**
 * The texts and calls of the scripted model; the shell is real. `secretFile`: a file of the host that no
 * sandbox should see.
 */
export function buildScript(secretFile: string, isFast: boolean): unknown[] {
  const turns: readonly [text: string, command?: string][] = [
    [
      'First a look around.',
      `echo "user $(id -un), host $(uname -n), $(ls /proc | grep -c '^[0-9]') processes"; cat ${secretFile}`,
    ],
    ['Now I count, ten times a second.', counterCommand],
    ['I am counting in the background.'],
    ['I look.', `cat ${counterFile}; sleep 1; cat ${counterFile}`],
    [lastWords],
  ]
  const pace = isFast ? {} : { delay_ms: 400, delta_ms: 40 }
  const title = { text: 'Counting in a sandbox', side: true }
  return [
    ...turns.map(([text, command]) => ({
      text,
      tool_calls: command === undefined ? [] : [{ name: 'terminal', arguments: { command } }],
      ...pace,
    })),
    title,
  ]
}
