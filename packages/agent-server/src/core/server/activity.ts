import { agentServerRoutes } from '@slipway/protocol'

type RouteName = keyof typeof agentServerRoutes

/** Routes other than GET that do not count as use of the server. */
const passiveRoutes: readonly RouteName[] = [
  'createWorkspaceTicket',
  'discoverAcpModels',
  'endSubscription',
  'endWorkspaceSession',
  'finishMcpOAuth',
  'getHooks',
  'listPlugins',
  'listSkills',
  'listSubAgents',
  'materializeAgentProfile',
  'pollSubscriptionLogin',
  'postAutomation',
  'postInit',
  'prepareForSandboxPause',
  'startMcpOAuth',
  'startSubscriptionLogin',
  'startWorkspaceSession',
  'switchAcpModel',
  'testMcpServer',
  'validateProfile',
]

const activeRoutes = new Set<string>(
  Object.entries(agentServerRoutes).flatMap(([name, { method }]) => (method === 'GET' ? [] : [name])),
)
for (const name of passiveRoutes) activeRoutes.delete(name)

/** Their answer takes as long as a command. */
const awaitedRoutes = new Set<string>([
  'executeBashCommand',
  'executeConversationBashCommand',
] satisfies RouteName[])

/** When the server was last used; `/server_info` reports the time since then as `idle_time`. */
export class Activity {
  lastMs = Date.now()

  record(): void {
    this.lastMs = Date.now()
  }

  /** Calls the handler of a route and records that; a command that is waited for counts at its end too. */
  track(routeName: string, callHandler: () => unknown): unknown {
    if (!activeRoutes.has(routeName)) return callHandler()
    this.record()
    const reply = callHandler()
    return awaitedRoutes.has(routeName) ? this.#recordAfter(reply) : reply
  }

  async #recordAfter(reply: unknown): Promise<unknown> {
    const settled = await reply
    this.record()
    return settled
  }
}
