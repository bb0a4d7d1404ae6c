import { randomUUID } from 'node:crypto'
import { readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { extensionReaders, readSource, type Source, shownSource } from '@slipway/agent'
import {
  type ExtensionSource,
  type InstalledSkill,
  type InstallRequest,
  invalid,
  Problem,
} from '@slipway/protocol'
import { codeOf, syncDirectory } from '@slipway/storage'
import { KeptFile } from '../documents/json-file.ts'

const maxInstalled = 500
const treeName = /^[0-9a-f]{8}-[0-9a-f-]{27}$/

interface Row {
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
export type Described =
  | { readonly name: string; readonly version: string; readonly description: string }
  | { readonly fault: string }

interface Options {
  readonly directory: string
  readonly what: 'skill' | 'plugin'
  readonly environment: Readonly<Record<string, string>>
  readonly describe: (directory: string, signal: AbortSignal) => Promise<Described>
  readonly now?: () => Date
}

/**
 * Skills or plugins that were fetched to stay. Each lies in a folder of its own, which nobody writes into again; the index says
 * which of them count, and it is written last: whatever happens on the way, the old one is there or the new one, whole. An
 * address is kept without its credentials. What the last change replaced stays on the disk until the next, for whoever uses it.
 */
export class Installed {
  readonly #options: Options
  readonly #index: KeptFile<readonly Row[]>
  #swept: Promise<void> | undefined
  #replaced: string | undefined

  constructor(options: Options) {
    this.#options = options
    this.#index = new KeptFile({ path: join(options.directory, 'installed.json'), empty: [], parse: rowsIn })
  }

  /** In order of name. */
  async list(): Promise<readonly InstalledSkill[]> {
    const rows = await this.#index.read()
    return rows.map((row) => this.#shown(row)).sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** A Problem `not_found` when there is none. */
  async get(name: string): Promise<InstalledSkill> {
    return this.#shown(this.#mustFind(await this.#index.read(), name))
  }

  async isInstalled(): Promise<(name: string) => boolean> {
    const names = new Set((await this.#index.read()).map(({ name }) => name))
    return (name) => names.has(name)
  }

  /**
   * Problems: `invalid` for a source that cannot be understood and for what is no skill or plugin, `bad_request` when it cannot be
   * fetched, `conflict` when one of its name is installed and this is not `force`.
   */
  async install(request: InstallRequest, signal: AbortSignal): Promise<InstalledSkill> {
    const { force, ...source } = request
    return await this.#fetch(source, signal, (rows, { name }) => {
      const isTaken = rows.some((row) => row.name === name)
      if (isTaken && !force)
        throw new Problem('conflict', `The ${this.#options.what} ${name} is installed already`)
      if (!isTaken && rows.length >= maxInstalled)
        throw new Problem('conflict', `No more than ${maxInstalled} may be installed`)
    })
  }

  /** Fetches it again from where it came; whether it is enabled stays. Problems as of `install`. */
  async refresh(name: string, signal: AbortSignal): Promise<InstalledSkill> {
    const { source, ref, repo_path } = this.#mustFind(await this.#index.read(), name)
    const given = { source, ref: ref ?? undefined, repo_path: repo_path ?? undefined }
    return await this.#fetch(given, signal, (rows, found) => {
      this.#mustFind(rows, name)
      if (found.name !== name)
        throw new Problem('bad_request', `What is there now is called ${found.name}, so it was not taken`)
    })
  }

  async enable(name: string, enabled: boolean): Promise<void> {
    await this.#index.change((rows) => {
      const found = this.#mustFind(rows, name)
      return found.enabled === enabled ? rows : rows.map((row) => (row === found ? { ...row, enabled } : row))
    })
  }

  async remove(name: string): Promise<void> {
    let tree: string | undefined
    await this.#index.change((rows) => {
      const found = this.#mustFind(rows, name)
      tree = found.tree
      return rows.filter((row) => row !== found)
    })
    if (tree !== undefined) await this.#drop(tree)
  }

  async #fetch(
    given: ExtensionSource,
    signal: AbortSignal,
    check: (rows: readonly Row[], found: { readonly name: string }) => void,
  ): Promise<InstalledSkill> {
    const source = readSource(given)
    if ('fault' in source) throw invalid(['body', source.member], source.fault)
    this.#swept ??= this.#sweep()
    await this.#swept
    const { directory, environment, what } = this.#options
    const { fetchSource } = await extensionReaders()
    const tree = randomUUID()
    const into = join(directory, tree, nameIn(source))
    let mustStay = false
    try {
      const fetched = await fetchSource(source, { into, environment }, signal)
      if ('fault' in fetched) throw new Problem('bad_request', `The source ${fetched.fault}`)
      const found = await this.#options.describe(into, signal)
      if ('fault' in found) throw invalid(['body', 'source'], `The ${what} ${found.fault}`)
      await settle(into, found.name)
      const row = { ...this.#rowOf(given, found), resolved_ref: fetched.commit ?? null, tree }
      // Unless the index was surely not written, what it may name stays.
      mustStay = true
      return await this.#commit(row, check)
    } catch (error) {
      if (!mustStay || error instanceof Problem) await this.#drop(tree)
      throw error
    }
  }

  async #commit(
    row: Row,
    check: (rows: readonly Row[], found: { readonly name: string }) => void,
  ): Promise<InstalledSkill> {
    let before: Row | undefined
    const rows = await this.#index.change((rows) => {
      check(rows, row)
      before = rows.find(({ name }) => name === row.name)
      const { enabled = true } = before ?? {}
      return [...rows.filter((other) => other !== before), { ...row, enabled }]
    })
    if (before !== undefined) {
      if (this.#replaced !== undefined) await this.#drop(this.#replaced)
      this.#replaced = before.tree
    }
    return this.#shown(this.#mustFind(rows, row.name))
  }

  /** Of what was found only what clients are shown: a plugin may say more of itself than that. */
  #rowOf(given: ExtensionSource, found: { name: string; version: string; description: string }) {
    const { source, ref = null, repo_path = null } = shownSource(given)
    const { name, version, description } = found
    const installed_at = (this.#options.now?.() ?? new Date()).toISOString()
    return { name, version, description, enabled: true, source, ref, repo_path, installed_at }
  }

  #mustFind(rows: readonly Row[], name: string): Row {
    const found = rows.find((row) => row.name === name)
    if (found !== undefined) return found
    throw new Problem('not_found', `No ${this.#options.what} of this name is installed`)
  }

  #shown(row: Row): InstalledSkill {
    const { tree, ref: _, ...rest } = row
    return { ...rest, install_path: join(this.#options.directory, tree, row.name) }
  }

  async #drop(tree: string): Promise<void> {
    await rm(join(this.#options.directory, tree), { recursive: true, force: true }).catch(() => undefined)
  }

  /** What a process left behind that died on the way. */
  async #sweep(): Promise<void> {
    const kept = new Set((await this.#index.read()).map(({ tree }) => tree))
    const names = await readdir(this.#options.directory).catch((error: unknown) => {
      if (codeOf(error) === 'ENOENT') return []
      throw error
    })
    for (const name of names) if (treeName.test(name) && !kept.has(name)) await this.#drop(name)
  }
}

/** What a skill without a name is called: as the folder that it comes from. */
function nameIn(source: Source): string {
  const place = source.folder ?? (source.kind === 'git' ? source.url : source.path)
  const name = basename(place).replace(/\.git$/, '')
  return /^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name) ? name.slice(0, 64) : 'unnamed'
}

/** Gives what was fetched its name, for good. */
async function settle(fetched: string, name: string): Promise<void> {
  const folder = dirname(fetched)
  if (basename(fetched) !== name) await rename(fetched, join(folder, name))
  await syncDirectory(folder)
  await syncDirectory(dirname(folder))
}

function rowsIn(value: unknown): readonly Row[] {
  if (!Array.isArray(value) || !value.every(isRow)) throw new Error('no list of what is installed')
  return value
}

function isRow(value: unknown): value is Row {
  if (typeof value !== 'object' || value === null) return false
  const row: Record<string, unknown> = { ...value }
  const texts = ['name', 'version', 'description', 'source', 'installed_at', 'tree']
  const optional = ['ref', 'repo_path', 'resolved_ref']
  return (
    texts.every((name) => typeof row[name] === 'string') &&
    optional.every((name) => row[name] === null || typeof row[name] === 'string') &&
    typeof row.enabled === 'boolean' &&
    treeName.test(String(row.tree))
  )
}
