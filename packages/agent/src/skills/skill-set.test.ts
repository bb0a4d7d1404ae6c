import { skill as skillSchema } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type LoadedSkill, skillFromRequest } from './skill.ts'
import { SkillSet } from './skill-set.ts'

const noNames: ReadonlySet<string> = new Set()

function requestSkill(members: Record<string, unknown>): LoadedSkill {
  return skillFromRequest(skillSchema.parse({ content: `content of ${members.name}`, ...members }))
}

function fileSkill(members: Partial<LoadedSkill> & { readonly name: string }): LoadedSkill {
  const file = `/project/.agents/skills/${members.name}/SKILL.md`
  return { ...requestSkill({ name: members.name }), isAgentSkill: true, origin: 'project', file, ...members }
}

const keywordSkill = (name: string, ...keywords: string[]) =>
  requestSkill({ name, trigger: { type: 'keyword', keywords } })

test('a skill without trigger is always on, every other is listed', () => {
  const skills = new SkillSet(
    [
      requestSkill({ name: 'repo', source: 'AGENTS.md' }),
      keywordSkill('git', 'commit'),
      fileSkill({ name: 'pdf', description: 'Reads PDF.' }),
      requestSkill({ name: 'hidden', is_agentskills_format: true, disable_model_invocation: true }),
    ],
    '/project',
  )
  expect(skills.alwaysOnSections()).toEqual([{ name: 'repo', source: 'AGENTS.md', text: 'content of repo' }])
  expect(skills.summaries()).toEqual([
    { name: 'git', description: undefined, file: undefined },
    { name: 'pdf', description: 'Reads PDF.', file: '/project/.agents/skills/pdf/SKILL.md' },
  ])
  expect(skills.readablePaths).toEqual(['/project/.agents/skills/pdf'])
})

test('a keyword activates a skill once', () => {
  const skills = new SkillSet(
    [keywordSkill('git', 'commit', 'push'), keywordSkill('npm', 'install')],
    '/project',
  )
  const { names, content } = skills.activate('please Push and install it', noNames)
  expect(names).toEqual(['git', 'npm'])
  expect(content).toHaveLength(2)
  expect(content[0]?.text).toContain('the message mentions "push"')
  expect(content[0]?.text).toContain('<skill name="git">\ncontent of git\n</skill>')
  expect(skills.activate('please push', new Set(['git'])).names).toEqual([])
  expect(skills.activate('pushing commitments', noNames)).toEqual({ names: [], content: [] })
})

test('a command activates its skill each time, with its inputs', () => {
  const deploy = requestSkill({
    name: 'deploy',
    trigger: { type: 'task', triggers: ['ship', '/release'] },
    inputs: [{ name: 'target', description: 'Where to' }],
  })
  const skills = new SkillSet([deploy], '/project')
  for (const message of ['/ship it', 'now /release', '/deploy'])
    expect(skills.activate(message, new Set(['deploy'])).names).toEqual(['deploy'])
  expect(skills.activate('/ship it', noNames).content[0]?.text).toContain('- target: Where to')
  for (const message of ['ship it', 'see a/ship', 'now /deploy'])
    expect(skills.activate(message, noNames).names).toEqual([])
})

test('a skill that the model cannot read is called by its name, one with a file or with triggers is not', () => {
  const inline = requestSkill({ name: 'house-style', is_agentskills_format: true })
  const skills = new SkillSet([inline, fileSkill({ name: 'pdf' }), keywordSkill('git', 'commit')], '/project')
  expect(skills.activate('use the House-Style, pdf and git', noNames).names).toEqual(['house-style'])
  expect(skills.activate('/pdf', noNames).names).toEqual(['pdf'])
})

test('a skill with a folder says what is in it and where paths start', () => {
  const resources = { scripts: ['scripts/run.sh'], references: [], assets: ['assets/logo.svg'] }
  const skills = new SkillSet([fileSkill({ name: 'pdf', resources, allowedTools: ['terminal'] })], '/project')
  const [activated] = skills.activate('/pdf', noNames).content
  expect(activated?.text).toContain('/project/.agents/skills/pdf')
  expect(activated?.text).toContain('- scripts/run.sh\n- assets/logo.svg')
  expect(activated?.text).toContain('terminal')
})

test('a skill with paths is activated once for a matching file', () => {
  const rule = requestSkill({ name: 'ts', trigger: { type: 'path', paths: ['src/**/*.ts', '*.mts'] } })
  const skills = new SkillSet([rule], '/project')
  for (const path of ['src/a.ts', './src/x/a.ts', '/project/src/a.ts', 'deep/a.mts']) {
    expect(skills.activateForPath(path, noNames).names).toEqual(['ts'])
    expect(skills.activateForPath(path, new Set(['ts'])).names).toEqual([])
  }
  for (const path of ['a.ts', '/other/src/a.ts', '/project', '/project/../src/a.mts', '../a.mts', ''])
    expect(skills.activateForPath(path, noNames).names).toEqual([])
  expect(skills.activate('src/a.ts', noNames).names).toEqual([])
})

test('of two skills of one name the first counts', () => {
  const skills = new SkillSet(
    [keywordSkill('a', 'x'), requestSkill({ name: 'a', content: 'second' })],
    '/project',
  )
  expect(skills.alwaysOnSections()).toEqual([])
  expect(skills.summaries().map(({ name }) => name)).toEqual(['a'])
})

test('one message activates at most what fits into an event; the next message activates the rest', () => {
  const large = (name: string) => ({ ...keywordSkill(name, 'all'), content: 'x'.repeat(150_000) })
  const skills = new SkillSet([large('a'), large('b'), keywordSkill('c', 'all')], '/project')
  const first = skills.activate('all', noNames)
  expect(first.names).toEqual(['a', 'c'])
  expect(JSON.stringify(first.content).length).toBeLessThan(500_000)
  expect(skills.activate('all', new Set(first.names)).names).toEqual(['b'])
})

test('matching any set of skills takes bounded time', { timeout: 60_000 }, () => {
  const hostile = Array.from({ length: 500 }, (_, at) =>
    fileSkill({
      name: `s${at}`,
      keywords: Array.from({ length: 64 }, (_, word) => `word${at}x${word}`),
      paths: Array.from({ length: 64 }, () => `${'*a'.repeat(8)}{b,c}{d,e}{f,g}{h,i}`),
    }),
  )
  const skills = new SkillSet(hostile, '/project')
  expect(skills.activate('word'.repeat(250_000), noNames).names).toEqual([])
  expect(skills.activateForPath('a'.repeat(510), noNames).names).toEqual([])
})

test('an activation never repeats active skills, and its names match its contents', () => {
  const names = ['alpha', 'beta', 'gamma']
  const skills = new SkillSet(
    names.flatMap((name) => [
      keywordSkill(name, name),
      requestSkill({ name: `${name}-path`, trigger: { type: 'path', paths: [`${name}/**`] } }),
    ]),
    '/project',
  )
  const words = fc.array(fc.constantFrom(...names, 'alphabet', 'xbeta', '-'), { maxLength: 6 })
  fc.assert(
    fc.property(words, fc.subarray(names.flatMap((name) => [name, `${name}-path`])), (message, already) => {
      const active = new Set(already)
      for (const found of [
        skills.activate(message.join(' '), active),
        skills.activateForPath(`${message[0]}/x`, active),
      ]) {
        expect(found.names.length).toBe(found.content.length)
        expect(found.names.some((name) => active.has(name))).toBe(false)
      }
      const expected = names.filter((name) => message.includes(name) && !active.has(name))
      expect(skills.activate(message.join(' '), active).names).toEqual(expected)
    }),
  )
})
