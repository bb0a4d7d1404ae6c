import { randomUUID } from 'node:crypto'
import { readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { extensionReaders, parseSource, publicSource } from '@slipway/agent'
import type { ResolvedFile } from '@slipway/http'
import {
  type ApplicationManifest,
  applicationManifestFile,
  type InstalledApplication,
  type InstallRequest,
  Problem,
} from '@slipway/protocol'
import { Mutex } from '@slipway/shared/async'
import { exists, isDirectory, makeDirectory, syncDirectory } from '@slipway/shared/fs'
import { isRecord } from '@slipway/shared/json'
import type { JsonDocument } from '@slipway/storage'
import { openJsonFile } from '../../core/documents/json-file.ts'
import { readManifest, resolvePackageFile } from './manifest.ts'

const maxInstalled = 200
const namePattern = /^[a-z0-9]+(?:-[a-z0-9]+)*$/

/** What is stored of an application; its manifest is read again at each call. */
interface ApplicationRow extends Omit<InstalledApplication, 'manifest' | 'install_path'> {
  readonly requested_ref: string | null
}
type Rows = Readonly<Record<string, ApplicationRow>>

interface InstalledApplicationsOptions {
  /** `installed` of it holds a folder for each application. */
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
  /** Throws a Problem when files must not be replaced now. */
  readonly assertReplaceable: () => void
  /** Before the files of an application change: forgets its approval. */
  readonly onReplace: (name: string) => Promise<void>
}

/**
 * Installed applications. A list adopts valid folders that were copied here, and forgets those that are gone.
 */
export class InstalledApplications {
  readonly #options: InstalledApplicationsOptions
  readonly #directory: string
  readonly #index: JsonDocument<Rows>
  readonly #mutex = new Mutex()

  constructor(options: InstalledApplicationsOptions) {
    this.#options = options
    this.#directory = join(options.directory, 'installed')
    this.#index = openJsonFile({
      path: join(this.#directory, '.installed.json'),
      empty: {},
      parse: parseRows,
    })
  }

  /** The folder of an application, whether or not it is installed. */
  folder(name: string): string {
    return join(this.#directory, name)
  }

  async list(): Promise<InstalledApplication[]> {
    return await this.#mutex.runExclusive(async () => {
      const rows = await this.#index.read()
      const names = (await readdir(this.#directory).catch(() => [])).filter((name) => namePattern.test(name))
      const adopted: ApplicationRow[] = []
      for (const name of names.filter((name) => rows[name] === undefined).sort()) {
        const manifest = await readManifest(this.folder(name))
        if (!('issue' in manifest) && manifest.name === name) adopted.push(newRow(manifest, localSource))
      }
      const isPresent = new Set(names)
      const remaining = Object.values(rows).filter(({ name }) => isPresent.has(name))
      const all = [...remaining, ...adopted]
      if (adopted.length > 0 || remaining.length < Object.keys(rows).length)
        await this.#index.update(() => Object.fromEntries(all.map((row) => [row.name, row])))
      return await Promise.all(all.map((row) => this.#toPublic(row)))
    })
  }

  /** Undefined when it is not installed or its folder is gone. */
  async find(name: string): Promise<InstalledApplication | undefined> {
    const row = (await this.#index.read())[name]
    if (row === undefined || !(await isDirectory(this.folder(name)))) return undefined
    return await this.#toPublic(row)
  }

  /** A Problem `not_found` when it is not installed. */
  async get(name: string): Promise<InstalledApplication> {
    const found = await this.find(name)
    if (found === undefined) throw notInstalled(name)
    return found
  }

  /** Problems: `bad_request` for a failed fetch, `invalid` for files that are none, `conflict`. */
  async install(request: InstallRequest, signal: AbortSignal): Promise<InstalledApplication> {
    const { force, ...requested } = request
    const source = parseSource(requested)
    if ('issue' in source) throw unreadableSource(source.issue)
    const { fetchSource } = await extensionReaders()
    const scratch = join(this.#directory, `.fetching-${randomUUID()}`)
    await makeDirectory(this.#directory, 0o700)
    try {
      const { environment } = this.#options
      const fetched = await fetchSource(source, { into: scratch, environment }, signal)
      if ('issue' in fetched) throw unreadableSource(`The source ${fetched.issue}`)
      if (!(await exists(join(scratch, applicationManifestFile))))
        throw new Problem('invalid', `No ${applicationManifestFile} found in the source`)
      const manifest = await readManifest(scratch)
      if ('issue' in manifest)
        throw new Problem('invalid', 'Invalid canvas extension. Ensure the manifest is well-formed.')
      const { source: address, ref = null, repo_path = null } = publicSource(requested)
      const from = { source: address, requested_ref: ref, repo_path, resolved_ref: fetched.commit ?? null }
      return await this.#mutex.runExclusive(() => this.#commit(scratch, newRow(manifest, from), force))
    } finally {
      await rm(scratch, { recursive: true, force: true })
    }
  }

  async #commit(scratch: string, row: ApplicationRow, force: boolean): Promise<InstalledApplication> {
    const { name } = row
    const rows = await this.#index.read()
    const previous = rows[name]
    const folder = this.folder(name)
    const isPresent = previous !== undefined && (await isDirectory(folder))
    if (isPresent && !force)
      throw new Problem('conflict', 'Canvas extension already installed. Use force=true to overwrite.')
    if (force) this.#options.assertReplaceable()
    if (previous === undefined && Object.keys(rows).length >= maxInstalled)
      throw new Problem('conflict', `No more than ${maxInstalled} may be installed`)
    await this.#options.onReplace(name)
    const old = `${scratch}-old`
    await rename(folder, old).catch(() => undefined)
    await rename(scratch, folder)
    await syncDirectory(this.#directory)
    const stored = { ...row, enabled: isPresent && previous.enabled }
    await this.#index.update((current) => ({ ...current, [name]: stored }))
    await rm(old, { recursive: true, force: true })
    return await this.#toPublic(stored)
  }

  async setEnabled(name: string, enabled: boolean): Promise<void> {
    await this.get(name)
    await this.#index.update((rows) => {
      const row = rows[name]
      return row === undefined ? rows : { ...rows, [name]: { ...row, enabled } }
    })
  }

  async remove(name: string): Promise<void> {
    await this.#mutex.runExclusive(async () => {
      await this.#index.update(({ [name]: row, ...others }) => {
        if (row === undefined) throw notInstalled(name)
        return others
      })
      await rm(this.folder(name), { recursive: true, force: true })
    })
  }

  /** A file of a valid application that is no link to the outside; undefined when there is none. */
  async findFile(name: string, member: 'entrypoint' | 'icon'): Promise<ResolvedFile | undefined> {
    const path = (await this.find(name))?.manifest?.[member]
    if (path == null) return undefined
    const found = await resolvePackageFile(this.folder(name), path)
    return found.kind === 'file' ? found : undefined
  }

  async #toPublic({ requested_ref: _, ...row }: ApplicationRow): Promise<InstalledApplication> {
    const install_path = this.folder(row.name)
    const manifest = await readManifest(install_path)
    const isValid = !('issue' in manifest) && manifest.name === row.name
    return { ...row, install_path, manifest: isValid ? manifest : null }
  }
}

const localSource = { source: 'local', requested_ref: null, repo_path: null, resolved_ref: null }

function newRow({ name, version, description }: ApplicationManifest, from: FetchedFrom) {
  return { name, version, description, enabled: false, ...from, installed_at: new Date().toISOString() }
}

type FetchedFrom = Pick<ApplicationRow, 'source' | 'requested_ref' | 'repo_path' | 'resolved_ref'>

function notInstalled(name: string): Problem {
  return new Problem('not_found', `Canvas extension '${name}' is not installed`)
}

function unreadableSource(reason: string): Problem {
  return new Problem('bad_request', `Could not read canvas extension source: ${reason}`)
}

function parseRows(value: unknown): Rows {
  if (!isRecord(value)) throw new Error('not a map of installed applications')
  const rows = value
  const isRow = (row: unknown) =>
    isRecord(row) &&
    ['name', 'version', 'description', 'source', 'installed_at'].every(
      (key) => typeof row[key] === 'string',
    ) &&
    typeof row.enabled === 'boolean'
  if (!Object.entries(rows).every(([name, row]) => namePattern.test(name) && isRow(row)))
    throw new Error('not a list of installed applications')
  return rows as Rows
}
