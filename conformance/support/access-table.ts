/** A table of routes and kinds of keys. Each cell is what came of a request. */
export interface AccessTable {
  readonly title: string
  /** Below the title. */
  readonly text: string
  /** Kinds of keys. */
  readonly columns: readonly string[]
  readonly rows: readonly { readonly route: string; readonly cells: readonly string[] }[]
}

/** As a page of `docs/reference`. */
export function accessPage({ title, text, columns, rows }: AccessTable): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const head = [line(['route', ...columns]), line(Array.from({ length: columns.length + 1 }, () => '---'))]
  const lines = rows.map(({ route, cells }) => line([`\`${route}\``, ...cells]))
  return `# ${title}\n\n${text}\n\n${[...head, ...lines].join('\n')}\n`
}
