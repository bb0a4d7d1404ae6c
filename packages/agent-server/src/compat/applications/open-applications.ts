import { join } from 'node:path'
import { OriginPool } from '@slipway/http'
import type { LogFunction } from '@slipway/protocol'
import type { Ingress } from '../../core/server/ingress.ts'
import { ApplicationBackends, applicationDirectory } from './application-backends.ts'
import { ApplicationBridge } from './application-bridge.ts'
import { applicationHandlers } from './handlers.ts'
import { InstalledApplications } from './installed-applications.ts'

interface ApplicationsOptions {
  /** Data directory of the server, unchanged before the first installation. */
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
  readonly ingress: Ingress
  readonly sessionMs: number
  readonly hasKeys: () => boolean
  /** Of the server, for programs of applications. */
  readonly findSecret: (name: string) => Promise<string | undefined>
  readonly log: LogFunction
}

/** Installed applications, their programs and the way of their pages to them. Reads nothing yet. */
export function openApplications(options: ApplicationsOptions) {
  const { directory, environment, ingress, sessionMs, hasKeys, findSecret, log } = options
  const backends = new ApplicationBackends({
    directory: applicationDirectory(directory),
    environment,
    find: async (name) => await applications.find(name),
    findSecret,
  })
  const applications = new InstalledApplications({
    directory: join(directory, 'canvas-extensions'),
    environment,
    assertReplaceable: () => backends.assertNoneRuns(),
    onReplace: async (name) => await backends.forgetApproval(name),
  })
  const findReady = (name: string) => backends.findReady(name)
  const bridge = new ApplicationBridge({ ingress, sessionMs, findReady, hasKeys })
  const origins = new OriginPool({ log })
  return {
    handlers: { ...applicationHandlers({ applications, backends, origins }), ...bridge.handlers },
    proxy: bridge.proxyRoute,
    async [Symbol.asyncDispose]() {
      await Promise.all([backends[Symbol.asyncDispose](), origins[Symbol.asyncDispose]()])
    },
  }
}
