import { hash } from 'node:crypto'
import { realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type ApplicationBackend,
  type ApplicationBackendStatus,
  type InstalledApplication,
  Problem,
} from '@slipway/protocol'
import { KeyedMutex } from '@slipway/shared/async'
import { makeDirectory } from '@slipway/shared/fs'
import { isRecord } from '@slipway/shared/json'
import { toolUser } from '@slipway/shared/tool-files'
import { openJsonFile } from '../../core/documents/json-file.ts'
import { currentPlatform, prepareArtifact } from './artifact.ts'
import { BackendProcess } from './backend-process.ts'
import { readManifestBytes } from './manifest.ts'
import { OutputTail } from './output-tail.ts'

/** What was approved of an application. `manifest`: the checksum of the file. */
interface Approval {
  readonly revision: string
  readonly manifest: string
  readonly platform: string
  readonly artifact_sha256: string
  readonly artifact_dir: string
  /** Names of secrets of the server that the program gets. */
  readonly secrets?: readonly string[]
}

interface ApplicationBackendsOptions {
  /** Holds `approvals`, `artifacts`, `data` and `downloads`. */
  readonly directory: string
  /** Of tools: programs get what their manifest names. */
  readonly environment: Readonly<Record<string, string>>
  readonly find: (name: string) => Promise<InstalledApplication | undefined>
  readonly findSecret: (name: string) => Promise<string | undefined>
}

/** An application whose program this server may run. */
interface Startable {
  readonly folder: string
  readonly backend: ApplicationBackend
  readonly revision: string
  readonly manifest: string
}

/** Holds the programs of applications of a data directory. */
export function applicationDirectory(directory: string): string {
  return join(directory, 'canvas-extensions/backends')
}

/** Below it are the data of the programs, and their home directories. `directory`: of the programs. */
export function applicationHomes(directory: string): string {
  return join(directory, 'data')
}

/** The programs of applications: a revision is approved, then it may be started. */
export class ApplicationBackends implements AsyncDisposable {
  readonly #options: ApplicationBackendsOptions
  readonly #processes = new Map<string, BackendProcess>()
  readonly #output = new Map<string, OutputTail>()
  readonly #mutex = new KeyedMutex()
  #isClosed = false

  constructor(options: ApplicationBackendsOptions) {
    this.#options = options
  }

  /** With `isProbed`, a ready program that does not answer now is unhealthy. */
  async status(name: string, isProbed = false): Promise<ApplicationBackendStatus> {
    const base = { name, revision: null, prepared_revision: null, pid: null, port: null, detail: null }
    const found = await this.#options.find(name)
    if (found === undefined) return { ...base, state: 'missing', detail: 'Canvas extension is not installed' }
    if (found.manifest === null)
      return { ...base, state: 'missing', detail: 'Canvas extension has no valid manifest' }
    const { revision, manifest } = await readRevision(found)
    const { backend } = found.manifest
    if (backend === null) {
      const detail = 'Canvas extension does not declare a backend'
      return { ...base, revision, state: 'unsupported', detail }
    }
    const approval = await this.#approval(name).read()
    const prepared_revision = isApproved({ backend, revision, manifest }, approval) ? revision : null
    const prepared = { ...base, revision, prepared_revision }
    const process = this.#processes.get(name)
    if (process === undefined) return { ...prepared, state: 'stopped' }
    const isSlow = isProbed && process.state === 'ready' && !(await process.isHealthy())
    if (!process.isRunning) return { ...prepared, state: process.state, detail: process.detail }
    const running = { ...prepared, pid: process.pid ?? null, port: process.door.port }
    // Not stored: the next answer may be another one.
    if (isSlow) return { ...running, state: 'unhealthy', detail: 'backend health check failed' }
    return { ...running, state: process.state }
  }

  /**
   * Approves a revision, and the secrets that it gets. All that speaks against it is a Problem `conflict`.
   */
  async prepare(
    name: string,
    { revision, secrets }: { readonly revision: string; readonly secrets: readonly string[] },
    signal: AbortSignal,
  ): Promise<ApplicationBackendStatus> {
    return await this.#mutex.runExclusive(name, async () => {
      const found = await this.#findStartable(name)
      if (found.revision !== revision)
        throw new Problem('conflict', 'approval revision does not match installed revision')
      assertNamed(found.backend.secrets, secrets)
      const platform = currentPlatform()
      const artifact = platform && found.backend.artifacts[platform]
      if (platform === undefined || artifact === undefined)
        throw new Problem('conflict', 'backend has no artifact for this platform')
      const { directory, environment } = this.#options
      const artifact_dir = await prepareArtifact(
        artifact,
        { folder: found.folder, directory, name, environment },
        signal,
      )
      const { manifest } = found
      const approval = {
        revision,
        manifest,
        platform,
        artifact_sha256: artifact.sha256,
        artifact_dir,
        secrets,
      }
      await this.#approval(name).update(() => approval)
      return await this.status(name)
    })
  }

  /** Resolves when the program is ready, has failed or was stopped meanwhile. */
  async start(name: string, revision: string): Promise<ApplicationBackendStatus> {
    const process = await this.#mutex.runExclusive(name, async () => {
      const running = this.#processes.get(name)
      if (running?.isRunning) {
        if (running.revision === revision) return running
        throw new Problem('conflict', 'a different backend revision is already running')
      }
      const { state } = await this.status(name)
      return state === 'missing' ? undefined : await this.#launch(name, revision)
    })
    await process?.waitUntilReady()
    return await this.status(name)
  }

  async stop(name: string): Promise<ApplicationBackendStatus> {
    // Not in turn: a start that waits for the program is abandoned.
    await this.#processes.get(name)?.stop()
    await this.#mutex.runExclusive(name, async () => {
      await this.#processes.get(name)?.stop()
      this.#processes.delete(name)
    })
    return await this.status(name)
  }

  logs(name: string, limitBytes: number): { readonly logs: string; readonly truncated: boolean } {
    return this.#output.get(name)?.read(limitBytes) ?? { logs: '', truncated: false }
  }

  async deleteData(name: string): Promise<ApplicationBackendStatus> {
    return await this.#mutex.runExclusive(name, async () => {
      if (this.#processes.get(name)?.isRunning)
        throw new Problem('conflict', 'stop the backend before deleting its data')
      await rm(this.#dataDirectory(name), { recursive: true, force: true })
      return await this.status(name)
    })
  }

  async forgetApproval(name: string): Promise<void> {
    await rm(this.#approvalPath(name), { force: true })
  }

  /** Throws while a program runs: its files must not be replaced under it. */
  assertNoneRuns(): void {
    const names = [...this.#processes].filter(([, { isRunning }]) => isRunning).map(([name]) => name)
    if (names.length > 0)
      throw new Problem(
        'conflict',
        `Stop running Canvas App backends before replacing files: ${names.join(', ')}`,
      )
  }

  /** The ready program of an application. */
  findReady(name: string): BackendProcess | undefined {
    const process = this.#processes.get(name)
    return process?.state === 'ready' ? process : undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#processes.values()].map((process) => process.stop()))
  }

  async #launch(name: string, revision: string): Promise<BackendProcess> {
    const found = await this.#findStartable(name)
    const approval = await this.#approval(name).read()
    if (found.revision !== revision || !isApproved(found, approval))
      throw new Problem('conflict', 'backend revision must be prepared before start')
    if (toolUser() !== undefined)
      throw new Problem('conflict', 'backends do not run where tools have another user (SLIPWAY_TOOL_USER)')
    if (this.#isClosed) throw new Problem('unavailable', 'The server is stopping')
    const secrets = await this.#readSecrets(found.backend.secrets)
    const dataDirectory = this.#dataDirectory(name)
    const home = join(dataDirectory, 'home')
    await makeDirectory(home, 0o700)
    // By it, a program that outlived a killed server is found and ended at the next start.
    const realHome = await realpath(home)
    const output = new OutputTail()
    this.#output.set(name, output)
    const process = await BackendProcess.start({
      folder: found.folder,
      environment: { ...this.#environment(found.backend), ...secrets, HOME: realHome },
      backend: found.backend,
      revision,
      artifactDirectory: approval.artifact_dir,
      dataDirectory,
      output,
    })
    this.#processes.set(name, process)
    if (this.#isClosed) await process.stop()
    return process
  }

  #environment({ inherit_environment }: ApplicationBackend): Record<string, string> {
    const { environment } = this.#options
    return Object.fromEntries(
      inherit_environment.flatMap((name) => {
        const value = environment[name]
        return value === undefined ? [] : [[name, value]]
      }),
    )
  }

  async #readSecrets(names: readonly string[]): Promise<Record<string, string>> {
    const secrets: Record<string, string> = {}
    for (const name of names) {
      const value = await this.#options.findSecret(name)
      if (value === undefined)
        throw new Problem('conflict', `The secret ${name} is not stored on this server`)
      secrets[name] = value
    }
    return secrets
  }

  async #findStartable(name: string): Promise<Startable> {
    const found = await this.#options.find(name)
    const backend = found?.manifest?.backend
    if (found === undefined || backend == null)
      throw new Problem('conflict', 'Canvas extension does not declare a backend')
    return { folder: found.install_path, backend, ...(await readRevision(found)) }
  }

  #dataDirectory(name: string): string {
    return join(applicationHomes(this.#options.directory), name)
  }

  #approvalPath(name: string): string {
    return join(this.#options.directory, 'approvals', `${name}.json`)
  }

  #approval(name: string) {
    return openJsonFile<Approval | undefined>({
      path: this.#approvalPath(name),
      empty: undefined,
      parse: parseApproval,
    })
  }
}

/** The commit where there is one, otherwise the checksum of the manifest. */
async function readRevision({ install_path, resolved_ref }: InstalledApplication) {
  const bytes = (await readManifestBytes(install_path)) ?? ''
  const manifest = `sha256:${hash('sha256', bytes)}`
  return { manifest, revision: resolved_ref ?? manifest }
}

/**
 * Whether what is installed may run: an approval of other files, secrets or another machine counts no more.
 */
function isApproved(found: Omit<Startable, 'folder'>, approval: Approval | undefined): approval is Approval {
  return (
    approval !== undefined &&
    approval.revision === found.revision &&
    approval.manifest === found.manifest &&
    hasSameNames(found.backend.secrets, approval.secrets ?? []) &&
    approval.platform === currentPlatform()
  )
}

/** Whoever approves has seen which secrets leave the server. */
function assertNamed(asked: readonly string[], named: readonly string[]): void {
  if (hasSameNames(asked, named)) return
  const names = asked.length === 0 ? 'none' : asked.join(', ')
  throw new Problem('conflict', `The approval has to name the secrets that the program gets: ${names}`)
}

function hasSameNames(some: readonly string[], others: readonly string[]): boolean {
  return some.toSorted().join() === others.toSorted().join()
}

function parseApproval(value: unknown): Approval {
  const names = ['revision', 'manifest', 'platform', 'artifact_sha256', 'artifact_dir']
  if (!isRecord(value) || !names.every((name) => typeof value[name] === 'string'))
    throw new Error('not an approval')
  const { secrets = [] } = value
  if (!Array.isArray(secrets) || !secrets.every((name) => typeof name === 'string'))
    throw new Error('not an approval')
  return value as unknown as Approval
}
