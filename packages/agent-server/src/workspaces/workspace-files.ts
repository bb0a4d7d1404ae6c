import { realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { below, contentTypeOf, type Found, type FoundFile } from '@slipway/http'
import { Problem } from '@slipway/protocol'
import type { ConversationRecord } from '@slipway/storage'
import type { KeptRequest } from '../conversations/stored-request.ts'
import type { Grant } from './tickets.ts'

export interface OpenedFile extends FoundFile {
  /** From the directory of the workspace, also of the page that stands for a directory. */
  readonly name: string
  readonly contentType: string | undefined
}

/** The steps of a path from the directory of a workspace; a Problem `bad_request` when they lead out of it. */
export function stepsOf(path: string): readonly string[] {
  const steps = path.split('/').filter((step) => step !== '' && step !== '.')
  if (steps.includes('..') || path.includes('\0')) throw outside()
  return steps
}

/**
 * The files of workspaces, for those who may read them. What the server keeps for itself is no file of a workspace, wherever the workspace
 * is.
 */
export class WorkspaceFiles {
  readonly #kept: string
  readonly #worktrees: string

  /** `directory`: what the server keeps; workspaces are there only below `worktrees`. */
  constructor({ directory, worktrees }: { readonly directory: string; readonly worktrees: string }) {
    this.#kept = directory
    this.#worktrees = worktrees
  }

  /**
   * The file of a path, or the `index.html` of a directory, as far as the grant goes (undefined: everywhere). Problems: `bad_request` when
   * the path leads out of the workspace, `not_found`, and `forbidden` when the grant does not go so far or the system says no.
   */
  async find(record: ConversationRecord, path: string, grant: Grant | undefined): Promise<OpenedFile> {
    const root = await this.#rootOf(record)
    const steps = stepsOf(path)
    const asked = await below(root, steps.join('/'))
    const isDirectory = asked.kind === 'directory'
    const names = isDirectory ? [...steps, 'index.html'] : steps
    const found = isDirectory ? await below(root, names.join('/')) : asked
    if (found.kind === 'outside') throw outside()
    const name = names.join('/')
    if (grant !== undefined && grant.use !== 'session') await mustBeIn(root, { grant, record, name, found })
    if (found.kind === 'refused') throw new Problem('forbidden', 'Permission denied')
    if (found.kind !== 'file' || (await this.#isOwn(found.path)))
      throw new Problem('not_found', 'There is no such file in the workspace')
    return { path: found.path, stats: found.stats, name, contentType: contentTypeOf(name) }
  }

  async #rootOf(record: ConversationRecord): Promise<string> {
    const request: KeptRequest = record.request === null ? {} : JSON.parse(record.request)
    const directory = request.workspace?.working_dir
    const root = directory && (await realpath(directory).catch(() => undefined))
    if (!root) throw new Problem('not_found', 'The conversation has no workspace')
    return root
  }

  async #isOwn(path: string): Promise<boolean> {
    const [kept, worktrees] = await Promise.all([this.#kept, this.#worktrees].map(real))
    return isIn(path, kept) && !isIn(path, worktrees)
  }
}

/** Throws a Problem `forbidden` for a file that a ticket does not open. */
async function mustBeIn(
  root: string,
  file: {
    readonly grant: Exclude<Grant, { use: 'session' }>
    readonly record: ConversationRecord
    readonly name: string
    readonly found: Found
  },
): Promise<void> {
  const { grant, record, name, found } = file
  const isNamed = grant.path === '' || name === grant.path || name.startsWith(`${grant.path}/`)
  const isOfKind = grant.use === 'ticket' || isEmbedded(name)
  // Links inside of the workspace may lead out of what the ticket opens.
  const isReached = !('path' in found) || isIn(found.path, await real(join(root, grant.path)))
  if (grant.conversation !== record.id || !isNamed || !isOfKind || !isReached)
    throw new Problem('forbidden', 'The ticket does not open this file')
}

/** Whether it is of a type that pages load by themselves, and not hidden. Texts and data are not among them. */
function isEmbedded(name: string): boolean {
  const type = contentTypeOf(name) ?? ''
  return (
    !`/${name}`.includes('/.') &&
    /^(text\/(html|css|javascript)|(image|font|audio|video)\/|application\/(wasm|pdf|manifest\+json|xhtml\+xml))/.test(
      type,
    )
  )
}

/** A path that is not there is as it is. */
async function real(path: string | undefined): Promise<string | undefined> {
  return path === undefined ? undefined : await realpath(path).catch(() => path)
}

function isIn(path: string, directory: string | undefined): boolean {
  return directory !== undefined && (path === directory || path.startsWith(directory + sep))
}

function outside(): Problem {
  return new Problem('bad_request', 'The path leads out of the workspace')
}
