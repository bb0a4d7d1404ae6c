import { join } from 'node:path'
import { type Checkpoint, type CheckpointDiff, Problem } from '@slipway/protocol'
import { Mutex } from '@slipway/shared/async'
import { isRecord, parseJson } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import { readFile, writeFile } from '@slipway/shared/tool-files'
import type { Workspace } from '../workspace/workspace.ts'
import { planRestore, type RestorePlan } from './restore-plan.ts'
import {
  branch,
  CheckpointError,
  type CheckpointLimits,
  defaultLimits,
  endsBranch,
  type RunGit,
  ShadowRepository,
  type StoredTree,
  text,
} from './shadow-repository.ts'

/** Checkpoints of a list, the newest. */
const maxListed = 1000
/** Names of files in an answer. */
const maxNamed = 200
const maxPatchChars = 1_000_000

/** A restored workspace. */
export interface Restored extends Pick<RestorePlan, 'kept' | 'clashes'> {
  /** The checkpoint of what was there before. */
  readonly saved: Checkpoint
  /** Paths of files that changed. */
  readonly paths: readonly string[]
}

/**
 * The files of a workspace before each step of the agent, as commits of a repository outside of it. The first
 * failure, such as a workspace that is too large, turns checkpoints off for the conversation.
 */
export class WorkspaceCheckpoints {
  readonly #repository: ShadowRepository
  readonly #directory: string
  readonly #mutex = new Mutex()
  #opened: Promise<void> | undefined
  #offReason: string | undefined

  /** `directory`: outside of the workspace. `excluded`: directories of the server. */
  constructor(options: {
    readonly workspace: Workspace
    readonly directory: string
    readonly excluded: readonly string[]
    readonly limits?: CheckpointLimits
  }) {
    this.#directory = options.directory
    this.#repository = new ShadowRepository({ limits: defaultLimits, ...options })
  }

  /** Why there are none any more; undefined while there are. */
  async offReason(): Promise<string | undefined> {
    this.#offReason ??= await readFile(this.#offFile).then(String, () => undefined)
    return this.#offReason
  }

  /**
   * Stores the files before the step of an event; once for each. Never rejects: the returned text says why
   * checkpoints are off from now on.
   */
  async save(eventId: string, signal?: AbortSignal): Promise<string | undefined> {
    return await this.#exclusive(async () => {
      if ((await this.offReason()) !== undefined) return undefined
      try {
        await this.#open()
        const git = this.#repository.session(signal)
        const newest = await this.#newest(git)
        if (newest?.event_id !== eventId)
          await this.#commit(git, { kind: 'step', event_id: eventId }, await this.#repository.writeTree(git))
        return undefined
      } catch (error) {
        if (signal?.aborted) return undefined
        if (!(error instanceof CheckpointError) && !isSystemError(error)) throw error
        this.#offReason = error.message
        await writeFile(this.#offFile, error.message).catch(() => undefined)
        return error.message
      }
    })
  }

  /**
   * Stores the files at the end of the newest step: what changes after it is the user's. Without it all
   * counts as changed by the step.
   */
  async saveEnd(signal?: AbortSignal): Promise<void> {
    await this.#exclusive(async () => {
      if ((await this.offReason()) !== undefined) return
      try {
        await this.#open()
        const git = this.#repository.session(signal)
        const head = await this.#head(git)
        if (head !== undefined) await this.#commitEnd(git, head, (await this.#repository.writeTree(git)).tree)
      } catch (error) {
        if (!signal?.aborted && !(error instanceof CheckpointError) && !isSystemError(error)) throw error
      }
    })
  }

  /** The newest checkpoints, oldest first. */
  async list(): Promise<readonly Checkpoint[]> {
    return await this.#use((git) => this.#list(git, maxListed))
  }

  /** What changed between a checkpoint and the next one, or the present files. Problem `not_found`. */
  async diff(id: string): Promise<CheckpointDiff> {
    return await this.#use(async (git) => {
      await this.#assertKnown(git, id)
      const [next] = splitLines(await git(['rev-list', '--reverse', `${id}..${branch}`]))
      const target = next ?? (await this.#repository.writeTree(git)).tree
      const range = ['--no-ext-diff', '--no-textconv', '--no-renames', id, target]
      const names = splitLines(await git(['diff-tree', '-r', '--no-commit-id', '--name-status', ...range]))
      const patch = (await git(['diff-tree', '-r', '-p', '--no-commit-id', ...range])).toString()
      const files = names.slice(0, maxNamed).map((line) => {
        const [status = '', ...path] = line.split('\t')
        return { path: path.join('\t'), status: statusNames[status] ?? 'changed' }
      })
      const isTruncated = patch.length > maxPatchChars || names.length > maxNamed
      return {
        total: names.length,
        files,
        patch: firstChars(patch, maxPatchChars),
        is_truncated: isTruncated,
      }
    })
  }

  /**
   * Makes the files those of a checkpoint, after storing what is there. Files that the user alone has changed
   * or made since, and ignored files, stay; where the checkpoint has a file, an ignored one is stored first,
   * too. Problem `not_found`.
   */
  async restore(id: string): Promise<Restored> {
    return await this.#use(async (git) => {
      await this.#assertKnown(git, id)
      const repository = this.#repository
      const present = await repository.writeTree(git)
      const unsaved = await repository.findUnsaved(git, present.tree, id)
      const stored = unsaved.length === 0 ? present : await repository.writeTree(git, unsaved)
      const saved = await this.#commit(git, { kind: 'restore', event_id: null }, stored)
      const { tree, kept, clashes } = await planRestore(git, id, stored.tree)
      const args = ['diff-tree', '-r', '-z', '--name-only', '--no-renames', '--no-commit-id', saved.id, tree]
      const paths = (await git(args))
        .toString()
        .split('\0')
        .filter((path) => path !== '')
      await repository.checkOut(git, tree)
      await this.#commitEnd(git, saved.id, tree)
      return { saved, paths, kept, clashes }
    })
  }

  get #offFile(): string {
    return join(this.#directory, 'off')
  }

  async #open(): Promise<void> {
    this.#opened ??= this.#repository.open()
    await this.#opened
  }

  #exclusive<T>(work: () => Promise<T>): Promise<T> {
    return this.#mutex.runExclusive(work)
  }

  /** Work for a request: its failures are Problems. */
  async #use<T>(work: (git: RunGit) => Promise<T>): Promise<T> {
    return await this.#exclusive(async () => {
      try {
        await this.#open()
        return await work(this.#repository.session())
      } catch (error) {
        if (error instanceof CheckpointError) throw new Problem('conflict', error.message)
        throw error
      }
    })
  }

  async #commit(
    git: RunGit,
    about: Pick<Checkpoint, 'kind' | 'event_id'>,
    { tree, skipped }: StoredTree,
  ): Promise<Checkpoint> {
    const members = {
      ...about,
      timestamp: new Date().toISOString(),
      skipped: skipped.slice(0, maxNamed),
    }
    return { id: await this.#append(git, branch, tree, JSON.stringify(members)), ...members }
  }

  async #commitEnd(git: RunGit, checkpoint: string, tree: string): Promise<void> {
    await this.#append(git, endsBranch, tree, checkpoint)
  }

  async #append(git: RunGit, ref: string, tree: string, message: string): Promise<string> {
    const parent = await this.#head(git, ref)
    const author = ['-c', 'user.name=slipway', '-c', 'user.email=slipway@localhost']
    const parents = parent === undefined ? [] : ['-p', parent]
    const commit = [...author, 'commit-tree', tree, ...parents, '-F', '-']
    const id = text(await git(commit, { input: message }))
    await git(['update-ref', ref, id])
    return id
  }

  async #head(git: RunGit, ref = branch): Promise<string | undefined> {
    return text(await git(['for-each-ref', '--format=%(objectname)', ref])) || undefined
  }

  async #newest(git: RunGit): Promise<Checkpoint | undefined> {
    return (await this.#list(git, 1))[0]
  }

  async #list(git: RunGit, count: number): Promise<readonly Checkpoint[]> {
    if ((await this.#head(git)) === undefined) return []
    const format = '--format=%H%x09%B'
    const lines = splitLines(await git(['log', `-${count}`, format, branch])).reverse()
    return lines.flatMap((line) => {
      const [id = '', json = ''] = line.split('\t', 2)
      const members = parseJson(json)
      return isRecord(members) ? [{ ...members, id } as unknown as Checkpoint] : []
    })
  }

  async #assertKnown(git: RunGit, id: string): Promise<void> {
    const head = await this.#head(git)
    const isKnown =
      head !== undefined &&
      (await git(['merge-base', '--is-ancestor', id, head]).then(
        () => true,
        () => false,
      ))
    if (!isKnown) throw new Problem('not_found', 'There is no such checkpoint.')
  }
}

const statusNames: Readonly<Record<string, 'added' | 'changed' | 'deleted'>> = { A: 'added', D: 'deleted' }

function splitLines(output: Buffer): string[] {
  return output
    .toString()
    .split('\n')
    .filter((line) => line !== '')
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error
}
