import { randomUUID } from 'node:crypto'
import { readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { extensionReaders, parseSource, publicSource, type Source } from '@slipway/agent'
import {
  type ExtensionSource,
  type InstalledSkill,
  type InstallRequest,
  invalidInput,
  Problem,
} from '@slipway/protocol'
import { errorCode, syncDirectory } from '@slipway/shared/fs'
import type { JsonDocument } from '@slipway/storage'
import { openJsonFile } from '../documents/json-file.ts'

const maxInstalled = 500
const treeNamePattern = /^[0-9a-f]{8}-[0-9a-f-]{27}$/

interface InstalledRow {
  readonly name: string
  readonly version: string
  readonly description: string
  readonly enabled: boolean
  readonly source: string
  readonly ref: string | null
  readonly repo_path: string | null
  readonly resolved_ref: string | null
  readonly installed_at: string
  /** The folder that holds it, below ours. */
  readonly tree: string
}

/** What a folder says of itself; a fault is a sentence that begins with a verb. */
export type ExtensionDescription =
  | { readonly name: string; readonly version: string; readonly description: string }
  | { readonly issue: string }

interface InstalledExtensionsOptions {
  readonly directory: string
  readonly kind: 'skill' | 'plugin'
  readonly environment: Readonly<Record<string, string>>
  readonly describe: (directory: string, signal: AbortSignal) => Promise<ExtensionDescription>
  readonly now?: () => Date
}

/**
 * Skills or plugins that were fetched to stay. Each lies in a folder of its own, which nobody writes into again; the index says
 * which of them count, and it is written last: whatever happens on the way, the old one is there or the new one, whole. An
 * address is kept without its credentials. What the last change replaced stays on the disk until the next, for whoever uses it.
 */
export class InstalledExtensions {
  readonly #options: InstalledExtensionsOptions
  readonly #index: JsonDocument<readonly InstalledRow[]>
  #cleanup: Promise<void> | undefined
  #replacedTree: string | undefined

  constructor(options: InstalledExtensionsOptions) {
    this.#options = options
    this.#index = openJsonFile({
      path: join(options.directory, 'installed.json'),
      empty: [],
      parse: parseRows,
    })
  }

  /** In order of name. */
  async list(): Promise<readonly InstalledSkill[]> {
    const rows = await this.#index.read()
    return rows.map((row) => this.#toPublic(row)).sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** A Problem `not_found` when there is none. */
  async get(name: string): Promise<InstalledSkill> {
    return this.#toPublic(this.#getRow(await this.#index.read(), name))
  }

  async getInstalledCheck(): Promise<(name: string) => boolean> {
    const names = new Set((await this.#index.read()).map(({ name }) => name))
    return (name) => names.has(name)
  }

  /**
   * Problems: `invalid` for a source that cannot be understood and for what is no skill or plugin, `bad_request` when it cannot be
   * fetched, `conflict` when one of its name is installed and this is not `force`.
   */
  async install(request: InstallRequest, signal: AbortSignal): Promise<InstalledSkill> {
    const { force, ...source } = request
    return await this.#fetchAndCommit(source, signal, (rows, { name }) => {
      const isPresent = rows.some((row) => row.name === name)
      if (isPresent && !force)
        throw new Problem('conflict', `The ${this.#options.kind} ${name} is installed already`)
      if (!isPresent && rows.length >= maxInstalled)
        throw new Problem('conflict', `No more than ${maxInstalled} may be installed`)
    })
  }

  /** Fetches it again from where it came; whether it is enabled stays. Problems as of `install`. */
  async refresh(name: string, signal: AbortSignal): Promise<InstalledSkill> {
    const { source, ref, repo_path } = this.#getRow(await this.#index.read(), name)
    const request = { source, ref: ref ?? undefined, repo_path: repo_path ?? undefined }
    return await this.#fetchAndCommit(request, signal, (rows, found) => {
      this.#getRow(rows, name)
      if (found.name !== name)
        throw new Problem('bad_request', `What is there now is called ${found.name}, so it was not taken`)
    })
  }

  async setEnabled(name: string, enabled: boolean): Promise<void> {
    await this.#index.update((rows) => {
      const found = this.#getRow(rows, name)
      return found.enabled === enabled ? rows : rows.map((row) => (row === found ? { ...row, enabled } : row))
    })
  }

  async remove(name: string): Promise<void> {
    let tree: string | undefined
    await this.#index.update((rows) => {
      const found = this.#getRow(rows, name)
      tree = found.tree
      return rows.filter((row) => row !== found)
    })
    if (tree !== undefined) await this.#removeTree(tree)
  }

  async #fetchAndCommit(
    request: ExtensionSource,
    signal: AbortSignal,
    check: (rows: readonly InstalledRow[], found: { readonly name: string }) => void,
  ): Promise<InstalledSkill> {
    const source = parseSource(request)
    if ('issue' in source) throw invalidInput(['body', source.member], source.issue)
    this.#cleanup ??= this.#removeLeftovers()
    await this.#cleanup
    const { directory, environment, kind } = this.#options
    const { fetchSource } = await extensionReaders()
    const tree = randomUUID()
    const into = join(directory, tree, defaultName(source))
    let mustKeepTree = false
    try {
      const fetched = await fetchSource(source, { into, environment }, signal)
      if ('issue' in fetched) throw new Problem('bad_request', `The source ${fetched.issue}`)
      const found = await this.#options.describe(into, signal)
      if ('issue' in found) throw invalidInput(['body', 'source'], `The ${kind} ${found.issue}`)
      await moveToName(into, found.name)
      const row = { ...this.#toRow(request, found), resolved_ref: fetched.commit ?? null, tree }
      // Unless the index was surely not written, what it may name stays.
      mustKeepTree = true
      return await this.#commit(row, check)
    } catch (error) {
      if (!mustKeepTree || error instanceof Problem) await this.#removeTree(tree)
      throw error
    }
  }

  async #commit(
    row: InstalledRow,
    check: (rows: readonly InstalledRow[], found: { readonly name: string }) => void,
  ): Promise<InstalledSkill> {
    let previous: InstalledRow | undefined
    const rows = await this.#index.update((rows) => {
      check(rows, row)
      previous = rows.find(({ name }) => name === row.name)
      const { enabled = true } = previous ?? {}
      return [...rows.filter((other) => other !== previous), { ...row, enabled }]
    })
    if (previous !== undefined) {
      if (this.#replacedTree !== undefined) await this.#removeTree(this.#replacedTree)
      this.#replacedTree = previous.tree
    }
    return this.#toPublic(this.#getRow(rows, row.name))
  }

  /** Of what was found only what clients are shown: a plugin may say more of itself than that. */
  #toRow(request: ExtensionSource, found: { name: string; version: string; description: string }) {
    const { source, ref = null, repo_path = null } = publicSource(request)
    const { name, version, description } = found
    const installed_at = (this.#options.now?.() ?? new Date()).toISOString()
    return { name, version, description, enabled: true, source, ref, repo_path, installed_at }
  }

  #getRow(rows: readonly InstalledRow[], name: string): InstalledRow {
    const found = rows.find((row) => row.name === name)
    if (found !== undefined) return found
    throw new Problem('not_found', `No ${this.#options.kind} of this name is installed`)
  }

  #toPublic(row: InstalledRow): InstalledSkill {
    const { tree, ref: _, ...rest } = row
    return { ...rest, install_path: join(this.#options.directory, tree, row.name) }
  }

  async #removeTree(tree: string): Promise<void> {
    await rm(join(this.#options.directory, tree), { recursive: true, force: true }).catch(() => undefined)
  }

  /** What a process left behind that died on the way. */
  async #removeLeftovers(): Promise<void> {
    const currentTrees = new Set((await this.#index.read()).map(({ tree }) => tree))
    const names = await readdir(this.#options.directory).catch((error: unknown) => {
      if (errorCode(error) === 'ENOENT') return []
      throw error
    })
    for (const name of names)
      if (treeNamePattern.test(name) && !currentTrees.has(name)) await this.#removeTree(name)
  }
}

/** What a skill without a name is called: as the folder that it comes from. */
function defaultName(source: Source): string {
  const path = source.folder ?? (source.kind === 'git' ? source.url : source.path)
  const name = basename(path).replace(/\.git$/, '')
  return /^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name) ? name.slice(0, 64) : 'unnamed'
}

/** Gives what was fetched its name, for good. */
async function moveToName(fetched: string, name: string): Promise<void> {
  const folder = dirname(fetched)
  if (basename(fetched) !== name) await rename(fetched, join(folder, name))
  await syncDirectory(folder)
  await syncDirectory(dirname(folder))
}

function parseRows(value: unknown): readonly InstalledRow[] {
  if (!Array.isArray(value) || !value.every(isInstalledRow)) throw new Error('no list of what is installed')
  return value
}

function isInstalledRow(value: unknown): value is InstalledRow {
  if (typeof value !== 'object' || value === null) return false
  const row: Record<string, unknown> = { ...value }
  const texts = ['name', 'version', 'description', 'source', 'installed_at', 'tree']
  const optional = ['ref', 'repo_path', 'resolved_ref']
  return (
    texts.every((name) => typeof row[name] === 'string') &&
    optional.every((name) => row[name] === null || typeof row[name] === 'string') &&
    typeof row.enabled === 'boolean' &&
    treeNamePattern.test(String(row.tree))
  )
}
