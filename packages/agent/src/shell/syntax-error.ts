/** What is wrong with the syntax of a shell text, as a sentence; undefined for a valid one. */
export async function shellSyntaxError(text: string): Promise<string | undefined> {
  const { parse } = await import('unbash')
  const first = parse(text).errors?.[0]
  if (first === undefined) return undefined
  const line = text.slice(0, first.pos).split('\n').length
  return `Line ${line}: ${first.message}.`
}
