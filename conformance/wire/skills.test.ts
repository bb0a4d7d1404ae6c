import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { type Json, openWire, prove, repositoryIn } from './wire-server.ts'

const wire = openWire()

interface Skill {
  readonly name: string
  readonly [member: string]: unknown
}
interface Skills {
  readonly skills: readonly Skill[]
  readonly sources: Readonly<Record<string, number>>
}

const only = { load_public: false, load_user: false, load_project: true, load_org: false }
const text = (name: string, body = 'Do it well.') =>
  `---\nname: ${name}\ndescription: A skill of a test.\n---\n\n${body}\n`

/** A folder with one skill, as it is installed from; its name is new each time. */
async function folder(): Promise<{ name: string; source: string }> {
  const name = `wire-${randomUUID().slice(0, 8)}`
  const source = `${wire.directory}/${name}`
  await wire.upload(`${source}/SKILL.md`, text(name))
  return { name, source }
}

async function installed(): Promise<{ name: string; source: string }> {
  const made = await folder()
  await wire.must('POST', '/api/skills/install', { body: { source: made.source } })
  return made
}

prove(
  'POST /api/skills',
  'lists the skills of a project with what they say, and counts their sources',
  async () => {
    const project_dir = `${wire.directory}/project`
    await wire.upload(`${project_dir}/.agents/skills/wire-one/SKILL.md`, text('wire-one'))
    await wire.upload(`${project_dir}/AGENTS.md`, 'Mind the gap.')
    const { skills, sources } = await wire.must<Skills>('POST', '/api/skills', {
      body: { ...only, project_dir },
    })
    const own = skills.find(({ name }) => name === 'wire-one')
    expect(own).toMatchObject({
      type: expect.stringMatching(/^(repo|knowledge|agentskills)$/),
      content: expect.stringContaining('Do it well.'),
      triggers: [],
      description: 'A skill of a test.',
      is_agentskills_format: true,
      disable_model_invocation: false,
    })
    expect(skills.some(({ content }) => String(content).includes('Mind the gap.'))).toBe(true)
    expect(sources.project).toBeGreaterThanOrEqual(2)
  },
)

prove('POST /api/skills', 'takes a relative folder that is not there, and an empty request', async () => {
  for (const body of [
    { ...only, load_user: true, project_dir: 'workspace/project' },
    { ...only, project_dir: null },
  ]) {
    const { status, body: found } = await wire.ask<Skills>('POST', '/api/skills', { body })
    expect([status, Array.isArray(found.skills), typeof found.sources]).toEqual([200, true, 'object'])
  }
})

prove('POST /api/skills', 'refuses what is no request', async () => {
  for (const body of [{ load_public: 'perhaps' }, []])
    expect(await wire.status('POST', '/api/skills', { body })).toBe(422)
})

prove('POST /api/skills/sync', 'says what became of it, also without a network', async () => {
  const body = await wire.must('POST', '/api/skills/sync')
  expect(body).toMatchObject({
    status: expect.stringMatching(/^(success|error)$/),
    message: expect.any(String),
  })
})

prove(
  'POST /api/skills/install',
  'installs from a folder and from a repository, and refuses a second time',
  async () => {
    const { name, source } = await folder()
    const done = await wire.ask('POST', '/api/skills/install', { body: { source } })
    expect([done.status, done.body]).toEqual([
      expect.toSatisfy((status: number) => [200, 201].includes(status)),
      expect.objectContaining({
        name,
        enabled: true,
        source: expect.any(String),
        install_path: expect.any(String),
      }),
    ])
    expect(await wire.status('POST', '/api/skills/install', { body: { source } })).toBe(409)
    expect(await wire.status('POST', '/api/skills/install', { body: { source, force: true } })).toBeLessThan(
      300,
    )
    const { skills } = await wire.must<Skills>('POST', '/api/skills', { body: { ...only, load_user: true } })
    expect(skills.map(({ name }) => name)).toContain(name)
    await wire.must('DELETE', `/api/skills/installed/${name}`)
  },
)

prove(
  'POST /api/skills/install',
  'is 400 for what cannot be fetched and 422 for what is no request',
  async () => {
    expect(
      await wire.status('POST', '/api/skills/install', { body: { source: `${wire.directory}/nothing` } }),
    ).toBe(400)
    for (const body of [{}, { source: 5 }])
      expect(await wire.status('POST', '/api/skills/install', { body })).toBe(422)
    const plain = `${wire.directory}/plain`
    await wire.bash(repositoryIn(plain))
    expect([400, 422]).toContain(
      await wire.status('POST', '/api/skills/install', { body: { source: plain } }),
    )
  },
)

prove('GET /api/skills/installed', 'lists what is installed', async () => {
  const { name } = await installed()
  const { skills } = await wire.must<Skills>('GET', '/api/skills/installed')
  expect(skills.find((skill) => skill.name === name)).toMatchObject({
    enabled: true,
    installed_at: expect.any(String),
  })
  await wire.must('DELETE', `/api/skills/installed/${name}`)
})

prove('GET /api/skills/installed/{name}', 'is one, or 404', async () => {
  const { name } = await installed()
  expect(await wire.must('GET', `/api/skills/installed/${name}`)).toMatchObject({ name })
  await wire.must('DELETE', `/api/skills/installed/${name}`)
  expect(await wire.status('GET', `/api/skills/installed/${name}`)).toBe(404)
})

prove('PATCH /api/skills/installed/{name}', 'switches it off and on; what is off is not loaded', async () => {
  const { name } = await installed()
  const url = `/api/skills/installed/${name}`
  for (const enabled of [false, true]) {
    expect(await wire.must('PATCH', url, { body: { enabled } })).toEqual({ name, enabled })
    const { skills } = await wire.must<Skills>('POST', '/api/skills', { body: { ...only, load_user: true } })
    expect(skills.some((skill) => skill.name === name)).toBe(enabled)
  }
  await wire.must('DELETE', url)
  expect(await wire.status('PATCH', url, { body: { enabled: true } })).toBe(404)
})

prove('DELETE /api/skills/installed/{name}', 'removes it; what is not there is 404', async () => {
  const { name } = await installed()
  const url = `/api/skills/installed/${name}`
  expect(await wire.must('DELETE', url)).toMatchObject({ message: expect.any(String) })
  expect(await wire.status('DELETE', url)).toBe(404)
})

prove('POST /api/skills/installed/{name}/refresh', 'fetches it again; what is not there is 404', async () => {
  const { name, source } = await installed()
  await wire.upload(`${source}/SKILL.md`, text(name, 'Do it better.'))
  const body = await wire.must<Json>('POST', `/api/skills/installed/${name}/refresh`)
  expect(body).toMatchObject({ message: expect.any(String), skill: { name } })
  const { skills } = await wire.must<Skills>('POST', '/api/skills', { body: { ...only, load_user: true } })
  expect(skills.find((skill) => skill.name === name)?.content).toContain('Do it better.')
  await wire.must('DELETE', `/api/skills/installed/${name}`)
  expect(await wire.status('POST', `/api/skills/installed/${name}/refresh`)).toBe(404)
})

prove('GET /api/skills/marketplace', 'is a list', async () => {
  expect(await wire.must('GET', '/api/skills/marketplace')).toMatchObject({ skills: expect.any(Array) })
})
