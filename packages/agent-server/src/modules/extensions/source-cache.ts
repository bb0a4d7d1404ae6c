import { hash, randomUUID } from 'node:crypto'
import { readdir, realpath, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { extensionReaders, type Source } from '@slipway/agent'
import { type LogFunction, Problem } from '@slipway/protocol'
import { raceAbort } from '@slipway/shared/async'
import { errorCode, isDirectory, makeDirectory } from '@slipway/shared/fs'
import { isRecord } from '@slipway/shared/json'
import type { JsonDocument } from '@slipway/storage'
import { openJsonFile } from '../../core/documents/json-file.ts'

const maxKnown = 2_000
const scratchDirectory = '.fetching'
const indexFile = 'fetched.json'
const fullCommitIdPattern = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/

interface CacheEntry {
  /** Hash of URL and folder. */
  readonly key: string
  readonly ref: string
  readonly commit: string
  readonly fetchedAt: number
}

interface SourceCacheOptions {
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
  /** Whether the files of older commits stay; otherwise only the newest and the one before it. */
  readonly keepsAllCommits: boolean
  /** How long a failed source is not fetched again. */
  readonly retryMs: number
  readonly log: LogFunction
  readonly now?: () => number
}

/** A read-only directory with the files of a source. An issue is a sentence that begins with a verb. */
export type SourceFiles =
  | { readonly directory: string; readonly commit: string | undefined }
  | { readonly issue: string }

type GitSource = Extract<Source, { kind: 'git' }>

/**
 * Cache of git sources, one folder per commit, complete or absent also after a crash. A local directory is
 * used in place. Credentials are not stored.
 */
export class SourceCache implements AsyncDisposable {
  readonly #options: SourceCacheOptions
  readonly #index: JsonDocument<readonly CacheEntry[]>
  readonly #fetching = new Map<string, Promise<SourceFiles>>()
  readonly #failed = new Map<string, { readonly at: number; readonly issue: string }>()
  readonly #closing = new AbortController()
  #cleanup: Promise<void> | undefined

  constructor(options: SourceCacheOptions) {
    this.#options = options
    this.#index = openJsonFile({ path: join(options.directory, indexFile), empty: [], parse: parseEntries })
  }

  /**
   * The files of a source, at most `maxAgeMs` old unless a fetch fails; those of a full commit id never age.
   * Rejects only when aborted or when the disk fails.
   */
  async get(source: Source, maxAgeMs: number, signal: AbortSignal): Promise<SourceFiles> {
    if (source.kind === 'directory') return await localFiles(source)
    const cached = await this.#findCached(source)
    if (cached !== undefined && this.#now() - cached.fetchedAt <= maxAgeMs) return cached
    const fetched = await raceAbort(this.#fetchOnce(source), signal)
    if (!('issue' in fetched) || cached === undefined) return fetched
    this.#options.log('warn', 'files could not be fetched again', {
      source: source.url,
      reason: fetched.issue,
    })
    return cached
  }

  /** Fetches a source whatever its age. */
  async refresh(source: Source, signal: AbortSignal): Promise<SourceFiles> {
    if (source.kind === 'directory') return await localFiles(source)
    this.#failed.delete(cacheName(source))
    return await raceAbort(this.#fetchOnce(source), signal)
  }

  /** Aborts running fetches. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await Promise.allSettled(this.#fetching.values())
  }

  async #findCached(
    source: GitSource,
  ): Promise<{ directory: string; commit: string; fetchedAt: number } | undefined> {
    const key = cacheKey(source)
    const ref = source.ref ?? 'HEAD'
    const entries = await this.#index.read().catch(emptyIfDamaged)
    const entry = entries.find((one) => one.key === key && one.ref === ref)
    const commit = fullCommitIdPattern.test(ref) ? ref : entry?.commit
    if (commit === undefined) return undefined
    const directory = join(this.#options.directory, key, commit)
    if (!(await isDirectory(directory))) return undefined
    return {
      directory,
      commit,
      fetchedAt: commit === ref ? Number.POSITIVE_INFINITY : (entry?.fetchedAt ?? 0),
    }
  }

  /** Concurrent calls for a source share one fetch. */
  #fetchOnce(source: GitSource): Promise<SourceFiles> {
    const name = cacheName(source)
    const failed = this.#failed.get(name)
    if (failed !== undefined && this.#now() - failed.at < this.#options.retryMs)
      return Promise.resolve({ issue: failed.issue })
    const pending = this.#fetching.get(name)
    if (pending !== undefined) return pending
    const fetching = this.#fetch(source).then((files) => {
      if ('issue' in files) this.#failed.set(name, { at: this.#now(), issue: files.issue })
      else this.#failed.delete(name)
      return files
    })
    this.#fetching.set(name, fetching)
    const end = () => this.#fetching.delete(name)
    fetching.then(end, end)
    return fetching
  }

  async #fetch(source: GitSource): Promise<SourceFiles> {
    this.#cleanup ??= rm(join(this.#options.directory, scratchDirectory), { recursive: true, force: true })
    await this.#cleanup
    const { directory, environment } = this.#options
    const { fetchSource } = await extensionReaders()
    const into = join(directory, scratchDirectory, randomUUID())
    const fetched = await fetchSource(source, { into, environment }, this.#closing.signal)
    if ('issue' in fetched) return fetched
    const { commit = '' } = fetched
    const key = cacheKey(source)
    const target = join(directory, key, commit)
    await makeDirectory(join(directory, key), 0o700)
    await rename(into, target).catch(async (error: unknown) => {
      // The commit is cached already.
      if (!['ENOTEMPTY', 'EEXIST'].includes(errorCode(error) ?? '')) throw error
      await rm(into, { recursive: true, force: true })
    })
    await this.#recordFetch({ key, ref: source.ref ?? 'HEAD', commit, fetchedAt: this.#now() })
    return { directory: target, commit }
  }

  async #recordFetch(entry: CacheEntry): Promise<void> {
    let previousCommit: string | undefined
    // A damaged index is replaced: it can be fetched again.
    if ((await this.#index.read().catch(emptyIfDamaged)).length === 0)
      await rm(join(this.#options.directory, indexFile), { force: true })
    const entries = await this.#index.update((all) => {
      const isOther = (one: CacheEntry) => one.key !== entry.key || one.ref !== entry.ref
      previousCommit = all.find((one) => !isOther(one))?.commit
      return [...all.filter(isOther), entry].slice(-maxKnown)
    })
    if (this.#options.keepsAllCommits) return
    const currentCommits = new Set(entries.filter(({ key }) => key === entry.key).map(({ commit }) => commit))
    const folder = join(this.#options.directory, entry.key)
    for (const commit of await readdir(folder)) {
      if (!currentCommits.has(commit) && commit !== previousCommit)
        await rm(join(folder, commit), { recursive: true, force: true })
    }
  }

  #now(): number {
    return (this.#options.now ?? Date.now)()
  }
}

function cacheName(source: GitSource): string {
  return `${cacheKey(source)} ${source.ref ?? 'HEAD'}`
}

function cacheKey({ url, folder = '' }: GitSource): string {
  return hash('sha256', JSON.stringify([url, folder])).slice(0, 32)
}

async function localFiles({
  path,
  folder = '',
}: Extract<Source, { kind: 'directory' }>): Promise<SourceFiles> {
  const directory = await realpath(join(path, folder)).catch(() => undefined)
  if (directory === undefined || !(await isDirectory(directory))) return { issue: 'is no directory' }
  return { directory, commit: undefined }
}

function emptyIfDamaged(error: unknown): readonly CacheEntry[] {
  if (error instanceof Problem && error.code === 'conflict') return []
  throw error
}

function parseEntries(value: unknown): readonly CacheEntry[] {
  if (!Array.isArray(value)) throw new Error('no list')
  return value.filter(isCacheEntry)
}

function isCacheEntry(value: unknown): value is CacheEntry {
  if (!isRecord(value)) return false
  const { key, ref, commit, fetchedAt } = value
  const isText = [key, ref, commit].every((text) => typeof text === 'string')
  return (
    isText &&
    typeof fetchedAt === 'number' &&
    fullCommitIdPattern.test(String(commit)) &&
    /^\w+$/.test(String(key))
  )
}
