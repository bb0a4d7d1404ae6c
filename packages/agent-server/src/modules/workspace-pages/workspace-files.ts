import { join } from 'node:path'
import { contentTypeForPath, type ResolvedFile } from '@slipway/http'
import { Problem } from '@slipway/protocol'
import { isWithin, type ResolvedPath, resolveWithin } from '@slipway/shared/fs'
import { realpath, stat } from '@slipway/shared/tool-files'
import type { ConversationRecord } from '@slipway/storage'
import { readStoredRequest } from '../../core/conversations/stored-request.ts'
import type { Grant } from './tickets.ts'

export interface WorkspaceFile extends ResolvedFile {
  /** Path from the workspace directory; for a directory that of its index page. */
  readonly name: string
  readonly contentType: string | undefined
}

/** The segments of a path; a Problem `bad_request` when they leave the workspace. */
export function pathSegments(path: string): readonly string[] {
  if (path.includes('\0')) throw outsideProblem()
  const segments: string[] = []
  for (const segment of path.split('/')) {
    if (segment === '..' && segments.pop() === undefined) throw outsideProblem()
    if (segment !== '' && segment !== '.' && segment !== '..') segments.push(segment)
  }
  return segments
}

/** Text or not is looked at in files without an extension only; undefined for those. */
function contentTypeForName(path: string): string | undefined {
  const name = path.slice(path.lastIndexOf('/') + 1)
  return contentTypeForPath(path) ?? (name.lastIndexOf('.') > 0 ? 'application/octet-stream' : undefined)
}

/** The files of workspaces. Data of the server is never one, wherever the workspace is. */
export class WorkspaceFiles {
  readonly #options: { readonly directory: string; readonly worktrees: string }

  /** `directory`: the data directory, which contains workspaces only below `worktrees`. */
  constructor(options: { readonly directory: string; readonly worktrees: string }) {
    this.#options = options
  }

  /**
   * The file of a path, or the `index.html` of a directory, within the grant (undefined: everywhere).
   * Problems: `bad_request` outside of the workspace, `not_found`, and `forbidden` beyond the grant or by the
   * system.
   */
  async find(record: ConversationRecord, path: string, grant: Grant | undefined): Promise<WorkspaceFile> {
    const root = await this.#findRoot(record)
    if (path.startsWith('/')) throw outsideProblem()
    const segments = pathSegments(path)
    const target = await resolveWithin(root, segments.join('/'), { realpath, stat })
    const isDirectory = target.kind === 'directory'
    const names = isDirectory ? [...segments, 'index.html'] : segments
    const found = isDirectory ? await resolveWithin(root, names.join('/'), { realpath, stat }) : target
    if (found.kind === 'outside') throw outsideProblem()
    const name = names.join('/')
    if (grant !== undefined && grant.use !== 'session')
      await assertGranted(root, { grant, record, name, found })
    if (found.kind === 'refused') throw new Problem('forbidden', 'Permission denied')
    if (found.kind !== 'file' || (await this.#isServerData(found.path)))
      throw new Problem('not_found', isDirectory ? 'No index.html in directory' : 'File not found')
    return { path: found.path, stats: found.stats, name, contentType: contentTypeForName(name) }
  }

  async #findRoot(record: ConversationRecord): Promise<string> {
    const { workspace } = readStoredRequest(record)
    const directory = workspace?.working_dir
    if (!directory) throw new Problem('not_found', 'The conversation has no workspace')
    const root = await realpath(directory).catch(() => undefined)
    if (!root) throw new Problem('not_found', 'Workspace directory does not exist')
    return root
  }

  async #isServerData(path: string): Promise<boolean> {
    const dataDirectory = await realpathOrSame(this.#options.directory)
    const worktrees = await realpathOrSame(this.#options.worktrees)
    return isWithin(dataDirectory, path) && !isWithin(worktrees, path)
  }
}

/** Throws a Problem `forbidden` for a file that a ticket does not open. */
async function assertGranted(
  root: string,
  file: {
    readonly grant: Exclude<Grant, { use: 'session' }>
    readonly record: ConversationRecord
    readonly name: string
    readonly found: ResolvedPath
  },
): Promise<void> {
  const { grant, record, name, found } = file
  const isNamed = grant.path === '' || name === grant.path || name.startsWith(`${grant.path}/`)
  const isOfKind = grant.use === 'ticket' || isEmbeddable(name)
  // Links inside of the workspace may lead out of the ticket's directory.
  const isReached = !('path' in found) || isWithin(await realpathOrSame(join(root, grant.path)), found.path)
  if (grant.conversation !== record.id || !isNamed || !isOfKind || !isReached)
    throw new Problem('forbidden', 'The ticket does not open this file')
}

/** Whether pages load its type on their own and it is not hidden; texts and data are not embeddable. */
function isEmbeddable(name: string): boolean {
  const type = contentTypeForPath(name) ?? ''
  return (
    !`/${name}`.includes('/.') &&
    /^(text\/(html|css|javascript)|(image|font|audio|video)\/|application\/(wasm|pdf|manifest\+json|xhtml\+xml))/.test(
      type,
    )
  )
}

/** A path that is missing is as it is. */
async function realpathOrSame(path: string): Promise<string> {
  return await realpath(path).catch(() => path)
}

function outsideProblem(): Problem {
  return new Problem('bad_request', 'Path is outside the workspace')
}
