import { realpath } from 'node:fs/promises'
import type { Handlers } from '@slipway/http'
import type { maintenanceRoutes } from '@slipway/protocol'
import type { ServerStorage } from '@slipway/storage'
import type { BashService } from '../bash/module.ts'

/** Below the timeouts of clients and proxies. */
const maxMs = 5_000

export function maintenanceHandlers(deps: {
  readonly directory: string
  readonly storage: Pick<ServerStorage, 'compact'>
  readonly bash: Pick<BashService['events'], 'compact'>
}): Handlers<typeof maintenanceRoutes> {
  const { directory, storage, bash } = deps
  return {
    async compactStorage({ signal }) {
      const commands = await bash.compact({ signal, maxMs })
      const databases = [
        ...(await storage.compact({ signal, maxMs })),
        ...(commands === undefined ? [] : [commands]),
      ]
      return {
        json: {
          data_directory: await realpath(directory),
          is_complete: databases.every(({ free_bytes, needs_stop }) => free_bytes === 0 || needs_stop),
          databases,
        },
      }
    },
  }
}
