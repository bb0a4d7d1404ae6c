import * as z from 'zod'
import { agentContext } from '../agents/agent.ts'
import { llm, secretText } from '../llm/llm.ts'
import {
  agentSettings,
  condenserSettings,
  conversationSettings,
  type SettingsField,
  type SettingsSchema,
  verificationSettings,
} from './settings.ts'

type Shape = Readonly<Record<string, z.ZodType>>

/** What a form says about a field besides what its schema says. */
interface Look {
  readonly label?: string
  readonly description?: string
  readonly prominence?: 'critical' | 'major'
  readonly depends_on?: readonly string[]
}

interface Section {
  readonly key: string
  readonly label: string
  /** In front of the names of its fields: `llm.`. */
  readonly prefix: string
  readonly shape: Shape
  /** Fields that do not stand in the form, for another page, or nothing, sets them. */
  readonly without: readonly string[]
  readonly looks: Readonly<Record<string, Look>>
}

const critic = ['verification.critic_enabled']
const refinement = [...critic, 'verification.enable_iterative_refinement']
const condensing = ['condenser.enabled']
const variant = 'openhands'

const agentSections: readonly Section[] = [
  {
    key: 'general',
    label: 'General',
    prefix: '',
    shape: agentSettings.shape,
    without: [
      'schema_version',
      'agent_kind',
      'agent',
      'llm',
      'tools',
      'enable_switch_llm_tool',
      'mcp_config',
      'agent_context',
      'condenser',
      'verification',
    ],
    looks: {
      enable_sub_agents: {
        label: 'Enable sub-agents',
        description: 'Let the agent give parts of its work to agents of its own.',
        prominence: 'major',
      },
      tool_concurrency_limit: {
        label: 'Parallel tool calls',
        description: 'Calls of one answer that may run at the same time; 1 is one after another.',
        prominence: 'major',
      },
    },
  },
  {
    key: 'llm',
    label: 'LLM',
    prefix: 'llm.',
    shape: llm.shape,
    without: ['fallback_strategy', 'script', 'usage_id'],
    looks: {
      model: {
        description: 'The provider and the name of the model: openai/gpt-5.5.',
        prominence: 'critical',
      },
      api_key: { description: 'The key that the provider asks for.', prominence: 'critical' },
      base_url: {
        label: 'Base URL',
        description: 'Address of the provider, where it is not the usual one.',
        prominence: 'critical',
      },
      temperature: { description: 'How freely the model chooses its words.', prominence: 'major' },
      reasoning_effort: { description: 'How long the model thinks: low, medium, high.', prominence: 'major' },
      max_output_tokens: { description: 'Tokens of one answer.', prominence: 'major' },
      max_input_tokens: { description: 'Tokens of one question.', prominence: 'major' },
      timeout: { description: 'Seconds that an answer may take.', prominence: 'major' },
      num_retries: { label: 'Retries', description: 'How often a failed question is asked again.' },
      retry_min_wait: { description: 'Seconds before the first retry.' },
      retry_max_wait: { description: 'Seconds between two retries at most.' },
      stream: { label: 'Stream answers', description: 'Show answers while they are being written.' },
      extra_headers: { description: 'Headers that every question carries.' },
    },
  },
  {
    key: 'agent_context',
    label: 'Agent context',
    prefix: 'agent_context.',
    shape: agentContext.shape,
    // Who starts a conversation says which skills it has.
    without: [
      'skills',
      'load_user_skills',
      'load_public_skills',
      'marketplace_path',
      'registered_marketplaces',
      'load_project_skills',
      'disabled_skills',
      'secrets',
      'current_datetime',
    ],
    looks: {
      system_message_suffix: {
        label: 'Instructions',
        description: 'What every agent is told after the system prompt.',
        prominence: 'critical',
      },
      user_message_suffix: {
        label: 'Reminder',
        description: 'What is said after each message of the user.',
      },
    },
  },
  {
    key: 'condenser',
    label: 'Condenser',
    prefix: 'condenser.',
    shape: condenserSettings.shape,
    without: [],
    looks: {
      enabled: {
        label: 'Enable condenser',
        description: 'Sum up the beginning of long conversations.',
        prominence: 'critical',
      },
      condenser_kind: { label: 'Kind', depends_on: condensing },
      max_size: {
        description: 'Events after which a conversation is summed up.',
        prominence: 'major',
        depends_on: condensing,
      },
      max_tokens: { description: 'Tokens after which it is.', prominence: 'major', depends_on: condensing },
      keep_first: { description: 'Events at the beginning that stay as they are.', depends_on: condensing },
      minimum_progress: { depends_on: condensing },
      hard_context_reset_max_retries: { depends_on: condensing },
      hard_context_reset_context_scaling: { depends_on: condensing },
    },
  },
  {
    key: 'verification',
    label: 'Verification',
    prefix: 'verification.',
    shape: verificationSettings.shape,
    without: [],
    looks: {
      critic_enabled: {
        label: 'Enable critic',
        description: 'Have another model judge what the agent has done.',
        prominence: 'critical',
      },
      critic_mode: { description: 'What is judged.', prominence: 'major', depends_on: critic },
      enable_iterative_refinement: {
        label: 'Iterative refinement',
        description: 'Send the agent back to work when the critic is not satisfied.',
        prominence: 'major',
        depends_on: critic,
      },
      critic_threshold: { description: 'A judgement below it is not enough.', depends_on: refinement },
      max_refinement_iterations: { description: 'How often it is sent back.', depends_on: refinement },
      critic_server_url: {
        description: 'Address of what judges. Without one nothing does.',
        prominence: 'major',
        depends_on: critic,
      },
      critic_model_name: { depends_on: critic },
      critic_api_key: { prominence: 'major', depends_on: critic },
    },
  },
]

const conversationSections: readonly Section[] = [
  {
    key: 'general',
    label: 'General',
    prefix: '',
    shape: conversationSettings.shape,
    without: ['schema_version', 'confirmation_mode', 'security_analyzer'],
    looks: { max_iterations: { description: 'Steps that one run may take.', prominence: 'major' } },
  },
  {
    key: 'verification',
    label: 'Verification',
    prefix: '',
    shape: conversationSettings.shape,
    without: ['schema_version', 'max_iterations'],
    looks: {
      confirmation_mode: { description: 'Ask before the agent acts.', prominence: 'critical' },
      security_analyzer: {
        description: 'What tells how risky an action is.',
        prominence: 'major',
        depends_on: ['confirmation_mode'],
      },
    },
  },
]

/** The form for the settings of agents. */
export function agentSettingsSchema(): SettingsSchema {
  return formOf('OpenHandsAgentSettings', agentSections, agentSettings.parse({}), variant)
}

/** The form for the settings of conversations. */
export function conversationSettingsSchema(): SettingsSchema {
  return formOf('ConversationSettings', conversationSections, conversationSettings.parse({}), null)
}

/** Members of the settings that no form shows. */
export function notInForms(): string[] {
  const all = [...agentSections, ...conversationSections]
  return all.flatMap(({ prefix, without }) => without.map((name) => `${prefix}${name}`))
}

function formOf(
  model_name: string,
  sections: readonly Section[],
  defaults: object,
  variant: string | null,
): SettingsSchema {
  return {
    model_name,
    sections: sections.map((section) => {
      const shown = section.key === 'general' ? null : variant
      const names = Object.entries(section.shape).filter(([name]) => !section.without.includes(name))
      const within = section.prefix === '' ? defaults : Reflect.get(defaults, section.key)
      const fields = names.map(([name, schema]) => ({
        ...fieldOf(section, name, schema),
        default: Reflect.get(within, name) ?? null,
        variant: shown,
      }))
      return { key: section.key, label: section.label, variant: shown, fields }
    }),
  }
}

function fieldOf(
  section: Section,
  name: string,
  schema: z.ZodType,
): Omit<SettingsField, 'default' | 'variant'> {
  const { label, description, prominence, depends_on } = section.looks[name] ?? {}
  const printed = print(schema)
  return {
    key: `${section.prefix}${name}`,
    label: label ?? worded(name),
    description: description ?? printed.description ?? null,
    section: section.key,
    section_label: section.label,
    value_type: printed.type,
    prominence: prominence ?? 'minor',
    depends_on: [...(depends_on ?? [])],
    secret: schema === secretText,
    choices: (printed.enum ?? []).map((value) => ({ value, label: worded(value) })),
    required: name === 'model',
  }
}

const leaf = z.object({
  type: z.enum(['string', 'integer', 'number', 'boolean', 'array', 'object']),
  enum: z.array(z.string()).optional(),
  description: z.string().optional(),
})

/** The one type of a member, with null and transforms taken away. */
function print(schema: z.ZodType): z.output<typeof leaf> {
  const json = z.toJSONSchema(schema, { io: 'input' })
  const branches = [json, ...(json.anyOf ?? [])]
  const typed = branches.find((branch) => typeOf(branch) !== undefined) ?? {}
  return leaf.parse({ ...json, ...typed, type: typeOf(typed) })
}

function typeOf({ type }: z.core.JSONSchema.BaseSchema): string | undefined {
  return [type].flat().find((name) => name !== 'null')
}

const acronyms: Readonly<Record<string, string>> = {
  api: 'API',
  aws: 'AWS',
  id: 'ID',
  llm: 'LLM',
  url: 'URL',
}

/** `aws_access_key_id`: AWS access key ID. */
function worded(name: string): string {
  const words = name.split('_').map((word) => acronyms[word] ?? word)
  const text = words.join(' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}
