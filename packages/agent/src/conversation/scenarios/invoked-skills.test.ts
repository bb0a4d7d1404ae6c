import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readPlugin } from '../../plugins/plugin.ts'
import type { ConversationState } from '../state/state.ts'
import {
  ConversationFixtures,
  contentText,
  FakeModel,
  type TestConversation,
  type TestConversationOptions,
} from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(() => fixtures[Symbol.asyncDispose]())

const folder = { name: 'release', content: 'Read the commits.', is_agentskills_format: true }
const hidden = { ...folder, name: 'hidden', content: 'Hidden.', disable_model_invocation: true }
const always = { name: 'always', content: 'Always on.' }

/** A conversation of the wire `current` without tools, whose model calls skills by these names. */
async function open(names: readonly string[], skills: readonly object[], more: TestConversationOptions = {}) {
  const model = new FakeModel(names.map((name) => ({ calls: [['invoke_skill', { name }] as const] })))
  const agent = { tools: [], agent_context: { skills } }
  const life = await fixtures.create({ model: model.open, wire: 'current', agent, ...more })
  const toolNames = () => model.requests.map(({ tools }) => tools.map(({ name }) => name))
  return { life, toolNames }
}

async function results(life: TestConversation) {
  const events = await life.eventsOfKind('ObservationEvent')
  return events.map(({ observation }) => ({ ...observation, text: contentText(observation.content) }))
}

const invoked = ({ invokedSkills }: ConversationState) => [...invokedSkills]

test('an agent without tools calls its skills by name, and the state says which', async () => {
  const { life, toolNames } = await open(['release', 'hidden', 'none', ' release '], [folder, hidden, always])
  await life.sendAndWait('Go.')
  expect(toolNames()[0]).toEqual(['finish', 'think', 'invoke_skill'])
  const [prompt] = await life.eventsOfKind('SystemPromptEvent')
  expect(prompt?.dynamic_context?.text).toContain('call `invoke_skill`')
  expect(prompt?.dynamic_context?.text).toContain('- release')
  expect(prompt?.dynamic_context?.text).not.toContain('hidden')
  expect(await results(life)).toMatchObject([
    { kind: 'InvokeSkillObservation', is_error: false, skill_name: 'release' },
    { is_error: true, skill_name: 'hidden', text: expect.stringContaining('Only the user starts') },
    { is_error: true, skill_name: 'none', text: 'There is no skill "none". Skills: release.' },
    { is_error: false, skill_name: 'release' },
  ])
  expect((await results(life))[0]?.text).toContain('<skill name="release">\nRead the commits.\n</skill>')
  expect(JSON.stringify(await results(life))).not.toContain('Hidden.')
  expect(invoked(life.conversation.state)).toEqual(['release'])
  expect(invoked((await life.reopen()).state)).toEqual(['release'])
})

test.each<[string, readonly object[], TestConversationOptions]>([
  ['of the wire seed', [folder], { wire: 'seed' }],
  ['whose skills are in the prompt, or started by users alone', [hidden, always], {}],
])('a conversation %s has no such tool', async (_, skills, more) => {
  const { life, toolNames } = await open(['release'], skills, more)
  await life.sendAndWait('Go.')
  expect(toolNames()[0]).toEqual(['finish', 'think'])
  expect(invoked(life.conversation.state)).toEqual([])
})

test('a conversation of the wire seed has it when it names it', async () => {
  const agent = { tools: [{ name: 'InvokeSkillTool' }], agent_context: { skills: [folder] } }
  const { life } = await open(['release'], [], { wire: 'seed', agent })
  await life.sendAndWait('Go.')
  expect(await results(life)).toMatchObject([{ is_error: false, skill_name: 'release' }])
})

test('the first skill of a plugin brings the tool', async () => {
  const directory = join(fixtures.directory, 'plugin')
  const files = {
    '.claude-plugin/plugin.json': '{"name": "harbour"}',
    'skills/tides/SKILL.md': '---\nname: tides\ndescription: About tides.\n---\nRead the table.\n',
  }
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(directory, name, '..'), { recursive: true })
    await writeFile(join(directory, name), text)
  }
  const none = { plugins: [], installed: [], others: [], hasPublic: false, issues: [] }
  const { life, toolNames } = await open(['tides'], [], {
    request: { plugins: [{ source: directory }] },
    deps: {
      extensions: {
        loadCommon: async () => none,
        async loadPlugin(source, signal) {
          const plugin = await readPlugin(source.source, signal)
          if ('issue' in plugin) throw new Error(plugin.issue)
          return { plugin, pinned: source }
        },
      },
    },
  })
  await life.sendAndWait('Go.')
  expect(toolNames()[0]).toContain('invoke_skill')
  const [{ text } = { text: '' }] = await results(life)
  expect(text).toContain('Read the table.')
  expect(text).toContain(`Relative paths in it start at its folder ${directory}/skills/tides.`)
})
