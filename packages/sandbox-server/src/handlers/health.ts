import type { Handlers } from '@slipway/http'
import type { sandboxServerRoutes } from '@slipway/protocol'
import type { Backend } from '../backends/backend.ts'
import webClientConfig from '../server/web-client-config.json' with { type: 'json' }

export function healthHandlers(deps: {
  readonly version: string
  readonly backends: ReadonlyMap<string, Backend>
}) {
  const startedAt = Date.now()
  const updatedAt = new Date(startedAt).toISOString()
  return {
    alive: () => ({ json: { status: 'ok' } }),
    health: () => ({ bytes: Buffer.from('OK'), contentType: 'text/plain' }),
    ready: () => ({ json: { status: 'ready' } }),
    async serverInfo() {
      const backends = await Promise.all(
        [...deps.backends].map(async ([name, backend]) => ({ name, isolation: await backend.isolation() })),
      )
      return {
        json: {
          title: 'Slipway Sandbox Server',
          slipway_version: deps.version,
          uptime: Math.floor((Date.now() - startedAt) / 1000),
          backends,
          docs: '/docs',
        },
      }
    },
    webClientConfig: () => ({ json: { ...webClientConfig, updated_at: updatedAt } }),
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}
