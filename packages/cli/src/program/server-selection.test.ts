import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Command } from 'commander'
import { expect, onTestFinished, test } from 'vitest'
import type { Config } from '../context/config.ts'
import { contextsPath } from '../context/contexts.ts'
import { ServerSelection } from './server-selection.ts'

const addresses = {
  ofContext: 'http://context.example:1',
  ofVariable: 'http://variable.example:2',
} as const

/** The server that a command of these kinds gets. */
async function select(
  kinds: readonly ['agent' | 'sandbox', ...('agent' | 'sandbox')[]],
  of: {
    readonly current?: 'agent' | 'sandbox'
    readonly variable?: 'agent' | 'sandbox'
    readonly flags?: string[]
  },
) {
  const home = mkdtempSync(join(tmpdir(), 'slipway-selection-'))
  onTestFinished(() => rmSync(home, { recursive: true }))
  const env = { XDG_CONFIG_HOME: home, HOME: home, SLIPWAY_CONFIG_DIR: home }
  const contexts = { named: { url: addresses.ofContext, kind: of.current ?? 'sandbox' } }
  const path = contextsPath(env)
  mkdirSync(dirname(path), { recursive: true })
  const current = of.current === undefined ? {} : { current: 'named' }
  writeFileSync(path, JSON.stringify({ ...current, contexts }), { mode: 0o600 })
  const own = {
    ...(of.variable === 'agent' && { url: addresses.ofVariable }),
    ...(of.variable === 'sandbox' && { sandboxUrl: addresses.ofVariable }),
  }
  const config = {
    ...{ url: 'http://127.0.0.1:1', sandboxUrl: own.sandboxUrl ?? 'http://127.0.0.1:2', own, env },
    ...{ fileKeys: {}, file: { path: '', values: {} }, dataDirectory: join(home, 'data') },
  } as unknown as Config
  const slipway = new Command().option('--url <url>').option('--context <name>').option('--json')
  slipway.exitOverride().parse(of.flags ?? [], { from: 'user' })
  const selection = new ServerSelection(slipway, config, AbortSignal.timeout(10_000))
  const { kind, url } = await selection.select(undefined, kinds)
  return { kind, url }
}

const sandboxCommands = [['sandbox'], ['agent', 'sandbox']] as const

test.each(sandboxCommands)(
  '%s %s: the variable of the address comes before the current context',
  async (...kinds) => {
    const named = { kind: 'sandbox', url: addresses.ofContext }
    const own = { kind: 'sandbox', url: addresses.ofVariable }
    expect(await select(kinds as never, { current: 'sandbox' })).toEqual(named)
    expect(await select(kinds as never, { current: 'sandbox', variable: 'sandbox' })).toEqual(own)
    const flags = ['--context', 'named']
    expect(await select(kinds as never, { current: 'sandbox', variable: 'sandbox', flags })).toEqual(named)
  },
)

test('a command for conversations stays with agent servers where nothing else is about a sandbox server', async () => {
  const both = ['agent', 'sandbox'] as const
  const agent = { kind: 'agent', url: addresses.ofContext }
  expect(await select(both, { current: 'agent', variable: 'sandbox' })).toEqual(agent)
  expect(await select(both, { current: 'sandbox', variable: 'agent' })).toEqual({
    kind: 'agent',
    url: addresses.ofVariable,
  })
  expect((await select(both, { variable: 'sandbox' })).kind).toBe('agent')
})
