import { usableTools } from '@slipway/agent'
import type { Handlers } from '@slipway/http'
import type { agentRoutes, InitState } from '@slipway/protocol'
import type { Web } from '../../server/web-client.ts'

/** The version of the contract that clients look for in `/server_info` (not our own). */
const contractVersion = '1.44.0'

type Routes = Pick<typeof agentRoutes, 'alive' | 'health' | 'ready' | 'serverInfo' | 'root'>

const waiting = { dormant: 'The server waits for its settings.', initializing: 'The server is being opened.' }

/** `idleSince` answers the moment (ms) of the last request that changed something. */
export function healthHandlers(options: {
  readonly version: string
  readonly idleSince: () => number
  readonly state: () => InitState
  /** The page of a web client, for those who ask for a page at `/`. */
  readonly web?: Pick<Web, 'root'> | undefined
}): Handlers<Routes> {
  const startedAt = Date.now()
  const ok = { bytes: Buffer.from('{"status":"ok"}') }
  const info = async () => ({
    json: {
      uptime: seconds(startedAt),
      idle_time: seconds(options.idleSince()),
      title: 'Slipway Agent Server',
      version: contractVersion,
      sdk_version: contractVersion,
      tools_version: contractVersion,
      workspace_version: contractVersion,
      slipway_version: options.version,
      build_git_sha: 'unknown',
      build_git_ref: 'unknown',
      python_version: 'none',
      usable_tools: await usableTools(),
      runtime_idle_timeout_seconds: null,
      capabilities: [],
      max_foreground_terminal_timeout_seconds: null,
      synchronous: 'FULL',
      docs: '/docs',
      redoc: '/redoc',
    },
  })
  return {
    alive: () => ok,
    health: () => ok,
    ready() {
      const status = options.state()
      if (status === 'ready') return { bytes: Buffer.from('{"status":"ready"}') }
      return { status: 503, json: { status, message: waiting[status] } }
    },
    serverInfo: info,
    root: ({ header }) => options.web?.root(header) ?? info(),
  }
}

function seconds(since: number): number {
  return Math.floor((Date.now() - since) / 1000)
}
