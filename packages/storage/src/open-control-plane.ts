import type { LogFunction } from '@slipway/protocol'
import { assertUntracked } from '@slipway/shared/process'
import type { ControlPlaneStore } from './control-plane/control-plane-store.ts'
import type { ServerStorage } from './open-server-storage.ts'
import { openControlPlaneStore } from './sqlite/control-plane/control-plane-store.ts'
import { StorageHealth } from './sqlite/database/storage-health.ts'
import { openStorage } from './sqlite/storage.ts'

/** What a sandbox server stores: its rows, and the logs of its conversations. */
export interface ControlPlaneStorage extends AsyncDisposable {
  readonly storage: Omit<ServerStorage, 'documents'>
  readonly controlPlane: ControlPlaneStore
}

/**
 * Opens them in a data directory, which is locked, or in a PostgreSQL database, which any number of sandbox
 * servers may use at the same time.
 */
export async function openControlPlane(options: {
  readonly directory: string
  /** `postgres://user:password@host/database?sslmode=verify-full` */
  readonly url: string | undefined
  /** A server that is silent for so long loses its work to another. */
  readonly leaseMs?: number | undefined
  readonly log: LogFunction
}): Promise<ControlPlaneStorage> {
  const { directory, url, log } = options
  await assertUntracked(directory)
  await using opened = new AsyncDisposableStack()
  const parts = url === undefined ? openFiles : openDatabase
  const { storage, controlPlane } = await parts(options, opened)
  log('debug', 'the control plane is open', { directory, ledger: controlPlane.id })
  const resources = opened.move()
  return { storage, controlPlane, [Symbol.asyncDispose]: () => resources.disposeAsync() }
}

type Options = Parameters<typeof openControlPlane>[0]

async function openFiles({ directory, log }: Options, opened: AsyncDisposableStack) {
  const storage = opened.use(await openStorage({ directory, log }))
  const controlPlane = opened.use(await openControlPlaneStore({ directory, log, health: storage.health }))
  return { storage, controlPlane }
}

async function openDatabase({ directory, url = '', leaseMs, log }: Options, opened: AsyncDisposableStack) {
  const [{ openPostgresControlPlaneStore }, { openSharedPostgresStorage }] = await Promise.all([
    import('./postgres/control-plane/control-plane-store.ts'),
    import('./postgres/control-plane/shared-storage.ts'),
  ])
  const leaseTimes = leaseMs === undefined ? undefined : { leaseMs, renewMs: Math.ceil(leaseMs / 5) }
  const controlPlane = opened.use(await openPostgresControlPlaneStore({ url, log, leaseTimes }))
  const health = new StorageHealth(directory, log, () => controlPlane.problem ?? storage.problem)
  opened.defer(() => health.close())
  const onRefused = (changes: number) => health.refused.inc(changes)
  const storage = opened.use(await openSharedPostgresStorage({ url, log, onRefused }))
  return {
    controlPlane,
    storage: {
      health,
      ...{ log: storage.log, conversations: storage.conversations, deliveries: storage.deliveries },
      startImport: () => storage.startImport(),
      waitUntilIndexed: () => storage.waitUntilIndexed(),
      overwriteRemoved: () => storage.overwriteRemoved(),
      releaseMemory: () => storage.releaseMemory(),
      compact: async () => [],
      metrics: [...storage.metrics, ...health.metrics],
      [Symbol.asyncDispose]: () => storage[Symbol.asyncDispose](),
    },
  }
}
