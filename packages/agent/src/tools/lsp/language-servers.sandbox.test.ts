import { chmod, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Workspace } from '../../workspace/workspace.ts'
import { canSandboxCommands } from '../testing/can-sandbox-commands.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { LanguageServers } from './language-servers.ts'

let fixtures: ToolFixtures
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
})
afterEach(() => fixtures[Symbol.asyncDispose]())

test.skipIf(!canSandboxCommands())(
  'a server that runs programs of the repository starts in the sandbox',
  async () => {
    const bin = fixtures.outside
    const server = join(import.meta.dirname, 'testing/scripted-server.mjs')
    const lines = [`echo changed > ${join(bin, 'outside')}`, 'echo changed > "$SLIPWAY_WORKSPACE/inside"']
    const program = `#!/bin/sh\n${lines.join('\n')}\nexec ${process.execPath} ${server}\n`
    await writeFile(join(bin, 'rust-analyzer'), program)
    await chmod(join(bin, 'rust-analyzer'), 0o755)
    await using workspace = await Workspace.open({
      directory: fixtures.directory,
      env: { PATH: `${bin}:${dirname(process.execPath)}:/usr/bin:/bin` },
      readable: [bin],
      sandbox: { mode: 'workspace-write', network: false },
    })
    const servers = new LanguageServers(workspace, { waitMs: 60_000 })
    const told = await servers.newErrors('a.rs', { before: undefined, after: 'wrong' })
    expect(told).toContain('found by rust-analyzer')
    expect(await readFile(fixtures.path('inside'), 'utf8')).toBe('changed\n')
    await expect(readFile(join(bin, 'outside'))).rejects.toThrow('ENOENT')
  },
)
