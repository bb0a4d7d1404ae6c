/**
 * The statements of a shell text that stand on lines of their own, in order, each as it was written (without its here
 * documents); comments are none. What is on one line (`a; b`, `a && b`, a pipe) counts as one, and so does a compound
 * statement of many lines. The error of a text that is no shell syntax is a sentence in English.
 */
export async function topLevelCommands(
  text: string,
): Promise<{ readonly commands: string[] } | { readonly error: string }> {
  const { parse } = await import('unbash')
  const { commands, errors = [] } = parse(text)
  const first = errors[0]
  if (first !== undefined) {
    const line = text.slice(0, first.pos).split('\n').length
    return { error: `Line ${line}: ${first.message}.` }
  }
  const groups: { start: number; end: number }[] = []
  for (const { pos, end } of commands) {
    const last = groups.at(-1)
    if (last === undefined || text.slice(last.end, pos).includes('\n')) groups.push({ start: pos, end })
    else last.end = end
  }
  return { commands: groups.map(({ start, end }) => text.slice(start, end)) }
}
