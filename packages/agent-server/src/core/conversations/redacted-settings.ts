import type { Conversation, ResolvedSettings } from '@slipway/agent'
import type { Agent, HookConfig, SecretSource } from '@slipway/protocol'
import { mapMembers } from '@slipway/shared/json'
import { findSecretTexts, minSecretLength, Redactor, textForms } from '@slipway/shared/redaction'
import { redactSecrets } from '../secrets/expose-secrets.ts'
import type { ConversationOrigin, StoredRequest } from './stored-request.ts'

/** Settings as stored in clear: possible secrets are null or redacted at every depth. */
export function toStoredRequest(settings: ResolvedSettings, origin: ConversationOrigin = {}): StoredRequest {
  const { initial_message, agent_definitions: _, agent, ...rest } = settings
  const { agent_context: context } = agent
  const agentWithoutSkills =
    context === undefined ? agent : { ...agent, agent_context: { ...context, skills: [] } }
  const stored = redactSettings({ ...rest, agent: agentWithoutSkills } as ResolvedSettings, settings, origin) // what is left out is optional
  return initial_message === undefined ? stored : { ...stored, has_initial_message: true }
}

export function redactedSkills(settings: ResolvedSettings): readonly unknown[] | undefined {
  return redactSettings(settings, settings, {}).agent?.agent_context?.skills
}

/** What plugins added to the agent, as it is shown: without the secrets of the settings. */
export function displayPluginAdditions(
  settings: ResolvedSettings,
  { skills, hooks }: Conversation['pluginAdditions'],
): { readonly skills: readonly unknown[]; readonly hooks: HookConfig | undefined } {
  const shown = skills.map((skill) => {
    const keywords = [...skill.keywords, ...skill.commands]
    return {
      name: skill.name,
      content: skill.content,
      trigger: keywords.length === 0 ? null : { type: 'keyword', keywords },
      source: skill.file ?? skill.source ?? null,
      description: skill.description ?? null,
      is_agentskills_format: skill.isAgentSkill,
    }
  })
  const redacted = redactValues(redactSecrets({ skills: shown, hooks }, null), secretValues(settings))
  return redacted as { skills: readonly unknown[]; hooks: HookConfig | undefined } // the shape of its input
}

/** `settings`, or a part of them, without the secrets of the `whole`. */
function redactSettings(
  settings: ResolvedSettings,
  whole: ResolvedSettings,
  origin: ConversationOrigin,
): StoredRequest {
  const { secrets = {}, client_tools, agent_state, ...rest } = settings
  // The results have the shape of their input, with null for redacted values.
  const redacted = redactValues(redactSecrets(rest, null), secretValues(whole)) as StoredRequest
  // A schema describes values and holds none: a parameter that is called `token` is no secret.
  return {
    ...redactContextSecrets(redacted, settings),
    client_tools,
    agent_state,
    secret_sources: redactSecretSources(secrets),
    ...origin,
  }
}

/** The secrets of the agent's context are shown like those of the conversation. */
function redactContextSecrets(stored: StoredRequest, { agent }: ResolvedSettings): StoredRequest {
  const secrets = agent.agent_context?.secrets
  const context = stored.agent?.agent_context
  if (secrets === undefined || stored.agent === undefined || context === undefined) return stored
  const redactedContext = { ...context, secrets: redactSecretSources(secrets) }
  return { ...stored, agent: { ...stored.agent, agent_context: redactedContext } as Agent } // null where values stood
}

/** Replaces a value of a secret in other texts. */
const secretMark = '<secret-hidden>'

/** Names whose texts are words of the contract. */
const contractWordMembers = ['kind', 'type', 'role', 'name', 'model', 'usage_id']

function secretValues({ secrets = {}, ...rest }: ResolvedSettings): Redactor {
  const sources = [...Object.values(secrets), ...Object.values(rest.agent.agent_context?.secrets ?? {})]
  const staticValues = sources.map((source) => (source.kind === 'StaticSecret' ? source.value : undefined))
  const foundValues = findSecretTexts(rest).flatMap(({ text, isNamed }) =>
    isNamed || /\d/.test(text) ? [text] : [],
  )
  const redactor = new Redactor({ mark: secretMark, forms: textForms })
  for (const value of [...staticValues, ...foundValues])
    if (value !== undefined && value.length >= minSecretLength) redactor.add(value)
  return redactor
}

function redactValues(value: unknown, values: Redactor, name: string | number = ''): unknown {
  if (typeof value !== 'string')
    return mapMembers(value, (member, name) => redactValues(member, values, name))
  return contractWordMembers.includes(String(name)) ? value : values.redact(value)
}

function redactSecretSources(secrets: Readonly<Record<string, SecretSource>>) {
  return Object.fromEntries(
    Object.entries(secrets).map(([name, source]) => {
      const description = source.description ?? null
      return [
        name,
        source.kind === 'StaticSecret'
          ? { description, value: null, kind: source.kind }
          : { description, url: stripUrlSecrets(source.url), headers: {}, kind: source.kind },
      ]
    }),
  )
}

function stripUrlSecrets(url: string): string {
  return url.replace(/[?#].*$/s, '').replace(/\/\/[^/@]*@/, '//')
}
