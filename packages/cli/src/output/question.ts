import { visibleLines, visibleText } from '@slipway/protocol/visible-text'
import {
  actionText,
  asObject,
  asString,
  type JsonObject,
  riskMark,
  withoutLastLineFeed,
} from './action-text.ts'
import { paint } from './terminal.ts'
import { wrapLine } from './word-wrapper.ts'

/**
 * What a question shows of the action that it asks about, safe to print: tool, risk and the whole command, or
 * the whole edit as a diff. Nothing is left out, whatever its length: the dangerous part may be the last one.
 * `columns` is the width of rows; without it the terminal wraps.
 */
export function questionLines(event: JsonObject, columns = Number.POSITIVE_INFINITY): string[] {
  const action = asObject(event.action)
  const head = `${visibleText(asString(event.tool_name))}${riskMark(asString(event.security_risk))}: `
  const text = visibleLines(`${head}${actionText(action)}`.trimEnd())
  const diff = (text: unknown, mark: string, style: 'red' | 'green') =>
    text === undefined || text === null
      ? []
      : visibleLines(withoutLastLineFeed(asString(text))).flatMap((line) =>
          wrapLine(`${mark} ${line}`, columns - 2).map((row) => paint(style, row)),
        )
  const rows = [
    ...text.flatMap((line) => wrapLine(line, columns - 2)),
    ...diff(action.old_str, '-', 'red'),
    ...diff(action.new_str ?? action.file_text, '+', 'green'),
  ]
  return rows.map((row, at) => (at === 0 ? row : `  ${row}`))
}
