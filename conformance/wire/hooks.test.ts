import { expect } from 'vitest'
import { openWireServer, wireCase } from './wire-server.ts'

const wire = openWireServer()

wireCase('POST /api/hooks', 'reads the hooks of a project in both spellings', async () => {
  const hooks = [{ matcher: 'terminal', hooks: [{ type: 'command', command: 'true', timeout: 5 }] }]
  const files = { snake: { pre_tool_use: hooks }, pascal: { hooks: { PreToolUse: hooks } } }
  for (const [name, file] of Object.entries(files)) {
    const project_dir = `${wire.directory}/${name}`
    await wire.upload(`${project_dir}/.openhands/hooks.json`, JSON.stringify(file))
    const { hook_config } = await wire.requestOrThrow<{ hook_config: unknown }>('POST', '/api/hooks', {
      body: { project_dir },
    })
    expect(hook_config).toMatchObject({
      pre_tool_use: [{ matcher: 'terminal', hooks: [{ type: 'command', command: 'true', timeout: 5 }] }],
    })
  }
})

wireCase('POST /api/hooks', 'is null without hooks, also without a folder', async () => {
  for (const body of [{ project_dir: wire.directory }, { project_dir: `${wire.directory}/nothing` }])
    expect(await wire.requestOrThrow('POST', '/api/hooks', { body })).toEqual({ hook_config: null })
  expect(await wire.requestStatus('POST', '/api/hooks', { body: { project_dir: 5 } })).toBe(422)
})
