import { excerptRows } from '@slipway/protocol/confirmation'
import { hiddenMark } from '../../output/question.ts'
import { displayWidth, sanitizeLine, truncateToWidth } from '../../output/sanitize.ts'
import { paint } from '../../output/terminal.ts'
import { wrapLine } from '../../output/word-wrapper.ts'
import type { EditorState } from '../input/editor.ts'
import type { Frame } from './live-region.ts'

/** A question to the user, in place of the input. */
export interface Question {
  readonly head: string
  /** What it asks about, wrapped to the terminal. */
  readonly lines: readonly string[]
  /** The first line in view where they do not fit; undefined: their beginning and their end. */
  readonly top: number | undefined
  /** The keys that answer it; may be empty. */
  readonly keys: string
}

/** What the live region shows. */
export interface SessionView {
  /** The line of the answer that is being written. */
  readonly streaming: string
  /** What happens now; empty when nothing does. */
  readonly activity: string
  readonly question: Question | undefined
  readonly tasks: readonly { readonly title: string; readonly status: string }[]
  readonly queue: readonly string[]
  readonly editor: EditorState
  /** Continuations of what is typed; the chosen one is marked. */
  readonly suggestions: readonly string[]
  readonly chosen: number
  /** Model, cost and so on; the first ones stay when the terminal is narrow. */
  readonly facts: readonly string[]
}

const maxInputLines = 8
const maxTasks = 6
const marks: Readonly<Record<string, string>> = { done: '✓', in_progress: '▸', todo: '·' }

/**
 * Draws a view for a terminal of this size, never higher than it. `questionRoom`: the lines of the question
 * that are in view at once; 0 when all of them are.
 */
export function drawView(
  view: SessionView,
  columns: number,
  rows: number,
): Frame & { readonly questionRoom: number } {
  const width = Math.max(10, columns - 1)
  const dim = (text: string) => paint('dim', truncateToWidth(text, width))
  const input = drawInput(view.editor, width)
  const head = [
    ...(view.streaming === '' ? [] : [view.streaming]),
    ...drawTasks(view.tasks, width),
    ...view.queue.map((text) => dim(`  queued: ${sanitizeLine(text)}`)),
    ...(view.activity === '' ? [] : [paint('yellow', truncateToWidth(view.activity, width))]),
  ]
  const suggestions = view.suggestions.map((text, at) => {
    const line = truncateToWidth(`  ${sanitizeLine(text)}`, width)
    return at === view.chosen ? paint('cyan', line) : paint('dim', line)
  })
  const foot = [...suggestions, dim(factsLine(view.facts, width))]
  const rule = paint('dim', '─'.repeat(width))
  const question = drawQuestion(view.question, width, rows - 2 - input.lines.length - foot.length)
  const body = [rule, ...question.lines, ...input.lines]
  const room = Math.max(0, rows - 1 - body.length - foot.length)
  const visible = head.slice(Math.max(0, head.length - room))
  return {
    lines: [...visible, ...body, ...foot],
    row: visible.length + 1 + question.lines.length + input.row,
    column: input.column,
    questionRoom: question.room,
  }
}

function drawQuestion(question: Question | undefined, width: number, rows: number) {
  if (question === undefined) return { lines: [], room: 0 }
  const head = wrapLine(question.head, width).map((line) => paint('yellow', line))
  const keys = question.keys === '' ? [] : wrapLine(question.keys, width)
  const room = Math.max(3, rows - head.length - keys.length)
  const lines = question.lines.length <= room ? question.lines : questionPart(question, width, room)
  return { lines: [...head, ...lines, ...keys], room: question.lines.length <= room ? 0 : room - 2 }
}

/** The beginning and the end, or the lines from the one that the user went to, with what is not in view. */
function questionPart({ lines, top }: Question, width: number, room: number): string[] {
  const mark = (count: number, where: string) =>
    paint('yellow', truncateToWidth(`  ${hiddenMark(count, where)}`, width))
  if (top === undefined) {
    const { first, hidden, last } = excerptRows(lines, room)
    return [...first, mark(hidden, 'hidden: ↓ ↑ PgDn PgUp show them'), ...last]
  }
  const end = top + room - 2
  return [
    mark(top, 'above: ↑ PgUp'),
    ...lines.slice(top, end),
    end >= lines.length ? paint('yellow', '  (end)') : mark(lines.length - end, 'below: ↓ PgDn'),
  ]
}

function drawTasks(tasks: SessionView['tasks'], width: number): string[] {
  const open = tasks.findIndex(({ status }) => status !== 'done')
  if (open === -1) return []
  const from = Math.max(0, Math.min(open - 1, tasks.length - maxTasks))
  return tasks.slice(from, from + maxTasks).map(({ title, status }) => {
    const line = truncateToWidth(`  ${marks[status] ?? '·'} ${sanitizeLine(title)}`, width)
    return paint(status === 'in_progress' ? 'cyan' : 'dim', line)
  })
}

/** The lines around the cursor; each begins with two columns. */
function drawInput({ text, cursor }: EditorState, width: number) {
  const lines: string[] = []
  let row = 0
  let column = 0
  let offset = 0
  for (const line of text.split('\n')) {
    let at = 0
    do {
      const piece = fitting(line.slice(at), width - 3)
      const from = offset + at
      const isLastPiece = at + piece.length >= line.length
      if (
        cursor >= from &&
        (cursor < from + piece.length || (isLastPiece && cursor === from + piece.length))
      ) {
        row = lines.length
        column = 2 + displayWidth(text.slice(from, cursor))
      }
      lines.push(`${lines.length === 0 ? '›' : ' '} ${sanitizeLine(piece)}`)
      at += piece.length
    } while (at < line.length)
    offset += line.length + 1
  }
  const from = Math.max(0, Math.min(row - maxInputLines + 1, lines.length - maxInputLines))
  return { lines: lines.slice(from, from + maxInputLines), row: row - from, column }
}

/** The start of a line that fits, at least one character. */
function fitting(line: string, width: number): string {
  let piece = ''
  for (const character of line) {
    if (piece !== '' && displayWidth(piece + character) > width) break
    piece += character
    // A line of thousands of characters is measured once for each of its rows, not from its start.
    if (piece.length > 4 * width) break
  }
  return piece
}

function factsLine(facts: readonly string[], width: number): string {
  let line = ''
  for (const fact of facts.map(sanitizeLine)) {
    const next = line === '' ? fact : `${line} · ${fact}`
    if (line !== '' && displayWidth(next) > width) break
    line = next
  }
  return line
}
