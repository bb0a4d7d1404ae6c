import { isRecord } from '@slipway/shared/json'

/** A line of CSV (RFC 4180). Records are JSON; a text that a spreadsheet would compute gets an apostrophe. */
export function csvLine(values: readonly unknown[]): string {
  return `${values.map(csvField).join(',')}\r\n`
}

function csvField(value: unknown): string {
  if (value === null || value === undefined) return ''
  const text = isRecord(value) ? JSON.stringify(value) : String(value)
  const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
