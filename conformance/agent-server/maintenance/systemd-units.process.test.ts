import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { commandMain } from '@slipway/shared/process/testing'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../../packages/storage/src/testing/temporary-directory.ts'

const root = resolve(import.meta.dirname, '../../..')
const units = ['slipway-agent-server', 'slipway-sandbox-server']

const unitPath = (name: string) => join(root, 'deploy/systemd', `${name}.service`)

function hasSystemd(): boolean {
  try {
    execFileSync('systemd-analyze', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

test.each(units)('the unit %s starts a server in its state directory, and its stop ends it', async (name) => {
  const unit = readFileSync(unitPath(name), 'utf8')
  const command = /^ExecStart=(.+)$/m.exec(unit)?.[1] ?? ''
  using directory = temporaryDirectory()
  const program = join(directory.path, 'slipway')
  writeFileSync(
    program,
    `#!/bin/sh\nexec "${process.execPath}" "${commandMain}" "$@" --port 0 --no-console\n`,
  )
  chmodSync(program, 0o755)
  const data = join(directory.path, 'state')
  const [file = '', ...args] = command.replaceAll(`\${STATE_DIRECTORY}`, data).split(' ')
  const inherited = Object.entries(process.env).filter(([name]) => !/^(SLIPWAY|LLM)_/.test(name))
  const child = spawn(file, args, {
    env: {
      ...Object.fromEntries(inherited),
      PATH: `${directory.path}${delimiter}${process.env.PATH}`,
      SLIPWAY_ISOLATION: 'none',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const closed = once(child, 'close')
  try {
    let url: string | undefined
    for await (const line of createInterface(child.stdout)) {
      url = /ready: (http:\S+)/.exec(line)?.[1]
      if (url !== undefined) break
    }
    expect((await fetch(new URL('/health', url))).status).toBe(200)
    expect(existsSync(join(data, 'lock.db'))).toBe(true)
  } finally {
    child.kill('SIGTERM')
  }
  expect((await closed)[0]).toBe(0)
})

test.skipIf(!hasSystemd())('systemd finds nothing wrong with the units (needs systemd-analyze)', () => {
  for (const name of units)
    execFileSync('systemd-analyze', ['verify', '--recursive-errors=no', unitPath(name)], { stdio: 'pipe' })
})
