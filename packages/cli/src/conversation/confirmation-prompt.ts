import type { ConfirmOptions } from '@clack/prompts'
import { excerptRows } from '@slipway/protocol/confirmation'
import { hiddenMark } from '../output/question.ts'
import { printNote } from '../output/terminal.ts'
import { type PendingAction, questionText } from './pending-actions.ts'

/** The user's answer; undefined: decide later. A rejection without a reason stops the run. */
export type ConfirmationAnswer =
  | { readonly accept: true }
  | { readonly accept: false; readonly reason: string | undefined }
  | undefined

/** Rows of the prompt below the action, and of the remark above it. */
const promptRows = 11

/** Whether input and output are a terminal. */
export function isInteractive(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true
}

/** Where a question reads its answer and shows itself; the terminal unless given. */
type Streams = Partial<Pick<ConfirmOptions, 'input' | 'output'>>

/** Asks a question whose answer is no unless the user says yes. */
export async function askYesOrNo(
  message: string,
  signal: AbortSignal,
  streams: Streams = {},
): Promise<boolean> {
  const { confirm } = await import('@clack/prompts')
  return (
    (await confirm({ message, initialValue: false, output: process.stderr, signal, ...streams })) === true
  )
}

/** Asks on standard error whether actions may run. */
export async function promptForConfirmation(
  actions: readonly PendingAction[],
  signal: AbortSignal,
): Promise<ConfirmationAnswer> {
  const { isCancel, select, text } = await import('@clack/prompts')
  const output = process.stderr
  const { columns = 80, rows = 24 } = output
  const pages = new QuestionPages(questionText(actions, columns).split('\n'), rows - promptRows)
  // Not in the prompt, which is drawn again and again and is cut at the height of the terminal.
  printNote(`The agent asks to do this:\n${pages.start()}`)
  let answer: symbol | string
  do {
    answer = await select({
      message: 'Allow this?',
      options: [
        { value: 'accept', label: 'Yes' },
        { value: 'reject', label: 'No, and tell the agent why' },
        { value: 'stop', label: 'No, and stop here' },
        { value: 'later', label: 'Decide later' },
        ...(pages.next === undefined ? [] : [{ value: 'show', label: pages.next }]),
      ],
      // Enter once more than there are pages allows nothing.
      ...(pages.isOpen ? { initialValue: pages.next === undefined ? 'later' : 'show' } : {}),
      output,
      signal,
    })
    if (answer === 'show') printNote(pages.show())
  } while (answer === 'show')
  if (isCancel(answer) || answer === 'later') return undefined
  if (answer === 'accept') return { accept: true }
  if (answer === 'stop') return { accept: false, reason: undefined }
  const reason = await text({ message: 'What should it know?', output, signal })
  return isCancel(reason) ? undefined : { accept: false, reason: reason || 'Not now.' }
}

/** What is asked about, in parts of one screen: first its beginning and its end, then what is between. */
class QuestionPages {
  readonly #rows: readonly string[]
  readonly #room: number
  /** The hidden rows that were not shown yet begin here. */
  #at: number
  readonly #end: number
  #isOpen = false

  constructor(rows: readonly string[], room: number) {
    this.#rows = rows
    this.#room = Math.max(6, room)
    const { first, last } = excerptRows(this.#rows, this.#room)
    this.#at = first.length
    this.#end = this.#rows.length - last.length
  }

  /** The label of what shows more; undefined when everything was shown. */
  get next(): string | undefined {
    if (this.#at >= this.#end) return undefined
    const to = Math.min(this.#end, this.#at + this.#room)
    return `Show lines ${this.#at + 1} to ${to} of ${this.#rows.length}`
  }

  /** The user has read on. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  start(): string {
    const { first, hidden, last } = excerptRows(this.#rows, this.#room)
    const mark = hidden === 0 ? [] : [`  ${hiddenMark(hidden, 'hidden: the last answer shows them')}`]
    return [...first, ...mark, ...last].join('\n')
  }

  show(): string {
    this.#isOpen = true
    const rows = this.#rows.slice(this.#at, Math.min(this.#end, this.#at + this.#room))
    this.#at += rows.length
    return rows.join('\n')
  }
}
