import { createRequire, enableCompileCache } from 'node:module'
import type { serve as serveType } from '../../packages/agent-server/src/serve.ts'
import type { Clock } from '../../packages/shared/src/time/index.ts'
import { databaseSettings, type StartedServer } from './agent-server.ts'

/**
 * Opens a server of the working tree in the process of the tests, with the settings that `startAgentServer`
 * gives to a process: for tests that neither kill it nor read its output. A start takes a sixth of the CPU
 * time of a process.
 *
 * Node itself loads the modules, with its compile cache and once for each worker; vitest would transform them
 * for each file.
 */
export async function openServerInProcess(
  data: string,
  env: Readonly<Record<string, string>> = {},
  clock?: Clock,
): Promise<StartedServer> {
  const stopping = new AbortController()
  const ready = Promise.withResolvers<string>()
  const defaults = { SLIPWAY_LOG_LEVEL: 'error', SLIPWAY_NO_KEY: '1', ...(await databaseSettings(data)) }
  const ended = loadServe()({
    host: '127.0.0.1',
    port: 0,
    data,
    env: { ...process.env, ...defaults, ...env },
    clock,
    signal: stopping.signal,
    ready: (url) => ready.resolve(url),
  })
  ended.catch(ready.reject)
  return {
    url: await ready.promise,
    get pid(): never {
      throw needsProcess('has no process id')
    },
    output() {
      throw needsProcess('prints among the output of the tests')
    },
    async stop(signal = 'SIGTERM') {
      if (signal !== 'SIGTERM') throw needsProcess(`takes no ${signal}`)
      stopping.abort()
      await ended
      return 0
    },
  }
}

let serve: typeof serveType | undefined

function loadServe(): typeof serveType {
  if (serve === undefined) {
    enableCompileCache()
    serve = createRequire(import.meta.url)('../../packages/agent-server/src/serve.ts')
      .serve as typeof serveType
  }
  return serve
}

function needsProcess(why: string): Error {
  return new Error(`A server in the process of the tests ${why}: open one with \`isProcess\``)
}
