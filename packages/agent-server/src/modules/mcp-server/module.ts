import { join } from 'node:path'
import type { ScopedKey } from '@slipway/http'
import { mcpServerRoutes } from '@slipway/protocol'
import { OpenedOnce } from '@slipway/shared/async'
import { defineModule } from '../../core/module.ts'
import { settingsModule } from '../settings/module.ts'
import { Door } from './door.ts'
import { mcpServerHandlers } from './handlers.ts'

/**
 * The door of MCP clients: search, read and act on conversations. Its name has `server`, because the module
 * `mcp` is about the servers that agents use. Everything behind it is loaded with the first request.
 */
export const mcpServerModule = defineModule({
  name: 'mcp-server',
  routes: mcpServerRoutes,
  needs: [settingsModule],
  open({ call, storage, parts, directories, host: { clock, log } }, use) {
    const settings = use(settingsModule)
    const server = new OpenedOnce(async () => {
      const { openMcpServer } = await import('./mcp-server.ts')
      const directory = join(directories.files, 'mcp-server')
      return await openMcpServer({
        ...{ settings, models: parts.models, directory, log },
        doorOf: ({ authInfo }) => {
          const key = authInfo?.extra?.caller as ScopedKey | undefined
          return new Door({ key, call, storage, clock })
        },
      })
    })
    return {
      handlers: mcpServerHandlers(() => server.get()),
      close: {
        [Symbol.asyncDispose]: async () => {
          await (await server.current?.catch(() => undefined))?.close()
        },
      },
    }
  },
})
