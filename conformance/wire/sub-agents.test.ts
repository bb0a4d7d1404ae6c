import { expect } from 'vitest'
import { openWireServer, wireCase } from './wire-server.ts'

const wire = openWireServer()

interface Agents {
  readonly agents: readonly { readonly name: string; readonly [member: string]: unknown }[]
}

wireCase('POST /api/sub-agents', 'lists the built-in ones, and those of a project', async () => {
  const project_dir = `${wire.directory}/project`
  await wire.upload(
    `${project_dir}/.agents/agents/wire-helper.md`,
    '---\nname: wire-helper\ndescription: Helps a test.\ntools:\n  - terminal\n---\n\nYou help.\n',
  )
  const { agents } = await wire.requestOrThrow<Agents>('POST', '/api/sub-agents', { body: { project_dir } })
  const names = agents.map(({ name }) => name)
  for (const name of ['general-purpose', 'code-explorer', 'bash-runner', 'web-researcher'])
    expect(names).toContain(name)
  expect(agents.find(({ name }) => name === 'general-purpose')).toMatchObject({ is_builtin: true })
  expect(agents.find(({ name }) => name === 'wire-helper')).toMatchObject({
    description: 'Helps a test.',
    tools: ['terminal'],
    system_prompt: expect.stringContaining('You help.'),
    is_builtin: false,
  })
})

wireCase(
  'POST /api/sub-agents',
  'omits agents on request, and accepts a folder that does not exist',
  async () => {
    const none = { load_user: false, load_project: false, load_builtin: false }
    expect(await wire.requestOrThrow('POST', '/api/sub-agents', { body: none })).toEqual({ agents: [] })
    for (const body of [{ project_dir: `${wire.directory}/nothing` }, { project_dir: null }, {}])
      expect(await wire.requestOrThrow('POST', '/api/sub-agents', { body })).toMatchObject({
        agents: expect.any(Array),
      })
    expect(await wire.requestStatus('POST', '/api/sub-agents', { body: { load_user: 'perhaps' } })).toBe(422)
  },
)
