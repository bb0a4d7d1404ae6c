import { createHash, randomUUID } from 'node:crypto'
import { mkdir, readdir, realpath, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { extensionReaders, type Source, unlessAborted } from '@slipway/agent'
import { type Log, Problem } from '@slipway/protocol'
import { codeOf } from '@slipway/storage'
import { KeptFile } from '../documents/json-file.ts'

const maxKnown = 2_000
const scratch = '.fetching'
const index = 'fetched.json'
const wholeCommit = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/

interface Known {
  /** Of the address and the folder. */
  readonly key: string
  readonly ref: string
  readonly commit: string
  /** Milliseconds. */
  readonly fetchedAt: number
}

interface Options {
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
  /** Files of a commit stay when a newer one was fetched; else those that were used before the last stay. */
  readonly keepsAll: boolean
  /** A source that could not be fetched is not tried again before this. */
  readonly retryMs: number
  readonly log: Log
  readonly now?: () => number
}

/** A directory with the files of a source. Nobody writes into it. */
export type Files =
  | { readonly directory: string; readonly commit: string | undefined }
  | { readonly fault: string }

type GitSource = Extract<Source, { kind: 'git' }>

/**
 * Sources that were fetched from git, one folder for each commit, for as long as they are needed; a source that is a directory
 * of this machine is used where it is. A folder is there whole or not at all, also after a crash. Credentials are not kept.
 */
export class Fetched implements AsyncDisposable {
  readonly #options: Options
  readonly #known: KeptFile<readonly Known[]>
  readonly #fetching = new Map<string, Promise<Files>>()
  readonly #failed = new Map<string, { readonly at: number; readonly fault: string }>()
  readonly #closing = new AbortController()
  #swept: Promise<void> | undefined

  constructor(options: Options) {
    this.#options = options
    this.#known = new KeptFile({ path: join(options.directory, index), empty: [], parse: knownIn })
  }

  /**
   * The files of a source, not older than `maxAgeMs`. When they cannot be fetched again the old ones are answered. A whole
   * commit id names the same files for ever. Rejects only when aborted, and when the disk fails.
   */
  async get(source: Source, maxAgeMs: number, signal: AbortSignal): Promise<Files> {
    if (source.kind === 'directory') return await local(source)
    const found = await this.#find(source)
    if (found !== undefined && this.#now() - found.fetchedAt <= maxAgeMs) return found
    const fetched = await unlessAborted(this.#fetchOnce(source), signal)
    if (!('fault' in fetched) || found === undefined) return fetched
    this.#options.log('warn', 'files could not be fetched again', {
      source: source.url,
      reason: fetched.fault,
    })
    return found
  }

  /** Fetches a source now, whatever is there. What cannot be fetched is a fault. */
  async refresh(source: Source, signal: AbortSignal): Promise<Files> {
    if (source.kind === 'directory') return await local(source)
    this.#failed.delete(nameOf(source))
    return await unlessAborted(this.#fetchOnce(source), signal)
  }

  /** Ends what is being fetched. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await Promise.allSettled(this.#fetching.values())
  }

  async #find(
    source: GitSource,
  ): Promise<{ directory: string; commit: string; fetchedAt: number } | undefined> {
    const key = keyOf(source)
    const ref = source.ref ?? 'HEAD'
    const all = await this.#known.read().catch(notDamaged)
    const known = all.find((one) => one.key === key && one.ref === ref)
    const commit = wholeCommit.test(ref) ? ref : known?.commit
    if (commit === undefined) return undefined
    const directory = join(this.#options.directory, key, commit)
    if (!(await isDirectory(directory))) return undefined
    return {
      directory,
      commit,
      fetchedAt: commit === ref ? Number.POSITIVE_INFINITY : (known?.fetchedAt ?? 0),
    }
  }

  /** Those who want the same source wait for one fetch. */
  #fetchOnce(source: GitSource): Promise<Files> {
    const name = nameOf(source)
    const failed = this.#failed.get(name)
    if (failed !== undefined && this.#now() - failed.at < this.#options.retryMs)
      return Promise.resolve({ fault: failed.fault })
    const known = this.#fetching.get(name)
    if (known !== undefined) return known
    const fetching = this.#fetch(source).then((files) => {
      if ('fault' in files) this.#failed.set(name, { at: this.#now(), fault: files.fault })
      else this.#failed.delete(name)
      return files
    })
    this.#fetching.set(name, fetching)
    const end = () => this.#fetching.delete(name)
    fetching.then(end, end)
    return fetching
  }

  async #fetch(source: GitSource): Promise<Files> {
    this.#swept ??= rm(join(this.#options.directory, scratch), { recursive: true, force: true })
    await this.#swept
    const { directory, environment } = this.#options
    const { fetchSource } = await extensionReaders()
    const into = join(directory, scratch, randomUUID())
    const fetched = await fetchSource(source, { into, environment }, this.#closing.signal)
    if ('fault' in fetched) return fetched
    const { commit = '' } = fetched
    const key = keyOf(source)
    const place = join(directory, key, commit)
    await mkdir(join(directory, key), { recursive: true, mode: 0o700 })
    await rename(into, place).catch(async (error: unknown) => {
      // The same commit is there already.
      if (!['ENOTEMPTY', 'EEXIST'].includes(codeOf(error) ?? '')) throw error
      await rm(into, { recursive: true, force: true })
    })
    await this.#keep({ key, ref: source.ref ?? 'HEAD', commit, fetchedAt: this.#now() })
    return { directory: place, commit }
  }

  async #keep(fetched: Known): Promise<void> {
    let before: string | undefined
    // What is damaged says nothing that could not be found out again.
    if ((await this.#known.read().catch(notDamaged)).length === 0)
      await rm(join(this.#options.directory, index), { force: true })
    const known = await this.#known.change((all) => {
      const isOther = (one: Known) => one.key !== fetched.key || one.ref !== fetched.ref
      before = all.find((one) => !isOther(one))?.commit
      return [...all.filter(isOther), fetched].slice(-maxKnown)
    })
    if (this.#options.keepsAll) return
    const kept = new Set(known.filter(({ key }) => key === fetched.key).map(({ commit }) => commit))
    const folder = join(this.#options.directory, fetched.key)
    for (const commit of await readdir(folder)) {
      if (!kept.has(commit) && commit !== before)
        await rm(join(folder, commit), { recursive: true, force: true })
    }
  }

  #now(): number {
    return (this.#options.now ?? Date.now)()
  }
}

function nameOf(source: GitSource): string {
  return `${keyOf(source)} ${source.ref ?? 'HEAD'}`
}

function keyOf({ url, folder = '' }: GitSource): string {
  return createHash('sha256')
    .update(JSON.stringify([url, folder]))
    .digest('hex')
    .slice(0, 32)
}

async function local({ path, folder = '' }: Extract<Source, { kind: 'directory' }>): Promise<Files> {
  const directory = await realpath(join(path, folder)).catch(() => undefined)
  if (directory === undefined || !(await isDirectory(directory))) return { fault: 'is no directory' }
  return { directory, commit: undefined }
}

async function isDirectory(path: string): Promise<boolean> {
  return await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
}

function notDamaged(error: unknown): readonly Known[] {
  if (error instanceof Problem && error.code === 'conflict') return []
  throw error
}

function knownIn(value: unknown): readonly Known[] {
  if (!Array.isArray(value)) throw new Error('no list')
  return value.filter(isKnown)
}

function isKnown(value: unknown): value is Known {
  if (typeof value !== 'object' || value === null) return false
  const { key, ref, commit, fetchedAt }: Record<string, unknown> = { ...value }
  const isText = [key, ref, commit].every((text) => typeof text === 'string')
  return (
    isText && typeof fetchedAt === 'number' && wholeCommit.test(String(commit)) && /^\w+$/.test(String(key))
  )
}
