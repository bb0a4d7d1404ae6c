import * as z from 'zod'
import { agentContext } from '../agents/agent.ts'
import { llm, secretInput } from '../llm/llm.ts'
import {
  acpAgentSettings,
  agentSettings,
  condenserSettings,
  conversationSettings,
  type SettingsField,
  type SettingsSchema,
  verificationSettings,
} from './settings.ts'
import forms from './settings-forms.json' with { type: 'json' }

/**
 * A section of `settings-forms.json`. `excluded`: fields that are not in the form. `display`: what the form
 * adds to the schema of a field. `enabledBy`: the switch of the section, on which its other fields depend.
 */
const sectionSchema = z.object({
  key: z.string(),
  label: z.string(),
  excluded: z.array(z.string()),
  enabledBy: z.string().optional(),
  display: z.record(
    z.string(),
    z.object({
      label: z.string().optional(),
      description: z.string().optional(),
      prominence: z.enum(['critical', 'major']).optional(),
      depends_on: z.array(z.string()).default([]),
    }),
  ),
})
type Section = z.output<typeof sectionSchema>
type Shape = Readonly<Record<string, z.ZodType>>

/** The members of agent settings that are their own sections. */
const agentSections: Readonly<Record<string, Shape>> = {
  llm: llm.shape,
  agent_context: agentContext.shape,
  condenser: condenserSettings.shape,
  verification: verificationSettings.shape,
}

const topLevel = { prefix: '', variant: null }
const acpPlace = { prefix: '', variant: 'acp' }
const acpDefaults = acpAgentSettings.parse({ agent_kind: 'acp' })

/** The form for the settings of agents of both kinds. */
export function agentSettingsSchema(): SettingsSchema {
  const { llm: model, ...others } = agentSettings.parse({})
  // Unset it is true, and answers say so.
  const defaults = { ...others, llm: { ...model, native_tool_calling: true } }
  const sections = forms.agent.map((input) => {
    const section = sectionSchema.parse(input)
    const { key } = section
    if (key === 'acp') return buildSection(section, acpAgentSettings.shape, acpDefaults, acpPlace)
    const shape = agentSections[key]
    if (shape === undefined) return buildSection(section, agentSettings.shape, defaults, topLevel)
    const place = { prefix: `${key}.`, variant: 'openhands' }
    return buildSection(section, shape, Object(Reflect.get(defaults, key)), place)
  })
  return { model_name: 'AgentSettings', sections }
}

/** The form for the settings of conversations. */
export function conversationSettingsSchema(): SettingsSchema {
  const defaults = conversationSettings.parse({})
  const sections = forms.conversation.map((input) =>
    buildSection(sectionSchema.parse(input), conversationSettings.shape, defaults, topLevel),
  )
  return { model_name: 'ConversationSettings', sections }
}

/** `prefix` precedes the names of the fields: `llm.`. */
function buildSection(
  section: Section,
  shape: Shape,
  defaults: object,
  { prefix, variant }: { readonly prefix: string; readonly variant: string | null },
): SettingsSchema['sections'][number] {
  const { key, label, excluded } = section
  const fields = Object.entries(shape)
    .filter(([name]) => !excluded.includes(name))
    .map(([name, schema]) => ({
      ...buildField(section, prefix, name, schema),
      default: Reflect.get(defaults, name) ?? null,
      variant,
    }))
  return { key, label, variant, fields }
}

function buildField(
  section: Section,
  prefix: string,
  name: string,
  schema: z.ZodType,
): Omit<SettingsField, 'default' | 'variant'> {
  const { label, description, prominence, depends_on = [] } = section.display[name] ?? {}
  const { enabledBy = name } = section
  const enabling = enabledBy === name ? [] : [`${prefix}${enabledBy}`]
  const jsonType = describeType(schema)
  return {
    key: `${prefix}${name}`,
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
