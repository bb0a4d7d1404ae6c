import { ToolError } from '../core/tool-failure.ts'

/** What a diff says of one file. */
interface FileDiff {
  oldPath?: string
  newPath?: string
  isNew: boolean
  isDeleted: boolean
  isRename: boolean
  /** Its `+++` line was read. */
  hasNames: boolean
  /** Lines of its parts, each with its `@@` before. */
  readonly lines: string[]
}

/**
 * A patch in the form that the tool applies: without a fence or a here document around it, and a unified or
 * git diff as `*** Begin Patch`. Other texts stay as they are. It comes before anything that looks at the
 * patch, so that what is asked about is what runs. Throws ToolError for a diff that says what no patch can.
 */
export function plainPatch(patch: string): string {
  const text = withoutFrame(patch)
  const lines = text.split(/\r?\n/)
  const isDiff = lines.some((_, at) => isFileStart(lines, at))
  if (!isDiff || lines.some((line) => line.trim() === '*** Begin Patch')) return text
  const files = readFiles(lines)
  return ['*** Begin Patch', ...files.flatMap(patchLines), '*** End Patch'].join('\n')
}

/** Models write a fence around a patch, or call the tool as in a shell. */
function withoutFrame(patch: string): string {
  const lines = patch
    .replace(/^\s*\n/, '')
    .trimEnd()
    .split('\n')
  const [first = '', last = ''] = [lines[0]?.trim(), lines.at(-1)?.trim()]
  const word = /^(?:apply_patch\s+)?<<-?\s*(['"]?)(\w+)\1$/.exec(first)?.[2]
  const isFenced = /^(`{3,}|~{3,})[\w-]*$/.test(first) && /^(?:`{3,}|~{3,})$/.test(last)
  if (lines.length > 2 && (isFenced || (word !== undefined && word === last)))
    return withoutFrame(lines.slice(1, -1).join('\n'))
  return patch
}

function isFileStart(lines: readonly string[], at: number): boolean {
  const [line = '', next = '', third = ''] = [lines[at], lines[at + 1], lines[at + 2]]
  return (
    line.startsWith('diff --git ') ||
    (line.startsWith('--- ') && next.startsWith('+++ ') && third.startsWith('@@'))
  )
}

function readFiles(lines: readonly string[]): FileDiff[] {
  const files: FileDiff[] = []
  let current: FileDiff | undefined
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? ''
    // The names of a git diff come again in its `---` and `+++`.
    const isNext = line.startsWith('diff ') || current === undefined || current.hasNames
    if (isFileStart(lines, at) && isNext) {
      current = { isNew: false, isDeleted: false, isRename: false, hasNames: false, lines: [] }
      files.push(current)
    }
    if (current === undefined) continue
    if (current.lines.length > 0 || line.startsWith('@@')) current.lines.push(line)
    else readHeader(line, current)
  }
  if (files.length === 0) throw new ToolError('The patch changes no file.')
  return files
}

function readHeader(line: string, file: FileDiff): void {
  const [, name, value = ''] =
    /^(---|\+\+\+|rename from|rename to|copy from|new file|deleted file|Binary files|GIT binary patch) ?(.*)$/.exec(
      line,
    ) ?? []
  if (name === '---') file.oldPath = diffPath(value)
  else if (name === '+++') Object.assign(file, { newPath: diffPath(value), hasNames: true })
  else if (name === 'rename from') Object.assign(file, { isRename: true, oldPath: unquote(value) })
  else if (name === 'rename to') file.newPath = unquote(value)
  else if (name === 'new file') file.isNew = true
  else if (name === 'deleted file') file.isDeleted = true
  else if (name !== undefined)
    throw new ToolError(
      'The diff copies a file or has binary data, which this tool cannot apply. Use the terminal.',
    )
  const names = /^diff --git (?:"?a\/)(.*?)"? "?b\/(.*?)"?$/.exec(line)
  if (names?.[1] === names?.[2] && names?.[1] !== undefined)
    Object.assign(file, { oldPath: names[1], newPath: names[1] })
}

const noFile = '/dev/null'

/** The path of a `---` or `+++` line: without a time, quotes, and the `a/` or `b/` of git. */
function diffPath(text: string): string {
  const path = unquote(text.split('\t')[0]?.trimEnd() ?? '')
  return path === noFile ? path : path.replace(/^[ab]\//, '')
}

/** Git quotes names with bytes above 127 and control characters as C does. */
function unquote(text: string): string {
  if (!/^".*"$/.test(text)) return text
  const bytes = text
    .slice(1, -1)
    .replaceAll(/\\([0-7]{3}|.)/g, (_, code: string) =>
      /^[0-7]{3}$/.test(code)
        ? String.fromCharCode(Number.parseInt(code, 8))
        : code.replace('t', '\t').replace('n', '\n'),
    )
  return Buffer.from(bytes, 'latin1').toString()
}

function patchLines({ oldPath, newPath, isNew, isDeleted, isRename, lines }: FileDiff): string[] {
  const path = isRename || newPath === noFile ? oldPath : newPath
  if (path === undefined || path === '' || [path, newPath].some((one) => one?.includes('\n')))
    throw new ToolError('The diff has a part without a path in one line.')
  const changes = [...lines]
  while (changes.at(-1) === '') changes.pop()
  if (isDeleted || newPath === noFile) return [`*** Delete File: ${path}`]
  if (isNew || oldPath === noFile)
    return [`*** Add File: ${path}`, ...changes.filter((line) => !/^(?:@@|\\)/.test(line))]
  const moved = isRename && newPath !== undefined && newPath !== path ? [`*** Move to: ${newPath}`] : []
  return [`*** Update File: ${path}`, ...moved, ...changes]
}
