import { expect, test } from 'vitest'
import { agentContext } from '../agents/agent.ts'
import { llm } from '../llm/llm.ts'
import {
  acpAgentSettings,
  agentSettings,
  condenserSettings,
  conversationSettings,
  verificationSettings,
} from './settings.ts'
import settingsForms from './settings-forms.json' with { type: 'json' }
import { agentSettingsSchema, conversationSettingsSchema } from './settings-forms.ts'

const forms = [agentSettingsSchema(), conversationSettingsSchema()]
const fields = forms.flatMap(({ sections }) => sections.flatMap((section) => section.fields))
const prefixedNames = (prefix: string, shape: object) => Object.keys(shape).map((name) => `${prefix}${name}`)

test('every member of the settings is a field of a form or named as one that no form shows, and every field is a member', () => {
  const members = [
    ...prefixedNames('', agentSettings.shape),
    ...prefixedNames('', acpAgentSettings.shape),
    ...prefixedNames('llm.', llm.shape),
    ...prefixedNames('agent_context.', agentContext.shape),
    ...prefixedNames('condenser.', condenserSettings.shape),
    ...prefixedNames('verification.', verificationSettings.shape),
    ...prefixedNames('', conversationSettings.shape),
  ]
  const keys = fields.map(({ key }) => key)
  const excluded = [
    ...settingsForms.agent.flatMap(({ key, excluded }) =>
      excluded.map((name) => (['general', 'acp'].includes(key) ? name : `${key}.${name}`)),
    ),
    ...settingsForms.conversation.flatMap(({ excluded }) => excluded),
  ]
  expect(new Set(keys).size).toBe(keys.length)
  expect([...new Set([...keys, ...excluded])].sort()).toEqual([...new Set(members)].sort())
})

test('the value of a field has the type and the choices that the form says', () => {
  const model = fields.find(({ key }) => key === 'llm.model')
  expect(model).toMatchObject({ value_type: 'string', prominence: 'critical', required: true, secret: false })
  expect(fields.find(({ key }) => key === 'llm.api_key')).toMatchObject({ secret: true, default: null })
  for (const { default: usual, value_type, choices, key } of fields) {
    const types = { string: 'string', integer: 'number', number: 'number', boolean: 'boolean' }
    const type = value_type === 'array' || value_type === 'object' ? 'object' : types[value_type]
    if (usual !== null) expect([key, typeof usual]).toEqual([key, type])
    if (choices.length > 0 && usual !== null) expect(choices.map(({ value }) => value)).toContain(usual)
  }
})

test('what another field turns on names that field', () => {
  const keys = fields.map(({ key }) => key)
  for (const { depends_on } of fields) for (const key of depends_on) expect(keys).toContain(key)
  expect(fields.filter(({ depends_on }) => depends_on.length > 0).length).toBeGreaterThan(10)
})

test('every section has fields, and each of its fields names it', () => {
  for (const { sections } of forms)
    for (const { key, label, variant, fields } of sections) {
      expect(fields.length).toBeGreaterThan(0)
      for (const field of fields) expect(field).toMatchObject({ section: key, section_label: label, variant })
    }
})

test('settings with nothing, nulls or the older name of the kind are the defaults', () => {
  const defaults = agentSettings.parse({})
  const nulls = Object.fromEntries(Object.keys(agentSettings.shape).map((name) => [name, null]))
  expect(agentSettings.parse(nulls)).toEqual(defaults)
  expect(agentSettings.parse({ agent_kind: 'llm', schema_version: 3, llm: { model: null } })).toEqual(
    defaults,
  )
  expect(agentSettings.parse(defaults)).toEqual(defaults)
  const unknown = { later: { a: [1] } }
  expect(agentSettings.parse(unknown)).toEqual({ ...defaults, ...unknown })
})
