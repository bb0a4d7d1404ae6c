/**
 * The statements of a shell text on separate lines, in order, in their original text (without here documents
 * and comments). Statements on one line (`a; b`, `a && b`, a pipe) count as one, as does a multi-line
 * compound statement. The error of an invalid text is a sentence.
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
