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
import { isRecord } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import type { JsonDocument } from '@slipway/storage'
import { openJsonFile } from '../../core/documents/json-file.ts'

const maxInstalled = 500
/** A folder of this name gives a plugin without a manifest no valid name. */
const nameOfNoPlugin = '_'
const treeNamePattern = /^[0-9a-f]{8}-[0-9a-f-]{27}$/

interface InstalledRow extends Readonly<Omit<InstalledSkill, 'install_path'>> {
  readonly ref: string | null
  /** The folder of its files, below the directory. */
  readonly tree: string
}

/** The description in a folder; an issue is a sentence that begins with a verb. */
type ExtensionDescription =
  | { readonly name: string; readonly version: string; readonly description: string }
  | { readonly issue: string }

/** Throws when `found` must not be committed to `rows`. */
type CommitCheck = (rows: readonly InstalledRow[], found: { readonly name: string }) => void

interface InstalledExtensionsOptions {
  readonly directory: string
  readonly kind: 'skill' | 'plugin'
  readonly environment: Readonly<Record<string, string>>
  readonly describe: (directory: string, signal: AbortSignal) => Promise<ExtensionDescription>
  readonly now?: () => Date
}

/**
 * Installed skills or plugins, each in an immutable folder. The index is written last, so a crash leaves the
 * old or the new version. URLs are stored without credentials. A replaced folder stays until the next
 * replacement, because conversations may still read it.
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
   * Problems: `invalid` extension, `bad_request` for a source that is none or cannot be fetched, `conflict`
   * when installed without `force`.
   */
  async install(request: InstallRequest, signal: AbortSignal): Promise<InstalledSkill> {
    const { force, ...source } = request
    const folder = this.#options.kind === 'skill' ? sourceFolderName(source) : undefined
    return await this.#fetchAndCommit(source, signal, (rows, { name }) => {
      if (folder !== undefined && folder !== name)
        throw invalidInput(
          ['body', 'source'],
          `The skill has another name than its folder: ${name}, not ${folder}`,
        )
      const isPresent = rows.some((row) => row.name === name)
      if (isPresent && !force)
        throw new Problem('conflict', `${this.#label} already installed. Use force=true to overwrite.`)
      if (!isPresent && rows.length >= maxInstalled)
        throw new Problem('conflict', `No more than ${maxInstalled} may be installed`)
    })
  }

  /**
   * Installs what its source has now, whatever ref it was installed with; `enabled` stays. Problems as for
   * `install`.
   */
  async refresh(name: string, signal: AbortSignal): Promise<InstalledSkill> {
    const { source, repo_path } = this.#getRow(await this.#index.read(), name)
    const request = { source, ref: undefined, repo_path: repo_path ?? undefined }
    return await this.#fetchAndCommit(request, signal, (rows, found) => {
      this.#getRow(rows, name)
      if (found.name !== name)
        throw new Problem('bad_request', `The source now contains ${found.name}: nothing was changed`)
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
    check: CommitCheck,
  ): Promise<InstalledSkill> {
    const source = parseSource(request)
    if ('issue' in source) throw this.#notFetched(source.issue)
    this.#cleanup ??= this.#removeLeftovers()
    await this.#cleanup
    const { directory, environment, kind } = this.#options
    const { fetchSource } = await extensionReaders()
    const tree = randomUUID()
    const into = join(directory, tree, defaultName(source, kind))
    let mustKeepTree = false
    try {
      const fetched = await fetchSource(source, { into, environment }, signal)
      if ('issue' in fetched) throw this.#notFetched(`The source ${fetched.issue}`)
      const found = await this.#options.describe(into, signal)
      if ('issue' in found) throw invalidInput(['body', 'source'], `The ${kind} ${found.issue}`)
      await moveToName(into, found.name)
      const row = { ...this.#toRow(request, found), resolved_ref: fetched.commit ?? null, tree }
      // The index may name the folder from here on.
      mustKeepTree = true
      return await this.#commit(row, check)
    } catch (error) {
      if (!mustKeepTree || error instanceof Problem) await this.#removeTree(tree)
      throw error
    }
  }

  async #commit(row: InstalledRow, check: CommitCheck): Promise<InstalledSkill> {
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

  /** Only the members for clients: `found` may have more. */
  #toRow(request: ExtensionSource, found: { name: string; version: string; description: string }) {
    const { source, ref = null, repo_path = null } = publicSource(request)
    const { name, version, description } = found
    const installed_at = (this.#options.now?.() ?? new Date()).toISOString()
    return { name, version, description, enabled: true, source, ref, repo_path, installed_at }
  }

  #getRow(rows: readonly InstalledRow[], name: string): InstalledRow {
    const found = rows.find((row) => row.name === name)
    if (found !== undefined) return found
    throw new Problem('not_found', `${this.#label} '${name}' is not installed`)
  }

  get #label(): string {
    return this.#options.kind === 'skill' ? 'Skill' : 'Plugin'
  }

  #notFetched(issue: string): Problem {
    const { kind } = this.#options
    return new Problem(
      'bad_request',
      `Failed to fetch ${kind} source. Check that the source is valid. ${issue}`,
    )
  }

  #toPublic(row: InstalledRow): InstalledSkill {
    const { tree, ref: _, ...rest } = row
    return { ...rest, install_path: join(this.#options.directory, tree, row.name) }
  }

  async #removeTree(tree: string): Promise<void> {
    await rm(join(this.#options.directory, tree), { recursive: true, force: true }).catch(() => undefined)
  }

  /** Folders that a crash left behind. */
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

/** The name of the folder that a source names; undefined for a repository as a whole. */
function sourceFolderName(request: ExtensionSource): string | undefined {
  const source = parseSource(request)
  if ('issue' in source) return undefined
  const path = source.folder || (source.kind === 'directory' ? source.path : '')
  return path === '' ? undefined : basename(path)
}

/** The name of an extension without one: that of its source folder. A plugin needs a name that is one. */
function defaultName(source: Source, kind: 'skill' | 'plugin'): string {
  const path = source.folder ?? (source.kind === 'git' ? source.url : source.path)
  const name = basename(path).replace(/\.git$/, '')
  if (/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name)) return firstChars(name, 64)
  return kind === 'plugin' ? nameOfNoPlugin : 'unnamed'
}

/** Renames the fetched folder, durable. */
async function moveToName(fetched: string, name: string): Promise<void> {
  const folder = dirname(fetched)
  if (basename(fetched) !== name) await rename(fetched, join(folder, name))
  await syncDirectory(folder)
  await syncDirectory(dirname(folder))
}

function parseRows(value: unknown): readonly InstalledRow[] {
  if (!Array.isArray(value) || !value.every(isInstalledRow))
    throw new Error('not a list of installed extensions')
  return value
}

function isInstalledRow(value: unknown): value is InstalledRow {
  if (!isRecord(value)) return false
  const texts = ['name', 'version', 'description', 'source', 'installed_at', 'tree']
  const optional = ['ref', 'repo_path', 'resolved_ref']
  return (
    texts.every((name) => typeof value[name] === 'string') &&
    optional.every((name) => value[name] === null || typeof value[name] === 'string') &&
    typeof value.enabled === 'boolean' &&
    treeNamePattern.test(String(value.tree))
  )
}
