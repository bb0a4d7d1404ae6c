import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { beforeEach, expect, test } from 'vitest'
import { agentIssue } from '../conversation/tasks/settings.ts'
import { FrontMatterBudget } from '../skills/front-matter.ts'
import { availableToolNames } from '../tools/registry.ts'
import { findAgents, readAgentDefinitions } from './find-agents.ts'
import { parseAgent } from './parse-agent.ts'

let directory: string
let project: string
let homeDirectory: string
beforeEach(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-agents-')))
  project = join(directory, 'project')
  homeDirectory = join(directory, 'home')
  await mkdir(project)
  await mkdir(homeDirectory)
  return () => rm(directory, { recursive: true, force: true })
})

async function put(path: string, text: string | Buffer): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, text)
}

const parse = (text: string) =>
  parseAgent({ text, name: 'file-name', level: 'project', source: '/x.md' }, new FrontMatterBudget())

test('a file is an agent: its members from the front matter, its prompt below', async () => {
  const read = await parse(`---
name: reviewer
description: Reads changes: all of them
model: strong
color: red
tools: grep, read_file
skills: [style]
when_to_use_examples:
  - After a change.
permission_mode: always_confirm
max_iteration_per_run: 7
max_budget_per_run: 0.5
mcp_servers:
  notes: { command: notes, env: { NOTES_KEY: k } }
hooks:
  PreToolUse:
    - { matcher: terminal, hooks: [{ command: check }] }
condenser: { kind: NoOpCondenser }
team: core
metadata: { since: 3 }
---

You review.
`)
  expect(read).toMatchObject({
    agent: {
      name: 'reviewer',
      description: 'Reads changes: all of them',
      model: 'strong',
      color: 'red',
      tools: ['grep', 'read_file'],
      skills: ['style'],
      system_prompt: 'You review.',
      source: '/x.md',
      level: 'project',
      when_to_use_examples: ['After a change.'],
      hooks: { pre_tool_use: [{ matcher: 'terminal' }], stop: [] },
      permission_mode: 'always_confirm',
      max_iteration_per_run: 7,
      max_budget_per_run: 0.5,
      mcp_config: { notes: { command: 'notes', env: { NOTES_KEY: 'k' } } },
      condenser: { kind: 'NoOpCondenser' },
      metadata: { team: 'core', since: 3 },
    },
  })
})

test('without front matter the name is that of the file, and everything else has its default', async () => {
  expect(await parse('Only a prompt.')).toEqual({
    agent: {
      name: 'file-name',
      description: '',
      model: 'inherit',
      tools: [],
      skills: [],
      system_prompt: 'Only a prompt.',
      source: '/x.md',
      level: 'project',
      when_to_use_examples: [],
      metadata: {},
    },
  })
})

test('examples in the description count as examples', async () => {
  const read = await parse(
    '---\ndescription: "Finds. <example>where is x</example> <example> </example>"\n---\n',
  )
  expect(read).toMatchObject({ agent: { when_to_use_examples: ['where is x'] } })
})

test.each([
  ['name: [1]', 'name'],
  ['name: "a\\"b"', 'name'],
  [`name: ${'x'.repeat(101)}`, 'name'],
  ['name: ""', 'name'],
  ['tools: 7', 'tools'],
  ['tools: [{ name: terminal }]', 'tools.0'],
  ['permission_mode: sometimes', 'permission_mode'],
  ['max_iteration_per_run: 0', 'max_iteration_per_run'],
  ['max_budget_per_run: -1', 'max_budget_per_run'],
  ['mcp_config: { a: {} }', 'mcp_config'],
  ['hooks: { nonesuch: [] }', 'hooks'],
  ['condenser: { kind: Other }', 'condenser'],
])('a bad member is named, and makes no agent: %s', async (line, place) => {
  const read = await parse(`---\n${line}\n---\nPrompt.`)
  expect(read).toHaveProperty('issue', expect.stringContaining(`has a bad member ${place}`))
})

test('no text makes the reader throw', async () => {
  const line = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('name: &a [*a]', 'tools: null', 'metadata: 3', '---', '__proto__: {x: 1}', 'hooks:'),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(line, { maxLength: 6 }), async (lines) => {
      const read = await parse(['---', ...lines, '---', 'P'].join('\n'))
      expect('agent' in read ? typeof read.agent.name : typeof read.issue).toBe('string')
    }),
  )
})

test('of one name that of the project counts, then that of the user, then that of the server', async () => {
  const agent = (model: string) => `---\nmodel: ${model}\n---\n`
  await put(join(project, '.agents/agents/a.md'), agent('project-agents'))
  await put(join(project, '.openhands/agents/a.md'), agent('project-openhands'))
  await put(join(project, '.openhands/agents/b.md'), agent('project-openhands'))
  await put(join(homeDirectory, '.agents/agents/b.md'), agent('user-agents'))
  await put(join(homeDirectory, '.openhands/agents/c.md'), agent('user-openhands'))
  await put(join(homeDirectory, '.agents/agents/bash-runner.md'), agent('user-agents'))
  const plugin = join(directory, 'plugin')
  await put(join(plugin, 'agents/c.md'), agent('of-the-plugin'))
  await put(join(plugin, 'agents/d.md'), agent('of-the-plugin'))
  const { agents, issues } = await findAgents({
    project,
    homeDirectory,
    plugins: [plugin],
    isBuiltin: true,
  })
  expect(agents.map(({ name, model, level }) => `${name} ${model} ${level}`)).toEqual([
    'a project-agents project',
    'b project-openhands project',
    'bash-runner user-agents user',
    'c user-openhands user',
    'd of-the-plugin plugin',
    'general-purpose inherit builtin',
    'code-explorer inherit builtin',
    'web-researcher inherit builtin',
  ])
  expect(issues).toEqual([])
  expect((await findAgents({})).agents).toEqual([])
  expect((await findAgents({ project: join(directory, 'nowhere') })).agents).toEqual([])
})

test('invalid agent files are skipped and reported, and the others are found', async () => {
  const folder = join(project, '.agents/agents')
  await put(join(folder, 'good.md'), 'Good.')
  await put(join(folder, 'README.md'), 'About.')
  await put(join(folder, 'notes.txt'), 'Notes.')
  await put(join(folder, 'deeper/other.md'), 'Deeper.')
  await put(join(folder, 'binary.md'), Buffer.from([0, 1, 2]))
  await put(join(folder, 'latin.md'), Buffer.from([0xe9, 0x20]))
  await put(join(folder, 'large.md'), 'x'.repeat(256 * 1024 + 1))
  await put(join(folder, 'yaml.md'), '---\na: [\n---\n')
  await put(join(directory, 'secret.md'), 'Secret.')
  await symlink(join(directory, 'secret.md'), join(folder, 'out.md'))
  await symlink(join(folder, 'good.md'), join(folder, 'same.md'))
  execFileSync('mkfifo', [join(folder, 'pipe.md')])
  const { agents, issues } = await findAgents({ project })
  expect(agents.map(({ name }) => name)).toEqual(['good', 'same'])
  const said = issues.map((issue) => issue.replace(/^.*\/([^/]+\.md): /, '$1 ')).sort()
  expect(said).toEqual([
    'binary.md is a binary file',
    'large.md is larger than 256 KiB',
    'latin.md is not UTF-8 text',
    'out.md leads out of the workspace',
    'pipe.md is not a file',
    expect.stringContaining('yaml.md has front matter that is not YAML'),
  ])
})

test('a folder of agents that leads out of the workspace is not entered', async () => {
  await put(join(directory, 'elsewhere/agents/spy.md'), 'Spy.')
  await symlink(join(directory, 'elsewhere'), join(project, '.agents'))
  const { agents, issues } = await findAgents({ project })
  expect(agents).toEqual([])
  expect(issues).toEqual([expect.stringContaining('leads out of the workspace')])
})

test('at most 200 agents are read', async () => {
  const folder = join(directory, 'many')
  for (let at = 0; at < 210; at++) await put(join(folder, `a${at}.md`), 'x')
  const { agents, issues } = await readAgentDefinitions(folder)
  expect([agents.length, issues.length]).toEqual([200, 10])
  expect(agents[0]?.level).toBe('plugin')
})

test('the agents of the server have all that a model must know, and tools that are there', async () => {
  const { agents } = await findAgents({ isBuiltin: true })
  expect(agents.map(({ name }) => name)).toEqual([
    'general-purpose',
    'code-explorer',
    'bash-runner',
    'web-researcher',
  ])
  expect((await availableToolNames()).length).toBeGreaterThan(0)
  for (const agent of agents) {
    expect(agent).toMatchObject({ level: 'builtin', model: 'inherit', source: undefined })
    expect(agentIssue(agent)).toBeUndefined()
    for (const text of [agent.description, agent.system_prompt]) expect(text.length).toBeGreaterThan(60)
    expect(agent.when_to_use_examples.length).toBeGreaterThan(0)
    expect(agent.tools.length).toBeGreaterThan(0)
  }
})
