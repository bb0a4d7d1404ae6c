import { mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConversationFixtures, contentText, FakeModel } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(async () => {
  await fixtures[Symbol.asyncDispose]()
})

const files: Readonly<Record<string, string>> = {
  'AGENTS.md': 'Root rules.',
  'web/AGENTS.md': 'Web rules.',
  'web/deep/er/a.ts': 'a',
  'web/deep/b.ts': 'b',
  'api/AGENTS.md': 'Api rules.',
  'api/c.ts': 'c',
  'big/AGENTS.md': `Big rules. ${'x'.repeat(40_000)}`,
  'big/d.ts': 'd',
}

async function open(paths: readonly string[], context?: object) {
  const model = new FakeModel(paths.map((path) => ({ calls: [['read_file', { file_path: path }] as const] })))
  const agent = { tools: [{ name: 'read_file' }], ...(context && { agent_context: context }) }
  const life = await fixtures.create({ model: model.open, agent })
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(life.workspace, name, '..'), { recursive: true })
    await writeFile(join(life.workspace, name), text)
  }
  return { life, model }
}

test('the AGENTS.md nearest to a touched file comes with its first result, the root one with the prompt', async () => {
  const { life, model } = await open(['web/deep/er/a.ts', 'web/deep/b.ts', 'api/c.ts', 'AGENTS.md'])
  await life.sendAndWait('Look.')
  const [prompt] = await life.eventsOfKind('SystemPromptEvent')
  expect(prompt?.dynamic_context?.text).toContain('Root rules.')
  const results = (await life.eventsOfKind('ObservationEvent')).map(({ observation }) =>
    contentText(observation.content as object[]),
  )
  const named = results.map((text) => ['Web rules.', 'Api rules.'].filter((rules) => text.includes(rules)))
  expect(named).toEqual([['Web rules.'], [], ['Api rules.'], []])
  expect(results[0]).toContain('<instructions source="web/AGENTS.md">')
  expect(JSON.stringify(model.requests[1]?.messages.at(-1))).toContain('Web rules.')
})

test('all AGENTS.md and CLAUDE.md on the way to a file come once, the outermost first, also to reads of one reply', async () => {
  const model = new FakeModel([
    {
      calls: ['web/deep/er/a.ts', 'web/deep/b.ts'].map((file_path) => ['read_file', { file_path }] as const),
    },
  ])
  const life = await fixtures.create({ model: model.open, agent: { tools: [{ name: 'read_file' }] } })
  const more = {
    'web/deep/CLAUDE.md': 'Deep rules.',
    'web/CLAUDE.md': '@AGENTS.md\n',
    'web/deep/er/AGENTS.md': 'Deeper rules.',
  }
  for (const [name, text] of Object.entries({ ...files, ...more })) {
    await mkdir(join(life.workspace, name, '..'), { recursive: true })
    await writeFile(join(life.workspace, name), text)
  }
  await life.sendAndWait('Look.')
  const results = (await life.eventsOfKind('ObservationEvent')).map(({ observation }) =>
    contentText(observation.content as object[]),
  )
  const rules = results.map((text) => [...text.matchAll(/[A-Z]\w+ rules\./g)].map(String))
  expect(rules.flat().sort()).toEqual(['Deep rules.', 'Deeper rules.', 'Web rules.'])
  expect(rules.find((list) => list.includes('Deeper rules.'))?.at(-1)).toBe('Deeper rules.')
  expect(results.join()).not.toContain('@AGENTS.md')
})

test('CLAUDE.md of the root, and what a repository says above the workspace, are in the prompt from the outermost on', async () => {
  const life = await fixtures.create({})
  const above = join(life.workspace, '..')
  await mkdir(join(above, '.git'))
  await writeFile(join(above, 'AGENTS.md'), 'Rules of the repository.')
  await writeFile(join(above, '..', 'AGENTS.md'), 'Rules of nobody.')
  await writeFile(join(life.workspace, 'AGENTS.md'), 'Rules of the package.')
  await writeFile(join(life.workspace, 'CLAUDE.md'), 'Rules of Claude.')
  await life.sendAndWait('Look.')
  const prompts = await life.eventsOfKind('SystemPromptEvent')
  expect(prompts[0]?.dynamic_context?.text.match(/Rules of .*/g)).toEqual([
    ...['Rules of the repository.', 'Rules of the package.', 'Rules of Claude.'],
  ])
  expect(prompts[0]?.dynamic_context?.text).toContain('<instructions source="../AGENTS.md">')
  const data = await fixtures.create({ deps: { server: { directories: [above], port: () => undefined } } })
  await data.sendAndWait('Look.')
  expect(JSON.stringify(await data.eventsOfKind('SystemPromptEvent'))).not.toContain(
    'Rules of the repository',
  )
  const off = await fixtures.create({ agent: { agent_context: { disabled_skills: ['agents'] } } })
  await off.sendAndWait('Look.')
  expect(JSON.stringify(await off.eventsOfKind('SystemPromptEvent'))).not.toContain('Rules of the repository')
  await rm(join(above, '.git'), { recursive: true })
})

test('they are bounded, and files that lead out of the workspace are not read', async () => {
  const { life } = await open(['big/d.ts', 'out/e.ts'])
  await mkdir(join(life.workspace, 'out'))
  await writeFile(join(fixtures.directory, 'secret.md'), 'Outside.')
  await symlink(join(fixtures.directory, 'secret.md'), join(life.workspace, 'out/AGENTS.md'))
  await writeFile(join(life.workspace, 'out/e.ts'), 'e')
  await life.sendAndWait('Look.')
  const [big, out] = (await life.eventsOfKind('ObservationEvent')).map(({ observation }) =>
    contentText(observation.content as object[]),
  )
  expect(big).toContain('Big rules.')
  expect(big).toContain('The rest does not fit here')
  expect(big?.length).toBeLessThan(34_000)
  expect(out).not.toContain('Outside.')
})

test('an agent whose context disables the skill `agents` gets none of them', async () => {
  const { life } = await open(['web/deep/b.ts'], { disabled_skills: ['agents'] })
  await life.sendAndWait('Look.')
  expect(JSON.stringify(await life.events())).not.toMatch(/(Root|Web) rules/)
})
