import { InvalidArgumentError } from 'commander'

/** Reads a whole number in a flag. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return value
    throw new InvalidArgumentError(`It is a whole number from ${min} to ${max}.`)
  }
}

/** Reads the size of a page in a flag, as text, which is what a query takes. */
export function pageSize(text: string): string {
  return String(wholeNumber(1, 100)(text))
}

/** Reads `key=value` and adds it to those before it. */
export function tag(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf('=')
  if (at < 1) throw new InvalidArgumentError('It is written key=value.')
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) }
}
