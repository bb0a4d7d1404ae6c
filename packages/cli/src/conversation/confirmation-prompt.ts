import { printNote } from '../output/terminal.ts'
import { type PendingAction, questionText } from './pending-actions.ts'

/** The user's answer; undefined: decide later. A rejection without a reason stops the run. */
export type ConfirmationAnswer =
  | { readonly accept: true }
  | { readonly accept: false; readonly reason: string | undefined }
  | undefined

/** Whether input and output are a terminal. */
export function isInteractive(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true
}

/** Asks on standard error whether actions may run. */
export async function promptForConfirmation(
  actions: readonly PendingAction[],
  signal: AbortSignal,
): Promise<ConfirmationAnswer> {
  const { isCancel, select, text } = await import('@clack/prompts')
  const output = process.stderr
  // Not in the prompt, which is drawn again and again and is cut at the height of the terminal.
  printNote(`The agent asks to do this:\n${questionText(actions)}`)
  const answer = await select({
    message: 'Allow this?',
    options: [
      { value: 'accept', label: 'Yes' },
      { value: 'reject', label: 'No, and tell the agent why' },
      { value: 'stop', label: 'No, and stop here' },
      { value: 'later', label: 'Decide later' },
    ],
    output,
    signal,
  })
  if (isCancel(answer) || answer === 'later') return undefined
  if (answer === 'accept') return { accept: true }
  if (answer === 'stop') return { accept: false, reason: undefined }
  const reason = await text({ message: 'What should it know?', output, signal })
  return isCancel(reason) ? undefined : { accept: false, reason: reason || 'Not now.' }
}
