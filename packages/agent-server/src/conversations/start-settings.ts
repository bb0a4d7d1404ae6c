import type { Settings } from '@slipway/agent'
import {
  type Agent,
  type Condenser,
  type StartConversationRequest,
  type SummarizingCondenser,
  startConversationRequest,
  validated,
} from '@slipway/protocol'
import type { AgentProfiles } from '../profiles/agent-profiles.ts'
import { type Taking, takenModel, takenSources } from '../profiles/resolve-llm.ts'
import { openTexts } from '../secrets/sealed-text.ts'
import { unmasked } from '../settings/merge-patch.ts'
import { type Origin, settingsOf } from './stored-request.ts'

/** What is needed to follow a request's references. */
export interface Requested extends Taking {
  readonly agentProfiles: Pick<AgentProfiles, 'resolve'>
}

/** Members of a request in which secrets may stand, sealed ones among them. */
const holdsSecrets = ['agent', 'agent_settings', 'hook_config', 'plugins', 'agent_definitions'] as const

/**
 * What a conversation is started with: sealed secrets opened, whether or not the request says that there are any; the profile of an
 * agent followed; models with the keys of their connections. Problems: `invalid` with the place, `not_found` for a profile.
 */
export async function requestedSettings(
  parts: Requested,
  request: StartConversationRequest,
): Promise<{ readonly settings: Settings; readonly origin: Origin }> {
  const { cipher, agentProfiles } = parts
  const { agent_profile_id, secrets, ...rest } = opened(parts, request)
  const launch = agent_profile_id === undefined ? undefined : await agentProfiles.resolve(agent_profile_id)
  const sources = secrets === undefined ? undefined : takenSources(cipher, secrets, ['body', 'secrets'])
  const asked = { ...rest, secrets: sources, ...(launch && { agent_settings: launch.agentSettings }) }
  const { settings, place } = settingsOf(asked)
  const agent = await readyAgent(parts, settings.agent, ['body', place])
  const origin = launch === undefined ? {} : { launched_agent_profile: launch.launched }
  return { settings: { ...settings, agent }, origin }
}

function opened({ cipher }: Requested, request: StartConversationRequest): StartConversationRequest {
  const members = holdsSecrets.map(
    (name) => [name, openTexts(cipher, request[name], ['body', name])] as const,
  )
  return validated(startConversationRequest, { ...request, ...Object.fromEntries(members) }, ['body'])
}

type Place = readonly (string | number)[]

async function readyAgent(parts: Requested, agent: Agent, place: Place): Promise<Agent> {
  const { agent_context: context, mcp_config } = agent
  const secrets = context?.secrets
  const at = [...place, 'agent_context', 'secrets']
  return {
    ...agent,
    llm: await takenModel(parts, agent.llm, [...place, 'llm']),
    condenser: await readyCondenser(parts, agent.condenser, [...place, 'condenser']),
    // A mask is no value: what a client was shown in the place of a secret must not become one.
    mcp_config: unmasked(mcp_config, undefined, undefined) as Agent['mcp_config'], // texts are left out, and nothing else
    agent_context:
      context === undefined || secrets === undefined
        ? context
        : { ...context, secrets: takenSources(parts.cipher, secrets, at) },
  }
}

async function readyCondenser(
  parts: Requested,
  condenser: Condenser | undefined,
  place: Place,
): Promise<Condenser | undefined> {
  if (condenser?.kind === 'LLMSummarizingCondenser') return await readySummary(parts, condenser, place)
  if (condenser?.kind !== 'PipelineCondenser') return condenser
  const condensers = condenser.condensers.map(async (one, at) =>
    one.kind === 'NoOpCondenser' ? one : await readySummary(parts, one, [...place, 'condensers', at]),
  )
  return { ...condenser, condensers: await Promise.all(condensers) }
}

async function readySummary(
  parts: Requested,
  condenser: SummarizingCondenser,
  place: Place,
): Promise<SummarizingCondenser> {
  const { llm } = condenser
  return llm === undefined
    ? condenser
    : { ...condenser, llm: await takenModel(parts, llm, [...place, 'llm']) }
}
