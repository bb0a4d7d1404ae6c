import { dirname, isAbsolute, join } from 'node:path'
import type { ImageContent, TextContent } from '@slipway/protocol'
import {
  createFile,
  exclusively,
  look,
  mustFit,
  Refused,
  readIfThere,
  readWhole,
  replaceFile,
} from '../core/file-access.ts'
import { text as block, type ToolAction, type ToolContext } from '../core/tool.ts'
import { truncate } from '../core/truncate.ts'
import { History } from './edit-history.ts'
import { decode, encode, fileText, mustBeText, plain } from './encoding.ts'
import { forEvent, lineCount, numbered, printable, snippet } from './lines.ts'
import { listDirectory } from './listing.ts'
import { imageOf } from './read-image.ts'
import { difference, insert, replace } from './text-changes.ts'

/** Characters of an answer. */
const maxChars = 16_000
const maxListed = 1000

export type Command = Omit<ToolAction<'FileEditorAction'>, 'kind'>

/** What the observations of both editors have besides their kind. */
export interface Edited {
  readonly content: (TextContent | ImageContent)[]
  readonly command: Command['command']
  readonly path: string | null
  readonly prev_exist: boolean
  readonly old_content: string | null
  readonly new_content: string | null
}

/** The five commands on files of a workspace. What cannot be done rejects with Refused, PathRefused or the system's error. */
export class Editor {
  readonly #context: ToolContext
  readonly #history: History

  constructor(context: ToolContext) {
    this.#context = context
    this.#history = new History(context.directory)
  }

  async run(command: Command, signal: AbortSignal): Promise<Edited> {
    await this.#mustBeAbsolute(command.path)
    if (command.command === 'view') return await this.#view(command, signal)
    const real = await this.#context.workspace.resolve(command.path, 'write')
    return await exclusively(real, async () => {
      switch (command.command) {
        case 'create':
          return await this.#create(command, real)
        case 'undo_edit':
          return await this.#undo(command, real)
        default:
          return await this.#edit(command, real)
      }
    })
  }

  async #mustBeAbsolute(path: string): Promise<void> {
    if (isAbsolute(path)) return
    const { workspace } = this.#context
    const real = await workspace.resolve(path, 'read')
    const hint =
      (await look(real)) === undefined ? '' : ` Perhaps ${join(workspace.directory, path)} is meant.`
    throw new Refused(`The path ${path} is not absolute: it has to start with /.${hint}`)
  }

  async #view(command: Command, signal: AbortSignal): Promise<Edited> {
    const { path, view_range: range } = command
    const real = await this.#context.workspace.resolve(path, 'read')
    if ((await look(real))?.isDirectory()) {
      if (range) throw new Refused('view_range is for files; a directory is listed whole.')
      return done(command, { content: [block(await this.#listing(path, real, signal))] })
    }
    const { bytes } = await readWhole(real)
    const shown = await imageOf(path, bytes)
    if (shown !== undefined) {
      const note = shown.isShrunk ? ', made smaller' : ''
      return done(command, { content: [block(`The image ${path}${note}:`), shown.image] })
    }
    return done(command, { content: [block(view(path, mustBeText(path, bytes).text, range ?? undefined))] })
  }

  async #listing(path: string, real: string, signal: AbortSignal): Promise<string> {
    const { entries, hidden } = await listDirectory(real, { levels: 2, isHiddenListed: false }, signal)
    const lines = entries
      .slice(0, maxListed)
      .map((entry) => `${printable(entry.path)}${entry.isDirectory ? '/' : entry.isLink ? ' (link)' : ''}`)
    const more = entries.length - lines.length
    const listing = [
      `${path} has these entries, two levels deep:`,
      ...lines,
      ...(more > 0 ? [`[${more} more are left out. View a directory below to see what is in it.]`] : []),
      ...(hidden > 0 ? [`[${hidden} hidden ones, with a dot in front of the name, are left out.]`] : []),
    ].join('\n')
    const { directory } = this.#context
    return (await truncate(listing, { directory, tool: 'file_editor', maxChars })).text
  }

  async #create(command: Command, real: string): Promise<Edited> {
    const { path, file_text: given } = command
    if (given == null) throw new Refused('create needs file_text, the content of the new file.')
    if ((await look(real)) !== undefined)
      throw new Refused(
        `${path} is already there, so it cannot be created. Change it with str_replace or insert.`,
      )
    const parent = dirname(real)
    if (!(await look(parent))?.isDirectory())
      throw new Refused(`The directory ${parent} is not there. Create it first, then the file.`)
    await createFile(real, mustFit(path, encode({ ...plain, text: given })))
    await this.#history.clear(real)
    const content = [block(`Created ${path} with ${count(lineCount(given), 'line')}.`)]
    return done(command, { content, prev_exist: false, new_content: forEvent(given) })
  }

  async #edit(command: Command, real: string): Promise<Edited> {
    const { bytes } = await readWhole(real)
    const old = mustBeText(command.path, bytes)
    const { text, from, to } = command.command === 'insert' ? insert(command, old) : replace(command, old)
    const changed = { ...old, text }
    const takeBack = await this.#history.push(real, bytes)
    try {
      await replaceFile(real, mustFit(command.path, encode(changed)))
    } catch (error) {
      await takeBack()
      throw error
    }
    const shown = `${command.path} is changed. These are the lines around it now:\n${snippet(text, { from, to, maxChars: maxChars - 1000 })}`
    return done(command, {
      content: [block(shown)],
      old_content: forEvent(fileText(old)),
      new_content: forEvent(fileText(changed)),
    })
  }

  async #undo(command: Command, real: string): Promise<Edited> {
    const version = await this.#history.last(real)
    if (version === undefined) throw new Refused(`There is no edit of ${command.path} that could be undone.`)
    const current = await readIfThere(real)
    await replaceFile(real, version.bytes)
    await version.forget()
    const before = current === undefined ? undefined : decode(current.bytes)
    const after = decode(version.bytes)
    const shown =
      before === undefined || after === undefined
        ? ''
        : ` These are the lines around it now:\n${snippet(after.text, { ...difference(before.text, after.text), maxChars: maxChars - 1000 })}`
    return done(command, {
      content: [block(`The last edit of ${command.path} is undone.${shown}`)],
      prev_exist: current !== undefined,
      old_content: before === undefined ? null : forEvent(fileText(before)),
      new_content: after === undefined ? null : forEvent(fileText(after)),
    })
  }
}

/** What an observation has when something could not be done. */
export function notDone({ command }: Command): Omit<Edited, 'content'> {
  return { command, path: null, prev_exist: true, old_content: null, new_content: null }
}

function done({ command, path }: Command, result: Partial<Edited> & Pick<Edited, 'content'>): Edited {
  return { command, path, prev_exist: true, old_content: null, new_content: null, ...result }
}

function view(path: string, text: string, range: readonly number[] | undefined): string {
  const total = lineCount(text)
  if (total === 0 && range === undefined) return `${path} is empty.`
  const { first, last, note } = lines(range ?? [1, -1], total)
  const hint = 'Use view_range to see a part.'
  const heading = `${path}, ${range === undefined ? count(total, 'line') : `lines ${first} to ${last} of ${total}`}:`
  return `${heading}\n${numbered(text, { first, last, maxChars: maxChars - heading.length - 200, gap: '\t', hint })}${note}`
}

function lines(range: readonly number[], total: number): { first: number; last: number; note: string } {
  const [first, last, ...more] = range
  if (first === undefined || last === undefined || more.length > 0)
    throw new Refused('view_range has to be two numbers, the first and the last line; -1 stands for the end.')
  if (total === 0) throw new Refused('The file is empty: it has no line to view.')
  if (first < 1 || first > total)
    throw new Refused(`view_range begins with line ${first}, but the file has lines 1 to ${total}.`)
  if (last !== -1 && last < first)
    throw new Refused(`view_range ends with line ${last}, before its beginning at line ${first}.`)
  if (last > total) return { first, last: total, note: `\n[The file ends with line ${total}.]` }
  return { first, last: last === -1 ? total : last, note: '' }
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}
