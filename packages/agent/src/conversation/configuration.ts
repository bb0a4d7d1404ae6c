import { isDeepStrictEqual } from 'node:util'
import {
  type AgentContext,
  agentContext,
  type ClientTool,
  type CommandRule,
  type ConfirmationPolicy,
  type ConversationLimits,
  type ExtensionSource,
  type Llm,
  type SecretSource,
  type SecurityAnalyzer,
} from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import { redact, redactedText } from '@slipway/shared/redaction'
import { addPluginsToAgent } from '../plugins/agent-with-plugins.ts'
import { loadPluginOrProblem } from '../plugins/extensions.ts'
import { acceptedText } from './confirm/plan-mode.ts'
import type { ConversationParts } from './conversation-parts.ts'
import { stateUpdate, statusUpdate, userMessage } from './events/event-drafts.ts'
import { assertOwnAgent } from './external/external-model.ts'
import type { DoorSettings, ResolvedSettings } from './state/resolved-settings.ts'
import { planModeKey } from './state/state.ts'
import { transition } from './state/status.ts'

/** Changes of an open conversation's settings. */

export async function setPolicy(parts: ConversationParts, policy: ConfirmationPolicy): Promise<void> {
  await parts.context.settings.change(
    (now) => ({ ...now, confirmation_policy: policy }),
    () => [stateUpdate('confirmation_policy', policy)],
  )
  await parts.runtimes.tasks?.syncPolicy()
  parts.runs.scheduleDeadline()
}

export async function setAnalyzer(
  { context, runtimes }: ConversationParts,
  analyzer: SecurityAnalyzer | null,
): Promise<void> {
  await context.settings.change(
    (now) => ({ ...now, security_analyzer: analyzer ?? undefined }),
    () => [stateUpdate('security_analyzer', analyzer)],
  )
  await runtimes.tasks?.syncPolicy()
}

/** Each scope that is given replaces the earlier one. */
export async function setLimits(
  { context: { settings } }: ConversationParts,
  limits: ConversationLimits,
): Promise<void> {
  const { run, conversation } = settings.current.limits ?? {}
  const merged = { run, conversation, ...definedMembers(limits) }
  await settings.change(
    (now) => ({ ...now, limits: merged }),
    () => [stateUpdate('limits', merged)],
  )
}

export async function setCommandRules(
  { context: { settings } }: ConversationParts,
  rules: readonly CommandRule[],
): Promise<void> {
  await settings.change(
    (now) => ({ ...now, command_rules: [...rules] }),
    () => [stateUpdate('command_rules', rules)],
  )
}

/**
 * Begins or ends plan mode. Its end tells the model that the plan is accepted, and a finished conversation
 * can be run again.
 */
export async function setPlanMode(
  { context: { settings }, runtimes }: ConversationParts,
  isPlanning: boolean,
): Promise<void> {
  assertOwnAgent(settings.current, 'plan_mode')
  await settings.change(
    (now) => ({ ...now, plan_mode: isPlanning }),
    (now) => {
      const isAccepted =
        !isPlanning && settings.isPlanning && now.hasMessage && now.blockedMessages.size === 0
      const idle = isAccepted ? transition(now.status, 'send') : undefined
      return [
        stateUpdate(planModeKey, isPlanning),
        ...(idle === undefined ? [] : [statusUpdate(idle)]),
        ...(isAccepted ? [userMessage('environment', acceptedText)] : []),
      ]
    },
  )
  await runtimes.tasks?.syncPolicy()
}

export async function addSecrets(
  { context: { secrets, settings } }: ConversationParts,
  added: Readonly<Record<string, SecretSource>>,
): Promise<void> {
  secrets.addSources(added)
  await settings.change((now) => ({ ...now, secrets: { ...now.secrets, ...added } }))
}

export async function removeSecret(
  { context: { secrets, settings } }: ConversationParts,
  name: string,
): Promise<void> {
  secrets.removeSource(name)
  await settings.change((now) => {
    const { [name]: _, ...rest } = now.secrets ?? {}
    return { ...now, secrets: rest }
  })
}

/** What a request of a door decides for its run. */
export interface TurnSettings {
  readonly llm: Llm
  /** What the request adds to the system message. */
  readonly suffix: string | undefined
  readonly clientTools: readonly ClientTool[] | undefined
  readonly responseSchema: Readonly<Record<string, unknown>> | undefined
  readonly door: DoorSettings
  /** The conversation is a new copy, whose log may have the prompt of other settings. */
  readonly isCopy: boolean
}

/** Another prompt or other tools open the runtime again, which ends programs that its tools have started. */
export async function configureTurn(
  { context, runtimes, runs }: ConversationParts,
  turn: TurnSettings,
): Promise<void> {
  const { settings, secrets, state } = context
  const toSettings = (now: ResolvedSettings): ResolvedSettings => ({
    ...now,
    agent: { ...now.agent, llm: turn.llm, agent_context: withSuffix(now.agent.agent_context, turn.suffix) },
    client_tools: turn.clientTools && [...turn.clientTools],
    response_schema: turn.responseSchema && { ...turn.responseSchema },
    door: { ...turn.door, is_untold: isUntold || undefined },
  })
  const before = settings.current
  let isUntold = before.door?.is_untold === true
  const isSame = (part: (settings: ResolvedSettings) => unknown) =>
    isDeepStrictEqual(toJson(part(before)), toJson(part(toSettings(before))))
  const isSamePrompt = isSame(({ agent, client_tools, response_schema }) => [
    agent.agent_context,
    client_tools,
    response_schema,
  ])
  isUntold ||= state.hasSystemPrompt && (turn.isCopy || !isSamePrompt)
  if (isSame((all) => all)) return
  runs.assertIdle(state)
  secrets.addValuesFrom(turn.llm)
  await settings.change(toSettings, () =>
    isSame(({ agent }) => agent)
      ? []
      : [stateUpdate('agent', redact(toSettings(before).agent, redactedText))],
  )
  if (!isSamePrompt) return await runtimes.reopen()
  const runtime = await runtimes.opened()
  if (runtime !== undefined) runtime.model = runtime.openModel(turn.llm)
}

function withSuffix(context: AgentContext | undefined, suffix: string | undefined): AgentContext | undefined {
  if (context === undefined && suffix === undefined) return undefined
  return agentContext.parse({ ...context, system_message_suffix: suffix })
}

/** Without members that are undefined. */
function toJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value) ?? 'null')
}

export async function loadPlugin(
  { context, runtimes, runs }: ConversationParts,
  source: ExtensionSource,
): Promise<void> {
  const { state, deps, secrets, settings, closing } = context
  runs.assertIdle(state)
  const runtime = await runtimes.open()
  const { extensions } = runtime
  const loaded = await loadPluginOrProblem(deps.extensions, source, closing.signal)
  secrets.addValuesFrom(loaded.plugin.servers)
  await settings.change(
    (now) => ({ ...now, plugins: [...extensions.pinnedWith(loaded)] }),
    (now) => {
      runs.assertIdle(now)
      const agent = addPluginsToAgent(settings.current.agent, [loaded.plugin, ...extensions.plugins])
      return [stateUpdate('agent', redact(agent, redactedText))]
    },
    async () => {
      extensions.add(loaded)
      await runtime.reload(closing.signal)
    },
  )
}
