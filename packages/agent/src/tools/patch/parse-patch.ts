import { firstChars } from '@slipway/shared/text'
import { ToolError } from '../core/tool-failure.ts'
import { plainPatch } from './read-diff.ts'

/** One change of a patch to a file. */
export type FilePatch =
  | { readonly kind: 'add'; readonly path: string; readonly text: string }
  | { readonly kind: 'delete'; readonly path: string }
  /** Takes back the last change of the file. */
  | { readonly kind: 'undo'; readonly path: string }
  | {
      readonly kind: 'update'
      readonly path: string
      /** The new path of a moved file. */
      readonly moveTo: string | undefined
      readonly hunks: readonly Hunk[]
    }

export interface Hunk {
  /** Lines that stand before the hunk, each after the one before: what follows `@@`. */
  readonly headers: readonly string[]
  readonly oldLines: readonly string[]
  readonly newLines: readonly string[]
  /** Whether the old lines are the last ones of the file. */
  readonly isAtEnd: boolean
  /** The number of the first old line in the whole file before the patch, as diffs tell it: a hint. */
  readonly line?: number | undefined
  /** The last new line has no line end. */
  readonly isOpen?: true | undefined
}

/**
 * Parses a patch from `*** Begin Patch` to `*** End Patch`. Throws ToolError with the line of the mistake.
 */
export function parsePatch(patch: string): FilePatch[] {
  const lines = plainPatch(patch).trim().split(/\r?\n/)
  if (lines[0]?.trim() !== '*** Begin Patch')
    throw new ToolError('A patch begins with the line "*** Begin Patch".')
  if (lines.at(-1)?.trim() !== '*** End Patch')
    throw new ToolError('A patch ends with the line "*** End Patch".')
  return new PatchParser(lines.slice(0, -1)).read()
}

class PatchParser {
  readonly #lines: readonly string[]
  #at = 1

  constructor(lines: readonly string[]) {
    this.#lines = lines
  }

  read(): FilePatch[] {
    const patches: FilePatch[] = []
    while (this.#at < this.#lines.length) {
      const line = this.#next()
      if (line.trim() === '') continue
      const [, action, path] = /^\s*\*\*\* (Add|Delete|Update|Undo) File: (.*\S)\s*$/.exec(line) ?? []
      if (path === undefined)
        throw this.#failure('"*** Add File: ", "*** Update File: " or "*** Delete File: " with a path')
      if (action === 'Add') patches.push({ kind: 'add', path, text: this.#readAdded() })
      else if (action === 'Delete') patches.push({ kind: 'delete', path })
      else if (action === 'Undo') patches.push({ kind: 'undo', path })
      else patches.push(this.#readUpdate(path))
    }
    if (patches.length === 0) throw new ToolError('The patch changes no file.')
    return patches
  }

  #readAdded(): string {
    const added: string[] = []
    while (this.#peek()?.startsWith('+')) added.push(this.#next().slice(1))
    return added.map((line) => `${line}\n`).join('')
  }

  #readUpdate(path: string): FilePatch {
    const moveTo = /^\*\*\* Move to: (.*\S)\s*$/.exec(this.#peek() ?? '')?.[1]
    if (moveTo !== undefined) this.#at++
    const hunks: Hunk[] = []
    for (
      let line = this.#peek();
      line !== undefined && !/^\*\*\* (?!End of File)/.test(line);
      line = this.#peek()
    ) {
      if (line.trim() === '' && this.#isBeforeFile()) this.#at++
      else hunks.push(this.#readHunk(hunks.length === 0))
    }
    if (hunks.length === 0 && moveTo === undefined)
      throw new ToolError(`The update of ${path} has no change.`)
    return { kind: 'update', path, moveTo, hunks }
  }

  #readHunk(isFirst: boolean): Hunk {
    const headers: string[] = []
    const start = this.#at
    let hint: number | undefined
    while (/^@@(?: |$)/.test(this.#peek() ?? '')) {
      const line = this.#next()
      const [, number] = /^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@/.exec(line) ?? []
      if (number !== undefined) hint = Number(number)
      // Some models close a line of context as diffs do, or write dots for the numbers.
      const header = line.slice(3).replace(/(?:^| )@@\s*$/, '')
      if (number === undefined && header.trim() !== '' && header.trim() !== '...') headers.push(header)
    }
    if (!isFirst && this.#at === start) {
      this.#at++
      throw this.#failure('"@@" before the next part')
    }
    const oldLines: string[] = []
    const newLines: string[] = []
    let hasLines = false
    let isOpen = false
    for (let line = this.#peek(); line !== undefined; line = this.#peek()) {
      if (line.startsWith('@@') || line.startsWith('*** ') || (line === '' && this.#isBeforeFile())) break
      this.#at++
      const [mark, text] = [line[0] ?? ' ', line.slice(1)]
      if (mark === '\\' && hasLines) {
        isOpen = !(this.#lines[this.#at - 2] ?? '').startsWith('-')
        continue
      }
      if (!' +-'.includes(mark)) throw this.#failure('a line that begins with "+", "-" or a blank')
      hasLines = true
      if (mark !== '+') oldLines.push(text)
      if (mark !== '-') newLines.push(text)
    }
    const isAtEnd = this.#peek()?.trim() === '*** End of File'
    if (isAtEnd) this.#at++
    if (!hasLines) {
      this.#at++
      throw this.#failure('the lines of a change')
    }
    return { headers, oldLines, newLines, isAtEnd, line: hint, isOpen: isOpen ? true : undefined }
  }

  /** Whether only blank lines stand before the next file or the end. */
  #isBeforeFile(): boolean {
    const next = this.#lines.slice(this.#at).find((line) => line.trim() !== '')
    return next === undefined || /^\*\*\* (?:Add|Delete|Update|Undo) File: /.test(next)
  }

  #peek(): string | undefined {
    return this.#lines[this.#at]
  }

  #next(): string {
    return this.#lines[this.#at++] ?? ''
  }

  #failure(expected: string): ToolError {
    const line = this.#lines[this.#at - 1] ?? ''
    return new ToolError(
      `Line ${this.#at} of the patch is ${JSON.stringify(firstChars(line, 200))}, but ${expected} is expected.`,
    )
  }
}
