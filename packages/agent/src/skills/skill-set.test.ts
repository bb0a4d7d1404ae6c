import { skill as skillSchema } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type LoadedSkill, requestedSkill } from './skill.ts'
import { Skills } from './skill-set.ts'

const none: ReadonlySet<string> = new Set()

function requested(members: Record<string, unknown>): LoadedSkill {
  return requestedSkill(skillSchema.parse({ content: `content of ${members.name}`, ...members }))
}

function onFile(members: Partial<LoadedSkill> & { readonly name: string }): LoadedSkill {
  const file = `/project/.agents/skills/${members.name}/SKILL.md`
  return { ...requested({ name: members.name }), isAgentSkill: true, origin: 'project', file, ...members }
}

const keyword = (name: string, ...keywords: string[]) =>
  requested({ name, trigger: { type: 'keyword', keywords } })

test('a skill without trigger is told from the beginning, every other is listed', () => {
  const skills = new Skills(
    [
      requested({ name: 'repo', source: 'AGENTS.md' }),
      keyword('git', 'commit'),
      onFile({ name: 'pdf', description: 'Reads PDF.' }),
      requested({ name: 'hidden', is_agentskills_format: true, disable_model_invocation: true }),
    ],
    '/project',
  )
  expect(skills.names).toEqual(['repo', 'git', 'pdf', 'hidden'])
  expect(skills.alwaysOn()).toEqual([{ name: 'repo', source: 'AGENTS.md', text: 'content of repo' }])
  expect(skills.listed()).toEqual([
    { name: 'git', description: undefined, file: undefined },
    { name: 'pdf', description: 'Reads PDF.', file: '/project/.agents/skills/pdf/SKILL.md' },
  ])
  expect(skills.readable).toEqual(['/project/.agents/skills/pdf'])
  expect(skills.read('git')).toBe('content of git')
  expect(skills.read('nobody')).toBe(undefined)
})

test('a keyword of a message tells a skill once', () => {
  const skills = new Skills([keyword('git', 'commit', 'push'), keyword('npm', 'install')], '/project')
  const { names, content } = skills.activate('please Push and install it', none)
  expect(names).toEqual(['git', 'npm'])
  expect(content).toHaveLength(2)
  expect(content[0]?.text).toContain('the message mentions "push"')
  expect(content[0]?.text).toContain('<skill name="git">\ncontent of git\n</skill>')
  expect(skills.activate('please push', new Set(['git'])).names).toEqual([])
  expect(skills.activate('pushing commitments', none)).toEqual({ names: [], content: [] })
})

test('a command tells its skill each time, with the inputs that it needs', () => {
  const deploy = requested({
    name: 'deploy',
    trigger: { type: 'task', triggers: ['ship', '/release'] },
    inputs: [{ name: 'target', description: 'Where to' }],
  })
  const skills = new Skills([deploy], '/project')
  for (const message of ['/ship it', 'now /release', '/deploy'])
    expect(skills.activate(message, new Set(['deploy'])).names).toEqual(['deploy'])
  expect(skills.activate('/ship it', none).content[0]?.text).toContain('- target: Where to')
  for (const message of ['ship it', 'see a/ship', 'now /deploy'])
    expect(skills.activate(message, none).names).toEqual([])
})

test('a skill that the model cannot read is called by its name, one with a file or with triggers is not', () => {
  const inline = requested({ name: 'house-style', is_agentskills_format: true })
  const skills = new Skills([inline, onFile({ name: 'pdf' }), keyword('git', 'commit')], '/project')
  expect(skills.activate('use the House-Style, pdf and git', none).names).toEqual(['house-style'])
  expect(skills.activate('/pdf', none).names).toEqual(['pdf'])
})

test('a skill with a folder says what is in it and where paths start', () => {
  const resources = { scripts: ['scripts/run.sh'], references: [], assets: ['assets/logo.svg'] }
  const skills = new Skills([onFile({ name: 'pdf', resources, allowedTools: ['terminal'] })], '/project')
  const [told] = skills.activate('/pdf', none).content
  expect(told?.text).toContain('/project/.agents/skills/pdf')
  expect(told?.text).toContain('- scripts/run.sh\n- assets/logo.svg')
  expect(told?.text).toContain('terminal')
})

test('a rule for paths is told for a file of the workspace that it is about, once', () => {
  const rule = requested({ name: 'ts', trigger: { type: 'path', paths: ['src/**/*.ts', '*.mts'] } })
  const skills = new Skills([rule], '/project')
  for (const path of ['src/a.ts', './src/x/a.ts', '/project/src/a.ts', 'deep/a.mts']) {
    expect(skills.forPath(path, none).names).toEqual(['ts'])
    expect(skills.forPath(path, new Set(['ts'])).names).toEqual([])
  }
  for (const path of ['a.ts', '/other/src/a.ts', '/project', '/project/../src/a.mts', '../a.mts', ''])
    expect(skills.forPath(path, none).names).toEqual([])
  expect(skills.activate('src/a.ts', none).names).toEqual([])
})

test('of two skills of one name the first counts', () => {
  const skills = new Skills([keyword('a', 'x'), requested({ name: 'a', content: 'second' })], '/project')
  expect(skills.names).toEqual(['a'])
  expect(skills.read('a')).toBe('content of a')
})

test('one message brings in no more than an event holds; the rest comes with the next', () => {
  const large = (name: string) => ({ ...keyword(name, 'all'), content: 'x'.repeat(150_000) })
  const skills = new Skills([large('a'), large('b'), keyword('c', 'all')], '/project')
  const first = skills.activate('all', none)
  expect(first.names).toEqual(['a', 'c'])
  expect(JSON.stringify(first.content).length).toBeLessThan(500_000)
  expect(skills.activate('all', new Set(first.names)).names).toEqual(['b'])
})

test('no set of skills keeps anybody waiting', { timeout: 60_000 }, () => {
  const hostile = Array.from({ length: 500 }, (_, at) =>
    onFile({
      name: `s${at}`,
      keywords: Array.from({ length: 64 }, (_, word) => `word${at}x${word}`),
      paths: Array.from({ length: 64 }, () => `${'*a'.repeat(8)}{b,c}{d,e}{f,g}{h,i}`),
    }),
  )
  const skills = new Skills(hostile, '/project')
  expect(skills.activate('word'.repeat(250_000), none).names).toEqual([])
  expect(skills.forPath('a'.repeat(510), none).names).toEqual([])
})

test('an activation never holds what was told already, by keyword or path, and names go with contents', () => {
  const names = ['alpha', 'beta', 'gamma']
  const skills = new Skills(
    names.flatMap((name) => [
      keyword(name, name),
      requested({ name: `${name}-path`, trigger: { type: 'path', paths: [`${name}/**`] } }),
    ]),
    '/project',
  )
  const words = fc.array(fc.constantFrom(...names, 'alphabet', 'xbeta', '-'), { maxLength: 6 })
  fc.assert(
    fc.property(words, fc.subarray([...skills.names]), (message, already) => {
      const told = new Set(already)
      for (const found of [
        skills.activate(message.join(' '), told),
        skills.forPath(`${message[0]}/x`, told),
      ]) {
        expect(found.names.length).toBe(found.content.length)
        expect(found.names.some((name) => told.has(name))).toBe(false)
      }
      const expected = names.filter((name) => message.includes(name) && !told.has(name))
      expect(skills.activate(message.join(' '), told).names).toEqual(expected)
    }),
  )
})
