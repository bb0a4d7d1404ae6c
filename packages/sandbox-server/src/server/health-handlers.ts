import type { Handlers, Readiness } from '@slipway/http'
import type { Problem, sandboxServerRoutes } from '@slipway/protocol'
import { defaultProviderHosts } from '../accounts/git-repository.ts'
import type { Backend } from '../backends/backend.ts'
import webClientConfig from './web-client-config.json' with { type: 'json' }

export function healthHandlers(deps: {
  readonly version: string
  readonly backends: ReadonlyMap<string, Backend>
  readonly readiness: Readiness
  /** Why nothing can be written at the moment. */
  readonly checkStorage: () => Promise<Problem | undefined>
}) {
  const startedAt = Date.now()
  const updatedAt = new Date(startedAt).toISOString()
  return {
    alive: () => ({ json: { status: 'ok' } }),
    health: () => ({ bytes: Buffer.from('OK'), contentType: 'text/plain' }),
    ready: () =>
      deps.readiness.answer(async () => {
        const problem = await deps.checkStorage()
        if (problem === undefined) return { json: { status: 'ready' } }
        return { status: 503, json: { status: 'unavailable', message: problem.message } }
      }),
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
    webClientConfig: () => ({
      json: { ...webClientConfig, provider_default_hosts: defaultProviderHosts, updated_at: updatedAt },
    }),
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}
