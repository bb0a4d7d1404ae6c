import { InvalidArgumentError } from 'commander'

/** Reads a whole number in a flag. */
export function integerFlag(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return value
    throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`)
  }
}

/** Reads the size of a page in a flag, as text, which is what a query takes. */
export function pageSizeFlag(text: string): string {
  return String(integerFlag(1, 100)(text))
}

/** Reads `key=value` and adds it to those before it. */
export function tagFlag(text: string, previous: Record<string, string> = {}): Record<string, string> {
  const separator = text.indexOf('=')
  if (separator < 1) throw new InvalidArgumentError('Expected key=value.')
  return { ...previous, [text.slice(0, separator)]: text.slice(separator + 1) }
}
