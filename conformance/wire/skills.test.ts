import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { type Json, makeRepositoryCommand, openWireServer, wireCase } from './wire-server.ts'

const wire = openWireServer()

interface Skill {
  readonly name: string
  readonly [member: string]: unknown
}
interface Skills {
  readonly skills: readonly Skill[]
  readonly sources: Readonly<Record<string, number>>
}

const projectOnly = { load_public: false, load_user: false, load_project: true, load_org: false }
const skillText = (name: string, body = 'Do it well.') =>
  `---\nname: ${name}\ndescription: A skill of a test.\n---\n\n${body}\n`

/** Creates a folder with one skill to install; the name is unique. */
async function createSkillFolder(): Promise<{ name: string; source: string }> {
  const name = `wire-${randomUUID().slice(0, 8)}`
  const source = `${wire.directory}/${name}`
  await wire.upload(`${source}/SKILL.md`, skillText(name))
  return { name, source }
}

async function installSkill(): Promise<{ name: string; source: string }> {
  const made = await createSkillFolder()
  await wire.requestOrThrow('POST', '/api/skills/install', { body: { source: made.source } })
  return made
}

wireCase(
  'POST /api/skills',
  'lists the skills of a project with their contents, and counts their sources',
  async () => {
    const project_dir = `${wire.directory}/project`
    await wire.upload(`${project_dir}/.agents/skills/wire-one/SKILL.md`, skillText('wire-one'))
    await wire.upload(`${project_dir}/AGENTS.md`, 'Mind the gap.')
    const { skills, sources } = await wire.requestOrThrow<Skills>('POST', '/api/skills', {
      body: { ...projectOnly, project_dir },
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

wireCase(
  'POST /api/skills',
  'accepts a relative folder that does not exist, and an empty request',
  async () => {
    for (const body of [
      { ...projectOnly, load_user: true, project_dir: 'workspace/project' },
      { ...projectOnly, project_dir: null },
    ]) {
      const { status, body: found } = await wire.request<Skills>('POST', '/api/skills', { body })
      expect([status, Array.isArray(found.skills), typeof found.sources]).toEqual([200, true, 'object'])
    }
  },
)

wireCase('POST /api/skills', 'refuses an invalid request', async () => {
  for (const body of [{ load_public: 'perhaps' }, []])
    expect(await wire.requestStatus('POST', '/api/skills', { body })).toBe(422)
})

wireCase('POST /api/skills/sync', 'reports the result, also without a network', async () => {
  const body = await wire.requestOrThrow('POST', '/api/skills/sync')
  expect(body).toMatchObject({
    status: expect.stringMatching(/^(success|error)$/),
    message: expect.any(String),
  })
})

wireCase(
  'POST /api/skills/install',
  'installs from a folder and from a repository, and refuses a second time',
  async () => {
    const { name, source } = await createSkillFolder()
    const done = await wire.request('POST', '/api/skills/install', { body: { source } })
    expect([done.status, done.body]).toEqual([
      expect.toSatisfy((status: number) => [200, 201].includes(status)),
      expect.objectContaining({
        name,
        enabled: true,
        source: expect.any(String),
        install_path: expect.any(String),
      }),
    ])
    expect(await wire.requestStatus('POST', '/api/skills/install', { body: { source } })).toBe(409)
    expect(
      await wire.requestStatus('POST', '/api/skills/install', { body: { source, force: true } }),
    ).toBeLessThan(300)
    const { skills } = await wire.requestOrThrow<Skills>('POST', '/api/skills', {
      body: { ...projectOnly, load_user: true },
    })
    expect(skills.map(({ name }) => name)).toContain(name)
    await wire.requestOrThrow('DELETE', `/api/skills/installed/${name}`)
  },
)

wireCase(
  'POST /api/skills/install',
  'is 400 for an unreachable source and 422 for an invalid request',
  async () => {
    expect(
      await wire.requestStatus('POST', '/api/skills/install', {
        body: { source: `${wire.directory}/nothing` },
      }),
    ).toBe(400)
    for (const body of [{}, { source: 5 }])
      expect(await wire.requestStatus('POST', '/api/skills/install', { body })).toBe(422)
    const plain = `${wire.directory}/plain`
    await wire.runCommand(makeRepositoryCommand(plain))
    expect([400, 422]).toContain(
      await wire.requestStatus('POST', '/api/skills/install', { body: { source: plain } }),
    )
  },
)

wireCase('GET /api/skills/installed', 'lists installed ones', async () => {
  const { name } = await installSkill()
  const { skills } = await wire.requestOrThrow<Skills>('GET', '/api/skills/installed')
  expect(skills.find((skill) => skill.name === name)).toMatchObject({
    enabled: true,
    installed_at: expect.any(String),
  })
  await wire.requestOrThrow('DELETE', `/api/skills/installed/${name}`)
})

wireCase('GET /api/skills/installed/{name}', 'returns one, or 404', async () => {
  const { name } = await installSkill()
  expect(await wire.requestOrThrow('GET', `/api/skills/installed/${name}`)).toMatchObject({ name })
  await wire.requestOrThrow('DELETE', `/api/skills/installed/${name}`)
  expect(await wire.requestStatus('GET', `/api/skills/installed/${name}`)).toBe(404)
})

wireCase(
  'PATCH /api/skills/installed/{name}',
  'disables and enables it; a disabled one is not loaded',
  async () => {
    const { name } = await installSkill()
    const url = `/api/skills/installed/${name}`
    for (const enabled of [false, true]) {
      expect(await wire.requestOrThrow('PATCH', url, { body: { enabled } })).toEqual({ name, enabled })
      const { skills } = await wire.requestOrThrow<Skills>('POST', '/api/skills', {
        body: { ...projectOnly, load_user: true },
      })
      expect(skills.some((skill) => skill.name === name)).toBe(enabled)
    }
    await wire.requestOrThrow('DELETE', url)
    expect(await wire.requestStatus('PATCH', url, { body: { enabled: true } })).toBe(404)
  },
)

wireCase('DELETE /api/skills/installed/{name}', 'removes it; an unknown one is 404', async () => {
  const { name } = await installSkill()
  const url = `/api/skills/installed/${name}`
  expect(await wire.requestOrThrow('DELETE', url)).toMatchObject({ message: expect.any(String) })
  expect(await wire.requestStatus('DELETE', url)).toBe(404)
})

wireCase('POST /api/skills/installed/{name}/refresh', 'refreshes it; an unknown one is 404', async () => {
  const { name, source } = await installSkill()
  await wire.upload(`${source}/SKILL.md`, skillText(name, 'Do it better.'))
  const body = await wire.requestOrThrow<Json>('POST', `/api/skills/installed/${name}/refresh`)
  expect(body).toMatchObject({ message: expect.any(String), skill: { name } })
  const { skills } = await wire.requestOrThrow<Skills>('POST', '/api/skills', {
    body: { ...projectOnly, load_user: true },
  })
  expect(skills.find((skill) => skill.name === name)?.content).toContain('Do it better.')
  await wire.requestOrThrow('DELETE', `/api/skills/installed/${name}`)
  expect(await wire.requestStatus('POST', `/api/skills/installed/${name}/refresh`)).toBe(404)
})

wireCase('GET /api/skills/marketplace', 'returns a list', async () => {
  expect(await wire.requestOrThrow('GET', '/api/skills/marketplace')).toMatchObject({
    skills: expect.any(Array),
  })
})
