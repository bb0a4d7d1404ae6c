import { expect } from 'vitest'
import { openWire, prove } from './wire-server.ts'

const wire = openWire()

prove('POST /api/hooks', 'reads the hooks of a project in both spellings', async () => {
  const hooks = [{ matcher: 'terminal', hooks: [{ type: 'command', command: 'true', timeout: 5 }] }]
  const files = { snake: { pre_tool_use: hooks }, pascal: { hooks: { PreToolUse: hooks } } }
  for (const [name, file] of Object.entries(files)) {
    const project_dir = `${wire.directory}/${name}`
    await wire.upload(`${project_dir}/.openhands/hooks.json`, JSON.stringify(file))
    const { hook_config } = await wire.must<{ hook_config: unknown }>('POST', '/api/hooks', {
      body: { project_dir },
    })
    expect(hook_config).toMatchObject({
      pre_tool_use: [{ matcher: 'terminal', hooks: [{ type: 'command', command: 'true', timeout: 5 }] }],
    })
  }
})

prove('POST /api/hooks', 'is null where there are none, also where there is no folder', async () => {
  for (const body of [{ project_dir: wire.directory }, { project_dir: `${wire.directory}/nothing` }])
    expect(await wire.must('POST', '/api/hooks', { body })).toEqual({ hook_config: null })
  expect(await wire.status('POST', '/api/hooks', { body: { project_dir: 5 } })).toBe(422)
})
