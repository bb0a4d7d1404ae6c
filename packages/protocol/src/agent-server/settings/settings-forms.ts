import * as z from 'zod'
import { agentContext } from '../agents/agent.ts'
import { llm, secretInput } from '../llm/llm.ts'
import {
  agentSettings,
  condenserSettings,
  conversationSettings,
  type SettingsField,
  type SettingsSchema,
  verificationSettings,
} from './settings.ts'

type Shape = Readonly<Record<string, z.ZodType>>

/** What a form adds to the schema of a field. */
interface FieldDisplay {
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
  /** Fields that are not in the form. */
  readonly excluded: readonly string[]
  readonly display: Readonly<Record<string, FieldDisplay>>
  /** The switch of the section: its other fields depend on it. */
  readonly enabledBy?: string
}

const refinementDependency = ['verification.enable_iterative_refinement']
const agentVariant = 'openhands'

const agentSections: readonly Section[] = [
  {
    key: 'general',
    label: 'General',
    prefix: '',
    shape: agentSettings.shape,
    excluded: [
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
    display: {
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
    excluded: ['fallback_strategy', 'script', 'usage_id'],
    display: {
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
    excluded: [
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
    display: {
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
    enabledBy: 'enabled',
    excluded: [],
    display: {
      enabled: {
        label: 'Enable condenser',
        description: 'Sum up the beginning of long conversations.',
        prominence: 'critical',
      },
      condenser_kind: { label: 'Kind' },
      max_size: { description: 'Events after which a conversation is summed up.', prominence: 'major' },
      max_tokens: { description: 'Tokens after which it is.', prominence: 'major' },
      keep_first: { description: 'Events at the beginning that stay as they are.' },
    },
  },
  {
    key: 'verification',
    label: 'Verification',
    prefix: 'verification.',
    shape: verificationSettings.shape,
    enabledBy: 'critic_enabled',
    excluded: [],
    display: {
      critic_enabled: {
        label: 'Enable critic',
        description: 'Have another model judge what the agent has done.',
        prominence: 'critical',
      },
      critic_mode: { description: 'What is judged.', prominence: 'major' },
      enable_iterative_refinement: {
        label: 'Iterative refinement',
        description: 'Send the agent back to work when the critic is not satisfied.',
        prominence: 'major',
      },
      critic_threshold: {
        description: 'A judgement below it is not enough.',
        depends_on: refinementDependency,
      },
      max_refinement_iterations: {
        description: 'How often it is sent back.',
        depends_on: refinementDependency,
      },
      critic_server_url: {
        description: 'Address of what judges. Without one nothing does.',
        prominence: 'major',
      },
      critic_api_key: { prominence: 'major' },
    },
  },
]

const conversationSections: readonly Section[] = [
  {
    key: 'general',
    label: 'General',
    prefix: '',
    shape: conversationSettings.shape,
    excluded: ['schema_version', 'confirmation_mode', 'security_analyzer'],
    display: { max_iterations: { description: 'Steps that one run may take.', prominence: 'major' } },
  },
  {
    key: 'verification',
    label: 'Verification',
    prefix: '',
    shape: conversationSettings.shape,
    excluded: ['schema_version', 'max_iterations'],
    display: {
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
  return buildForm('OpenHandsAgentSettings', agentSections, agentSettings.parse({}), agentVariant)
}

/** The form for the settings of conversations. */
export function conversationSettingsSchema(): SettingsSchema {
  return buildForm('ConversationSettings', conversationSections, conversationSettings.parse({}), null)
}

/** Members of the settings that no form shows. */
export function excludedSettings(): string[] {
  const all = [...agentSections, ...conversationSections]
  return all.flatMap(({ prefix, excluded }) => excluded.map((name) => `${prefix}${name}`))
}

function buildForm(
  model_name: string,
  sections: readonly Section[],
  defaults: object,
  variant: string | null,
): SettingsSchema {
  return {
    model_name,
    sections: sections.map((section) => {
      const sectionVariant = section.key === 'general' ? null : variant
      const includedFields = Object.entries(section.shape).filter(
        ([name]) => !section.excluded.includes(name),
      )
      const sectionDefaults = section.prefix === '' ? defaults : Reflect.get(defaults, section.key)
      const fields = includedFields.map(([name, schema]) => ({
        ...buildField(section, name, schema),
        default: Reflect.get(sectionDefaults, name) ?? null,
        variant: sectionVariant,
      }))
      return { key: section.key, label: section.label, variant: sectionVariant, fields }
    }),
  }
}

function buildField(
  section: Section,
  name: string,
  schema: z.ZodType,
): Omit<SettingsField, 'default' | 'variant'> {
  const { label, description, prominence, depends_on = [] } = section.display[name] ?? {}
  const { enabledBy = name } = section
  const enabling = enabledBy === name ? [] : [`${section.prefix}${enabledBy}`]
  const jsonType = describeType(schema)
  return {
    key: `${section.prefix}${name}`,
    label: label ?? humanize(name),
    description: description ?? jsonType.description ?? null,
    section: section.key,
    section_label: section.label,
    value_type: jsonType.type,
    prominence: prominence ?? 'minor',
    depends_on: [...enabling, ...depends_on],
    secret: schema === secretInput,
    choices: (jsonType.enum ?? []).map((value) => ({ value, label: humanize(value) })),
    required: name === 'model',
  }
}

const fieldType = z.object({
  type: z.enum(['string', 'integer', 'number', 'boolean', 'array', 'object']),
  enum: z.array(z.string()).optional(),
  description: z.string().optional(),
})

/** The type of a member without null and transforms. */
function describeType(schema: z.ZodType): z.output<typeof fieldType> {
  const json = z.toJSONSchema(schema, { io: 'input' })
  const branches = [json, ...(json.anyOf ?? [])]
  const typed = branches.find((branch) => nonNullType(branch) !== undefined) ?? {}
  return fieldType.parse({ ...json, ...typed, type: nonNullType(typed) })
}

function nonNullType({ type }: z.core.JSONSchema.BaseSchema): string | undefined {
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
function humanize(name: string): string {
  const words = name.split('_').map((word) => acronyms[word] ?? word)
  const text = words.join(' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}
