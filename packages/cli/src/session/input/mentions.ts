import { readdir, readFile, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'

const maxFileBytes = 64 * 1024
const maxFiles = 10
const maxSuggestions = 6

/** The files that continue an `@path` at the end of a text; directories end in a slash. */
export async function suggestFiles(text: string, directory: string): Promise<string[]> {
  const [, path] = /(?:^|\s)@(\S*)$/.exec(text) ?? []
  if (path === undefined) return []
  const slash = path.lastIndexOf('/') + 1
  const entries = await readdir(resolve(directory, path.slice(0, slash)), { withFileTypes: true }).catch(
    () => [],
  )
  const start = path.slice(slash).toLowerCase()
  return entries
    .filter(({ name }) => name.toLowerCase().startsWith(start) && (start !== '' || !name.startsWith('.')))
    .map((entry) => `@${path.slice(0, slash)}${entry.name}${entry.isDirectory() ? '/' : ''}`)
    .sort()
    .slice(0, maxSuggestions)
}

/** A message with the files that it names as `@path`, each of at most 64 KiB; larger ones stay names. */
export async function contentWithFiles(text: string, directory: string) {
  const names = new Set(
    [...text.matchAll(/(?:^|\s)@(\S+)/g)].map(([, path = '']) => path.replace(/[.,;:]$/, '')),
  )
  const parts = [{ type: 'text' as const, text }]
  for (const name of [...names].slice(0, maxFiles)) {
    const path = resolve(directory, name)
    const stats = await stat(path).catch(() => undefined)
    if (!stats?.isFile() || stats.size > maxFileBytes) continue
    const content = await readFile(path, 'utf8').catch(() => '\u0000')
    // Not a text.
    if (content.includes('\u0000')) continue
    const shown = join(dirname(name), name.slice(name.lastIndexOf('/') + 1))
    parts.push({ type: 'text', text: `<file path="${shown}">\n${content}\n</file>` })
  }
  return parts
}
