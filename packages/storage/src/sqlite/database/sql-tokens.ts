const tokenPattern =
  /\s+|--[^\n]*|\/\*[\s\S]*?\*\/|(?<kept>x?'(?:[^']|'')*')|(?<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])|(?<bare>[\w$]+|[<>!=]=|<>|\|\||<<|>>|->>?|[\s\S])/giu

/** The tokens of a statement: without white space, comments and quotes, names and keywords in lower case. */
export function sqlTokens(sql: string): string[] {
  return [...sql.matchAll(tokenPattern)].flatMap(({ groups: { kept, quoted, bare } = {} }) => {
    if (quoted !== undefined) return [quoted.slice(1, -1).toLowerCase()]
    return kept ?? bare?.toLowerCase() ?? []
  })
}

/** The tokens of the first parentheses at or after an index, with them. */
export function firstGroup(tokens: readonly string[], from = 0): string[] {
  const start = tokens.indexOf('(', from)
  let depth = 0
  for (let index = start; start !== -1 && index < tokens.length; index++) {
    depth += tokens[index] === '(' ? 1 : tokens[index] === ')' ? -1 : 0
    if (depth === 0) return tokens.slice(start, index + 1)
  }
  return []
}

/** The parts of a group that its own commas separate. */
export function groupParts(group: readonly string[]): string[][] {
  const parts: string[][] = [[]]
  let depth = 0
  for (const token of group.slice(1, -1)) {
    depth += token === '(' ? 1 : token === ')' ? -1 : 0
    if (token === ',' && depth === 0) parts.push([])
    else parts.at(-1)?.push(token)
  }
  return parts
}
