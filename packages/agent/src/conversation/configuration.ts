import type {
  CommandRule,
  ConfirmationPolicy,
  ConversationLimits,
  ExtensionSource,
  SecretSource,
  SecurityAnalyzer,
} from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import { redact, redactedText } from '@slipway/shared/redaction'
import { addPluginsToAgent } from '../plugins/agent-with-plugins.ts'
import { loadPluginOrProblem } from '../plugins/extensions.ts'
import { acceptedText } from './confirm/plan-mode.ts'
import type { ConversationParts } from './conversation-parts.ts'
import { stateUpdate, statusUpdate, userMessage } from './events/event-drafts.ts'
import { assertOwnAgent } from './external/external-model.ts'
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
