import { styleText } from 'node:util'
import Table from 'cli-table3'
import type { EventLine } from './event-line.ts'

/** Writes to standard output with backpressure. What comes after its reader has gone is dropped. */
export async function print(text: string | Uint8Array): Promise<void> {
  const { stdout } = process
  if (stdout.destroyed || stdout.write(text)) return
  await new Promise<void>((resolve) => {
    const end = () => {
      for (const name of ['drain', 'close', 'error']) stdout.off(name, end)
      resolve()
    }
    for (const name of ['drain', 'close', 'error']) stdout.on(name, end)
  })
}

/** Prints the result of a command, as JSON or as text for people. */
export async function printResult(isJson: boolean, value: unknown, text: string): Promise<void> {
  await print(`${isJson ? JSON.stringify(value) : text}\n`)
}

/** Prints a line to standard error. */
export function printNote(text: string): void {
  process.stderr.write(`${text}\n`)
}

export type Style = Parameters<typeof styleText>[0]

/** Colour where standard output is a terminal and NO_COLOR is not set. */
export function paint(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout })
}

const borderless = Object.fromEntries(
  ['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left', 'bottom-right']
    .concat(['left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid', 'middle'])
    .map((part) => [part, '']),
)

/**
 * A table without borders. The last column takes the rest of the terminal's width; without a terminal it is
 * not cut.
 */
export function table(
  rows: readonly (readonly string[])[],
  widths: readonly number[],
  head?: readonly string[],
): string {
  const rest = (process.stdout.columns ?? Number.NaN) - widths.reduce((sum, width) => sum + width, 0)
  const output = new Table({
    chars: borderless,
    style: { 'padding-left': 0, 'padding-right': 1, head: [], border: [] },
    colWidths: [...widths, Number.isNaN(rest) ? null : Math.max(20, rest)],
  })
  if (head !== undefined) output.push(head.map((cell) => paint('bold', cell)))
  output.push(...rows.map((row) => [...row]))
  return `${output.toString().replace(/ +$/gm, '')}\n`
}

/** The columns of an event: time, kind, source, summary. */
export function eventColumns({ time, kind, source, summary }: EventLine): string[] {
  return [paint('dim', shortTime(time)), paint('cyan', kind), source, summary]
}

/** Widths of the columns of an event but the last one. */
export function eventWidths(): number[] {
  return [isNarrow() ? 13 : 24, 29, 12]
}

/** To the millisecond; on a narrow terminal without the date. */
function shortTime(time: string): string {
  const [, date, clock] = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d{1,3})?)/.exec(time) ?? []
  if (date === undefined || clock === undefined) return time
  return isNarrow() ? clock : `${date} ${clock}`
}

function isNarrow(): boolean {
  return (process.stdout.columns ?? 200) < 110
}
