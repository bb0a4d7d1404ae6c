import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { agent } from '@slipway/protocol'
import fc from 'fast-check'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import type { LoadedSkills } from './collector.ts'
import { FrontMatterBudget } from './front-matter.ts'
import { loadSkills } from './load.ts'
import { parseSkill } from './parse.ts'

const neverAborted = new AbortController().signal
let directory = ''
let homeDirectory = ''

beforeEach(async () => {
  const base = await mkdtemp(join(tmpdir(), 'slipway-skills-'))
  directory = join(base, 'work')
  homeDirectory = join(base, 'home')
  await mkdir(directory)
  await mkdir(homeDirectory)
  onTestFinished(async () => await rm(base, { recursive: true, force: true }))
})

async function write(path: string, text: string | Buffer): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, text)
}

async function loadTestSkills(
  context: Record<string, unknown> = { load_project_skills: true },
): Promise<LoadedSkills> {
  const { agent_context } = agent.parse({ llm: { model: 'scripted/x' }, agent_context: context })
  return await loadSkills({ directory, homeDirectory, context: agent_context }, neverAborted)
}

function withFrontMatter(members: string, body = 'Do it.'): string {
  return `---\n${members}\n---\n${body}\n`
}

test('an AgentSkill is loaded with all that its front matter and its folder say', async () => {
  const root = join(directory, '.agents/skills/pdf-tools')
  await write(
    join(root, 'SKILL.md'),
    withFrontMatter(
      [
        'name: pdf-tools',
        'description: >-',
        '  Reads and',
        '  writes PDF files.',
        'triggers: [pdf, "/pdf"]',
        'paths:',
        '  - "**/*.pdf"',
        'inputs:',
        '  - {name: file, description: Which file}',
        'allowed-tools: Read Bash(git:*)',
        'disable-model-invocation: true',
      ].join('\r\n'),
      '# PDF\r\n\r\nRun `scripts/run.sh`.',
    ),
  )
  await write(join(root, 'scripts/run.sh'), 'true')
  await write(join(root, 'scripts/more/deep.sh'), 'true')
  await write(join(root, 'references/a.md'), 'a')
  const { skills, issues } = await loadTestSkills()
  expect(issues).toEqual([])
  expect(skills).toEqual([
    {
      name: 'pdf-tools',
      content: '# PDF\n\nRun `scripts/run.sh`.',
      description: 'Reads and writes PDF files.',
      keywords: ['pdf'],
      commands: ['/pdf', '/pdf-tools'],
      paths: ['**/*.pdf'],
      inputs: [{ name: 'file', description: 'Which file' }],
      allowedTools: ['Read', 'Bash(git:*)'],
      isAgentSkill: true,
      isModelInvocable: false,
      origin: 'project',
      source: '.agents/skills/pdf-tools/SKILL.md',
      file: join(root, 'SKILL.md'),
      resources: {
        scripts: ['scripts/run.sh', 'scripts/more/deep.sh'],
        references: ['references/a.md'],
        assets: [],
      },
    },
  ])
})

test('root files of the workspace are skills in a fixed order, ignoring case, and equal texts once', async () => {
  await write(join(directory, 'GEMINI.md'), 'gemini')
  await write(join(directory, 'Agents.MD'), 'agents')
  await write(join(directory, '.cursorrules'), 'cursor')
  await symlink('Agents.MD', join(directory, 'CLAUDE.md'))
  const { skills } = await loadTestSkills()
  expect(skills.map(({ name, content }) => [name, content])).toEqual([
    ['agents', 'agents'],
    ['cursorrules', 'cursor'],
    ['gemini', 'gemini'],
  ])
})

test('skills of the older form are single Markdown files, deeper ones in the oldest place only', async () => {
  await write(join(directory, '.openhands/microagents/repo.md'), 'Always.')
  await write(join(directory, '.openhands/microagents/sub/npm.md'), withFrontMatter('triggers: npm'))
  await write(join(directory, '.openhands/microagents/README.md'), 'no')
  await write(
    join(directory, '.openhands/skills/loose.md'),
    withFrontMatter('name: Loose One\ntype: knowledge\ntriggers: [x]'),
  )
  await write(join(directory, '.agents/skills/notes/anything.md'), 'no skill')
  const { skills, issues } = await loadTestSkills()
  expect(issues).toEqual([])
  expect(skills.map(({ name, keywords }) => [name, keywords])).toEqual([
    ['Loose One', ['x']],
    ['repo', []],
    ['npm', ['npm']],
  ])
})

test('the skill of the request goes before that of the project, and that before the user’s; what is disabled is missing', async () => {
  for (const [base, by] of [
    [directory, 'project'],
    [homeDirectory, 'user'],
  ] as const) {
    for (const name of ['a', 'b', 'off']) await write(join(base, `.agents/skills/${name}/SKILL.md`), by)
  }
  await write(join(homeDirectory, '.agents/skills/c/SKILL.md'), 'user')
  await write(join(homeDirectory, 'AGENTS.md'), 'no root file of a home is read')
  const { skills } = await loadTestSkills({
    skills: [{ name: 'a', content: 'request' }],
    load_project_skills: true,
    load_user_skills: true,
    disabled_skills: ['off'],
  })
  expect(skills.map(({ name, content, origin }) => [name, content, origin])).toEqual([
    ['a', 'request', 'request'],
    ['b', 'project', 'project'],
    ['c', 'user', 'user'],
  ])
})

test('only what the context asks for is loaded', async () => {
  await write(join(directory, 'AGENTS.md'), 'x')
  await write(join(homeDirectory, '.agents/skills/a/SKILL.md'), 'x')
  expect(await loadTestSkills({})).toEqual({ skills: [], issues: [] })
  expect((await loadTestSkills({ load_user_skills: true })).skills.map(({ name }) => name)).toEqual(['a'])
  expect(await loadSkills({ directory, homeDirectory, context: undefined }, neverAborted)).toEqual({
    skills: [],
    issues: [],
  })
  const [issue] = (await loadTestSkills({ load_public_skills: true })).issues
  expect(issue).toContain('load_public_skills')
})

test('a workspace that is missing has no skills', async () => {
  directory = join(directory, 'missing')
  expect(await loadTestSkills()).toEqual({ skills: [], issues: [] })
})

test.each([
  [
    'an alias that grows',
    'a: &a [x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b]\ndescription: *c',
    'aliases',
  ],
  ['deep nesting', `metadata: ${'['.repeat(15_000)}`, 'front matter'],
  ['broken YAML', 'triggers: [a', 'is not YAML'],
  ['no mapping', '- a\n- b', 'no mapping'],
  ['a name that is a number', 'name: 7', 'name that is no text'],
  ['a name in capitals', 'name: Bad', 'lower-case words'],
  ['a name with a double hyphen', 'name: a--b', 'lower-case words'],
  ['a name that leads elsewhere', 'name: ../../etc', 'lower-case words'],
  ['a long name', `name: ${'a'.repeat(65)}`, 'more than 64'],
  ['a description that is a list', 'description: [a]', 'description that is no text'],
  ['triggers of a wrong type', 'triggers: {a: b}', 'triggers'],
  ['triggers that are numbers', 'triggers: [1]', 'triggers'],
  ['paths of a wrong type', 'paths: [[a]]', 'paths'],
  ['inputs of a wrong type', 'inputs: [a]', 'inputs'],
  ['a switch that is a text', 'disable-model-invocation: "yes"', 'not true or false'],
  ['too much of it', `metadata: ${'x'.repeat(40_000)}`, 'more than 32768'],
] as const)('front matter with %s is an issue of that file only', async (_what, members, why) => {
  await write(join(directory, '.agents/skills/bad/SKILL.md'), withFrontMatter(members))
  await write(join(directory, '.agents/skills/good/SKILL.md'), withFrontMatter('name: good'))
  const { skills, issues } = await loadTestSkills()
  expect(skills.map(({ name }) => name)).toEqual(['good'])
  expect(issues).toHaveLength(1)
  expect(issues[0]).toMatch(/^\.agents\/skills\/bad\/SKILL\.md: has /)
  expect(issues[0]).toContain(why)
  expect(issues[0]).not.toContain('\n')
})

test('the front matter of a folder is parsed up to a limit; the own skills of the user are still read', async () => {
  for (let n = 0; n < 20; n++)
    await write(join(directory, `.agents/skills/s${n}.md`), withFrontMatter(`x: "${'x'.repeat(32_000)}"`))
  await write(join(homeDirectory, '.agents/skills/mine.md'), withFrontMatter('name: mine'))
  const { skills, issues } = await loadTestSkills({ load_project_skills: true, load_user_skills: true })
  expect(skills).toHaveLength(17)
  expect(skills.at(-1)?.name).toBe('mine')
  expect(issues).toHaveLength(4)
  expect(issues[0]).toMatch(/ is left out: the files of its folder have more than 524288 characters/)
})

test('unclosed front matter is an issue, and a member called __proto__ has no effect', async () => {
  await write(join(directory, '.agents/skills/open/SKILL.md'), '---\nname: open\n')
  await write(
    join(directory, '.agents/skills/proto/SKILL.md'),
    withFrontMatter('__proto__: {name: evil}\nconstructor: 1\nname: proto'),
  )
  const { skills, issues } = await loadTestSkills()
  expect(skills.map(({ name }) => name)).toEqual(['proto'])
  expect(issues[0]).toContain('not closed')
  expect(Object.getPrototypeOf({})).toBe(Object.prototype)
})

test('a description with an unquoted colon is understood, and a long one is cut', async () => {
  await write(
    join(directory, '.agents/skills/a/SKILL.md'),
    withFrontMatter('name: a\ndescription: Use when: always'),
  )
  await write(
    join(directory, '.agents/skills/b/SKILL.md'),
    withFrontMatter(`description: ${'😀'.repeat(2_000)}`),
  )
  await write(join(directory, '.agents/skills/c/SKILL.md'), '# Title\n\nSays what it is.\n')
  const [a, b, c] = (await loadTestSkills()).skills.map(({ description }) => description ?? '')
  expect(a).toBe('Use when: always')
  expect([...(b ?? '')]).toHaveLength(1024)
  expect(b?.isWellFormed()).toBe(true)
  expect(c).toBe('Says what it is.')
})

test('a skill in a folder of another name is loaded under its own, with a word about it', async () => {
  await write(join(directory, '.agents/skills/folder/SKILL.md'), withFrontMatter('name: other'))
  const { skills, issues } = await loadTestSkills()
  expect(skills.map(({ name }) => name)).toEqual(['other'])
  expect(issues[0]).toContain('is named other, but its folder folder')
})

test('a large file is cut, a binary one and one that is not UTF-8 are refused', async () => {
  await write(join(directory, 'AGENTS.md'), `${'ä'.repeat(200_000)}`)
  await write(join(directory, 'CLAUDE.md'), Buffer.from([0x89, 0x50, 0, 1]))
  await write(join(directory, 'GEMINI.md'), Buffer.from([0xff, 0xfe, 0x41]))
  const { skills, issues } = await loadTestSkills()
  expect(skills.map(({ name }) => name)).toEqual(['agents'])
  expect(skills[0]?.content.length).toBeLessThan(132_000)
  expect(skills[0]?.content).toMatch(/ä\n\[The rest of this file is left out\.\]$/)
  expect(issues).toEqual([
    'AGENTS.md: is larger than 256 KiB; the rest is left out',
    'CLAUDE.md: is a binary file',
    'GEMINI.md: is not UTF-8 text',
  ])
})

test('control characters do not get into a skill', async () => {
  await write(join(directory, 'AGENTS.md'), 'a\u001b[31mred\u0007\tb\r\nc\rd')
  expect((await loadTestSkills()).skills[0]?.content).toBe('a[31mred\tb\nc\nd')
})

test('no link leads out of the workspace, and none leads around in circles', async () => {
  const outside = join(homeDirectory, 'secret')
  await write(join(outside, 'SKILL.md'), 'outside')
  await mkdir(join(directory, '.agents/skills/file'), { recursive: true })
  await symlink(join(outside, 'SKILL.md'), join(directory, 'AGENTS.md'))
  await symlink(outside, join(directory, '.agents/skills/folder'))
  await symlink(join(outside, 'SKILL.md'), join(directory, '.agents/skills/file/SKILL.md'))
  await symlink(outside, join(directory, '.openhands'))
  await symlink('..', join(directory, '.agents/skills/circle'))
  await symlink('nowhere', join(directory, '.agents/skills/dangling.md'))
  await write(join(directory, '.agents/skills/good/SKILL.md'), 'good')
  await symlink('good', join(directory, '.agents/skills/twice'))
  const { skills, issues } = await loadTestSkills()
  expect(skills.map(({ name }) => name)).toEqual(['good'])
  expect(issues).toEqual([
    'AGENTS.md: leads out of the workspace',
    '.agents/skills/file/SKILL.md: leads out of the workspace',
    '.agents/skills/folder: leads out of the workspace',
  ])
})

test('the skills of a user may be links to wherever the user keeps them', async () => {
  await write(join(directory, 'elsewhere/mine/SKILL.md'), 'mine')
  await mkdir(join(homeDirectory, '.agents'))
  await symlink(join(directory, 'elsewhere'), join(homeDirectory, '.agents/skills'))
  expect((await loadTestSkills({ load_user_skills: true })).skills.map(({ name }) => name)).toEqual(['mine'])
})

test('a pipe, a device and a folder in the place of a file do not hang the load', async () => {
  await mkdir(join(directory, '.agents/skills/pipe'), { recursive: true })
  await mkdir(join(directory, '.agents/skills/folder/SKILL.md'), { recursive: true })
  execFileSync('mkfifo', [join(directory, '.agents/skills/pipe/SKILL.md'), join(directory, 'AGENTS.md')])
  await symlink('/dev/zero', join(directory, 'CLAUDE.md'))
  const { skills, issues } = await loadTestSkills()
  expect(skills).toEqual([])
  expect(issues).toEqual([
    'AGENTS.md: is not a file',
    'CLAUDE.md: leads out of the workspace',
    '.agents/skills/folder/SKILL.md: is not a file',
    '.agents/skills/pipe/SKILL.md: is not a file',
  ])
})

test('at most 500 skills and 100 issues are loaded, and the rest is counted', async () => {
  const skills = Array.from({ length: 499 }, (_, at) => ({ name: `r${at}`, content: '' }))
  for (let at = 0; at < 110; at++)
    await write(join(directory, `.agents/skills/bad${at}/SKILL.md`), withFrontMatter('name: 1'))
  for (const name of ['x', 'y', 'z']) await write(join(directory, `.agents/skills/${name}/SKILL.md`), name)
  const loaded = await loadTestSkills({ skills, load_project_skills: true })
  expect(loaded.skills).toHaveLength(500)
  expect(loaded.skills.at(-1)?.name).toBe('x')
  expect(loaded.issues.slice(100)).toEqual([
    '10 more issues are not listed',
    'There are more skills than fit; the first 500 were loaded',
  ])
})

test('two skills of one name in a request: the first is used, with an issue', async () => {
  const { skills, issues } = await loadTestSkills({
    skills: [
      { name: 'a', content: '1' },
      { name: 'a', content: '2' },
    ],
  })
  expect(skills.map(({ content }) => content)).toEqual(['1'])
  expect(issues[0]).toContain('two skills of this name')
})

test('an aborted load rejects', async () => {
  await write(join(directory, '.agents/skills/a/SKILL.md'), 'a')
  const context = agent.parse({
    llm: { model: 'x' },
    agent_context: { load_project_skills: true },
  }).agent_context
  await expect(loadSkills({ directory, context }, AbortSignal.abort(new Error('enough')))).rejects.toThrow(
    'enough',
  )
})

test('any file is a skill within bounds or an issue', async () => {
  const line = fc.oneof(
    fc.string(),
    fc.constantFrom(
      '---',
      'name: a',
      'description: |',
      '  x',
      'triggers:',
      '  - a',
      '- &a b',
      '? *a',
      '%YAML',
      '!!binary',
    ),
  )
  const text = fc.array(line, { maxLength: 12 }).map((lines) => `---\n${lines.join('\n')}`)
  await fc.assert(
    fc.asyncProperty(fc.oneof(text, fc.string()), fc.boolean(), async (text, isAgentSkill) => {
      const from = { name: 'a', origin: 'project', source: 's', file: '/s', resources: undefined } as const
      const parsed = await parseSkill({ ...from, text, isAgentSkill }, new FrontMatterBudget())
      if ('issue' in parsed) {
        expect(parsed.issue).toMatch(/^has [^\n]+$/)
        return
      }
      const { name, description, content, keywords } = parsed.skill
      expect(name.length).toBeLessThanOrEqual(64)
      expect([...(description ?? '')].length).toBeLessThanOrEqual(1024)
      expect(content.length).toBeLessThanOrEqual(text.length)
      for (const keyword of keywords) expect(keyword.trim()).not.toBe('')
    }),
    { numRuns: 500 },
  )
})
