import { chmod, mkdtemp, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { agent as agentSchema, isAcpAgent } from '@slipway/protocol'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Secrets } from '../secrets/secrets.ts'
import { prepareLaunch } from './launch.ts'

let directory: string
beforeEach(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-launch-')))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

async function launch(members: object, values: Record<string, string> = {}, PATH = '/nothing') {
  const agent = agentSchema.parse({ kind: 'ACPAgent', acp_command: ['x'], ...members })
  if (!isAcpAgent(agent)) throw new Error('it is an external agent')
  const sources = Object.entries(values).map(([name, value]) => [name, { kind: 'StaticSecret', value }])
  const secrets = new Secrets(Object.fromEntries(sources))
  const warnings: string[] = []
  const options = {
    ...{ directory, environment: { PATH, HOME: directory }, secrets },
    findCredential: () => undefined,
    warn: (text: string) => warnings.push(text),
  }
  return { ...(await prepareLaunch(agent, options, AbortSignal.timeout(10_000))), warnings }
}

test('secrets are variables where their names are those of variables', async () => {
  const { env, args, command } = await launch({ acp_args: ['--a'] }, { KEY: 'k-value-1', 'no name': 'v' })
  expect([command, args, env]).toEqual(['x', ['--a'], { KEY: 'k-value-1' }])
})

test('a subscription has no key beside it, and Codex gets its address in its configuration', async () => {
  const claude = { CLAUDE_CODE_OAUTH_TOKEN: 't-value-1', ANTHROPIC_API_KEY: 'k-value-1', OTHER: 'o' }
  expect((await launch({}, claude)).env).toEqual({ CLAUDE_CODE_OAUTH_TOKEN: 't-value-1', OTHER: 'o' })
  const codex = { acp_command: ['codex-acp'] }
  const { env } = await launch(codex, { OPENAI_BASE_URL: 'http://x/v1', CODEX_CONFIG: '{"a":1}' })
  expect(JSON.parse(env.CODEX_CONFIG ?? '')).toEqual({ a: 1, openai_base_url: 'http://x/v1' })
  const own = await launch(codex, { OPENAI_BASE_URL: 'http://x/v1', CODEX_CONFIG: '{"model_provider":"p"}' })
  expect(own.env.CODEX_CONFIG).toBe('{"model_provider":"p"}')
})

test('a file with a secret is private, is in no folder of the user, and is removed', async () => {
  const users = join(directory, 'of-the-user')
  const values = {
    CODEX_AUTH_JSON: '{"a":"b"}',
    CODEX_HOME: users,
    GOOGLE_APPLICATION_CREDENTIALS_JSON: '{}',
  }
  const { env, warnings, dispose } = await launch({}, values)
  expect(env).toEqual({
    CODEX_HOME: join(directory, 'acp/codex'),
    GOOGLE_APPLICATION_CREDENTIALS: join(directory, 'acp/gemini-cli/gcloud-credentials.json'),
  })
  const path = join(directory, 'acp/codex/auth.json')
  expect(await readFile(path, 'utf8')).toBe('{"a":"b"}')
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect(warnings).toHaveLength(1)
  await dispose()
  await expect(stat(path)).rejects.toThrow()
  await expect(stat(users)).rejects.toThrow()
})

test('a folder for its data is its own, and the file of its login is there', async () => {
  const members = { acp_command: ['npx', '-y', '@agentclientprotocol/codex-acp'], acp_isolate_data_dir: true }
  const { env, writable } = await launch(members, { CODEX_AUTH_JSON: '{}' })
  const path = join(directory, 'acp/codex-acp')
  expect(env).toEqual({ CODEX_HOME: path })
  expect(writable).toContain(path)
  await stat(join(path, 'auth.json'))
})

test('a program that is installed is taken instead of its package', async () => {
  const program = join(directory, 'gemini')
  await writeFile(program, '#!/bin/sh\n')
  await chmod(program, 0o755)
  const started = async (acp_command: string[], path = directory) => {
    const { command, args } = await launch({ acp_command }, {}, path)
    return [command, ...args]
  }
  expect(await started(['npx', '-y', '@google/gemini-cli@0.1.0', '--acp'])).toEqual(['gemini', '--acp'])
  for (const words of [
    ['npx', '-y', 'other'],
    ['/x/gemini-cli', '--acp'],
  ])
    expect(await started(words)).toEqual(words)
  const unchanged = ['npx', '-y', '@google/gemini-cli', '--acp']
  expect(await started(unchanged, '/nothing')).toEqual(unchanged)
})
