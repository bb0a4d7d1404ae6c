import type { ResolvedSettings } from '@slipway/agent'
import {
  type Agent,
  agentContext,
  type Condenser,
  parseOrThrow,
  type StartConversationRequest,
  type SummarizingCondenser,
  startConversationRequest,
} from '@slipway/protocol'
import { restoreRedacted } from '@slipway/shared/json'
import type { Cipher } from '@slipway/storage'
import { openSealedTexts } from '../../secrets/sealed-text.ts'
import type { ConversationParts } from '../parts.ts'
import type { ConversationOrigin } from '../stored-request.ts'
import { resolveModel, resolveSecretSources } from './resolve-llm.ts'
import { buildStartSettings } from './start-request.ts'

/** Dependencies that resolve the references of a request. */
export interface StartSettingsDeps {
  readonly cipher: Cipher
  readonly parts: Pick<ConversationParts, 'models' | 'agentProfiles' | 'launchedProfile'>
}

/** Members of a request in which secrets may stand, sealed ones among them. */
const membersWithSecrets = ['agent', 'agent_settings', 'hook_config', 'plugins', 'agent_definitions'] as const

/**
 * The start settings of a conversation: sealed secrets opened, the agent profile resolved, models with the
 * keys of their connections. Problems: `invalid` with the place, `not_found` for a profile.
 */
export async function resolveStartSettings(
  deps: StartSettingsDeps,
  request: StartConversationRequest,
): Promise<{ readonly settings: ResolvedSettings; readonly origin: ConversationOrigin }> {
  const { cipher, parts } = deps
  const { agent_profile_id, agent_launch_additions, secrets, ...rest } = unsealRequest(deps, request)
  const launch =
    agent_profile_id === undefined ? undefined : await parts.agentProfiles.resolve(agent_profile_id)
  const secretRefs = launch?.profileReference.secret_refs ?? undefined
  const named = Object.entries(secrets ?? {}).filter(([name]) => secretRefs?.includes(name) ?? true)
  const secretSources =
    secrets === undefined
      ? undefined
      : resolveSecretSources(cipher, Object.fromEntries(named), ['body', 'secrets'])
  const resolvedRequest = {
    ...rest,
    // Becomes a part of the agent.
    agent_launch_additions: undefined,
    secrets: secretSources,
    ...(launch && { agent_settings: launch.agentSettings }),
  }
  const { settings, place } = buildStartSettings(resolvedRequest)
  const agent = await resolveAgent(deps, settings.agent, ['body', place])
  const launched_agent_profile = launch?.profileReference ?? parts.launchedProfile
  const origin = launched_agent_profile === undefined ? {} : { launched_agent_profile }
  const suffix = agent_launch_additions?.system_message_suffix_append
  return { settings: { ...settings, agent: appendSuffix(agent, suffix) }, origin }
}

/** An agent with more text at the end of its system message. */
function appendSuffix(agent: Agent, text = ''): Agent {
  if (text === '') return agent
  const { system_message_suffix: suffix = '' } = agent.agent_context ?? {}
  const system_message_suffix = suffix === '' ? text : `${suffix}\n\n${text}`
  return { ...agent, agent_context: agentContext.parse({ ...agent.agent_context, system_message_suffix }) }
}

function unsealRequest(
  { cipher }: StartSettingsDeps,
  request: StartConversationRequest,
): StartConversationRequest {
  const members = membersWithSecrets.map(
    (name) => [name, openSealedTexts(cipher, request[name], ['body', name])] as const,
  )
  return parseOrThrow(startConversationRequest, { ...request, ...Object.fromEntries(members) }, ['body'])
}

type JsonPath = readonly (string | number)[]

async function resolveAgent(deps: StartSettingsDeps, agent: Agent, path: JsonPath): Promise<Agent> {
  const { agent_context: context, mcp_config } = agent
  const secrets = context?.secrets
  const secretsPath = [...path, 'agent_context', 'secrets']
  return {
    ...agent,
    llm: await resolveModel(modelDeps(deps), agent.llm, [...path, 'llm']),
    condenser: await resolveCondenser(deps, agent.condenser, [...path, 'condenser']),
    // The placeholder that clients get for a secret must not become a value.
    mcp_config: restoreRedacted(mcp_config, undefined, undefined) as Agent['mcp_config'], // texts are left out, and nothing else
    agent_context:
      context === undefined || secrets === undefined
        ? context
        : { ...context, secrets: resolveSecretSources(deps.cipher, secrets, secretsPath) },
  }
}

async function resolveCondenser(
  deps: StartSettingsDeps,
  condenser: Condenser | undefined,
  path: JsonPath,
): Promise<Condenser | undefined> {
  if (condenser?.kind === 'LLMSummarizingCondenser')
    return await resolveSummarizingCondenser(deps, condenser, path)
  if (condenser?.kind !== 'PipelineCondenser') return condenser
  const condensers = condenser.condensers.map(async (one, index) =>
    one.kind === 'NoOpCondenser'
      ? one
      : await resolveSummarizingCondenser(deps, one, [...path, 'condensers', index]),
  )
  return { ...condenser, condensers: await Promise.all(condensers) }
}

async function resolveSummarizingCondenser(
  deps: StartSettingsDeps,
  condenser: SummarizingCondenser,
  path: JsonPath,
): Promise<SummarizingCondenser> {
  const { llm } = condenser
  return llm === undefined
    ? condenser
    : { ...condenser, llm: await resolveModel(modelDeps(deps), llm, [...path, 'llm']) }
}

function modelDeps({ cipher, parts: { models } }: StartSettingsDeps) {
  return { cipher, models }
}
