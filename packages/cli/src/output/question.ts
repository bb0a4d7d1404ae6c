import { type ShownLine, shownAction } from '@slipway/protocol/confirmation'
import { type JsonObject, riskMark } from './action-text.ts'
import { paint, type Style } from './terminal.ts'
import { wrapLine } from './word-wrapper.ts'

const styles: { readonly [K in ShownLine['kind']]?: Style } = { removed: 'red', added: 'green' }

/**
 * What a question shows of the action that it asks about, safe to print: tool, risk and the whole command,
 * the whole edit as a difference, or all arguments. Nothing is left out, whatever its length: the dangerous
 * part may be the last one. `columns` is the width of rows; without it the terminal wraps.
 */
export function questionLines(event: JsonObject, columns = Number.POSITIVE_INFINITY): string[] {
  const { tool, risk, subject, lines } = shownAction(event)
  const [first] = lines
  const isInline = subject === '' && first?.kind === 'command'
  const head = `${tool}${riskMark(risk)}: ${isInline ? first.text : subject}`.trimEnd()
  const rows = [
    ...wrapLine(head, columns - 2),
    ...lines.slice(isInline ? 1 : 0).flatMap(({ kind, text }) => {
      const style = styles[kind]
      return wrapLine(text, columns - 2).map((row) => (style === undefined ? row : paint(style, row)))
    }),
  ]
  return rows.map((row, at) => (at === 0 ? row : `  ${row}`))
}

/** How many rows are not in view, where, and what shows them. */
export function hiddenMark(count: number, where: string): string {
  return `… ${count} ${count === 1 ? 'line' : 'lines'} ${where}`
}
