import { randomUUID } from 'node:crypto'
import { availableToolNames, type BrowserSearch } from '@slipway/agent'
import type { Handlers, Readiness, Reply } from '@slipway/http'
import type { agentServerRoutes, InitState, Problem } from '@slipway/protocol'

/** The version of the contract that clients look for in `/server_info` (not our own). */
const contractVersion = '1.58.2'

/** Of this start of the process: control planes see by it that something started the server again. */
const instanceId = randomUUID()

/** `getLastActivityMs` answers when the server was last used. */
export function healthHandlers(options: {
  readonly version: string
  /** The commit of the sources, and its name, in a release. */
  readonly build: { readonly sha: string; readonly ref: string }
  /** Of modules. */
  readonly capabilities: readonly string[]
  readonly browser?: BrowserSearch
  readonly readiness: Readiness
  readonly getLastActivityMs: () => number
  readonly getInitState: () => InitState
  /** Members that modules add, once they are open. */
  readonly getModuleInfo?: () => Readonly<Record<string, unknown>>
  /** Why nothing can be written at the moment. */
  readonly checkStorage: () => Promise<Problem | undefined>
  /** Where pages of applications reach their programs. */
  readonly ingressUrl?: string | null
  /** Page of the console or web client, for requests of HTML at `/`. */
  readonly webClient?:
    | { root(header: (name: string) => string | undefined): Promise<Reply | undefined> | undefined }
    | undefined
}) {
  const startedAt = Date.now()
  const { ingressUrl = null } = options
  const capabilities = [
    'idempotent_conversation_create_v1',
    ...options.capabilities,
    ...(ingressUrl === null ? [] : ['canvas_app_backend_bridge_v1']),
  ]
  const okReply = { bytes: Buffer.from('{"status":"ok"}') }
  const serverInfoReply = async () => ({
    json: {
      uptime: secondsSince(startedAt),
      instance_id: instanceId,
      idle_time: secondsSince(options.getLastActivityMs()),
      title: 'Slipway Agent Server',
      version: contractVersion,
      sdk_version: contractVersion,
      tools_version: contractVersion,
      workspace_version: contractVersion,
      slipway_version: options.version,
      build_git_sha: options.build.sha,
      build_git_ref: options.build.ref,
      python_version: 'none',
      usable_tools: await availableToolNames(options.browser),
      runtime_idle_timeout_seconds: null,
      conversation_runtime: 'local',
      app_backend_ingress_url: ingressUrl,
      capabilities,
      max_foreground_terminal_timeout_seconds: null,
      synchronous: 'FULL',
      docs: '/docs',
      redoc: '/redoc',
      export_public_key: null,
      ...options.getModuleInfo?.(),
    },
  })
  return {
    alive: () => okReply,
    health: () => okReply,
    ready: () =>
      options.readiness.answer(async () => {
        // One that waits for its settings is ready to receive them.
        const status = options.getInitState()
        if (status === 'initializing')
          return { status: 503, json: { status, message: 'The server is being opened.' } }
        const problem = await options.checkStorage()
        if (problem === undefined) return { bytes: Buffer.from('{"status":"ready"}') }
        return { status: 503, json: { status: 'unavailable', message: problem.message } }
      }),
    serverInfo: serverInfoReply,
    root: async ({ header }) => (await options.webClient?.root(header)) ?? (await serverInfoReply()),
  } satisfies Partial<Handlers<typeof agentServerRoutes>>
}

function secondsSince(since: number): number {
  return Math.floor((Date.now() - since) / 1000)
}
