/** What the user asks for. */
export const task =
  'Say where you are, then count in the background. In the end tell me whether you still count.'

/** Where the agent's loop writes its number, in its working directory. */
export const counterFile = 'counter'

/** Ten times a second; renamed into place, so that whoever reads the file finds a whole number. */
const counterCommand = `(n=0; while sleep 0.1; do n=$((n+1)); echo $n > ${counterFile}.new && mv ${counterFile}.new ${counterFile}; done) > /dev/null 2>&1 & echo counting`

/** What the second message asks for, after the resume. */
export const question = 'Do you still count?'

export const lastWords = 'Yes, and I have not noticed that anything stood still.'

/** What the scripted model says and calls; the shell is real. `secretFile`: a file of the host that no sandbox should see. */
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
