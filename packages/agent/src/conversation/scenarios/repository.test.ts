import { existsSync } from 'node:fs'
import { chmod, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { RepositoryConsents, RepositoryVerdict } from '../../repository/repository-access.ts'
import { readRepositoryCode } from '../../repository/repository-code.ts'
import type { ConversationDeps } from '../runtime/deps.ts'
import { ConversationFixtures, FakeModel, type TestConversation } from '../testing/fixtures.ts'

let fixtures: ConversationFixtures
beforeAll(async () => {
  fixtures = await ConversationFixtures.open()
})
afterAll(async () => {
  await fixtures[Symbol.asyncDispose]()
})

const hooks = JSON.stringify({ session_start: [{ hooks: [{ command: 'echo of the repository' }] }] })

async function createWithHooks(
  repositoryConsents: RepositoryConsents,
  deps: Partial<ConversationDeps> = {},
): Promise<TestConversation> {
  const life = await fixtures.create({ model: new FakeModel().open, deps: { repositoryConsents, ...deps } })
  await mkdir(join(life.workspace, '.openhands'), { recursive: true })
  await writeFile(join(life.workspace, '.openhands/hooks.json'), hooks)
  return life
}

const always = (verdict: RepositoryVerdict): RepositoryConsents => ({
  check: async () => ({ id: 'c', verdict }),
})

test('a repository that no one has decided about is left out, and the log says so once', async () => {
  const life = await createWithHooks(always('skipped'))
  await life.sendAndWait('Hello')
  await life.sendAndWait('Again')
  const keys = (await life.eventSummary()).filter((line) => /hook_execution|repository_consent/.test(line))
  expect(keys).toEqual(['repository_consent'])
  expect(life.status).toBe('finished')
})

test.each([
  ['allowed', ['repository_consent', 'hook_execution']],
  ['denied', ['repository_consent']],
  ['trusted', ['hook_execution']],
] as const)('a repository that is %s', async (verdict, expected) => {
  const life = await createWithHooks(always(verdict))
  await life.sendAndWait('Hello')
  const keys = (await life.eventSummary()).filter((line) => /hook_execution|repository_consent/.test(line))
  expect(keys).toEqual(expected)
})

test('a run waits for a decision: neither an acceptance nor another run goes past it', async () => {
  let verdict: RepositoryVerdict = 'pending'
  const life = await createWithHooks({ check: async () => ({ id: 'c', verdict }) })
  await life.sendAndWait('Hello')
  expect(life.status).toBe('waiting_for_confirmation')
  expect(life.conversation.awaitedConsent).toBe('c')
  await life.conversation.resolveConfirmation({ accept: true, reason: '' })
  expect(life.status).toBe('waiting_for_confirmation')
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('waiting_for_confirmation')
  verdict = 'allowed'
  await life.conversation.run()
  await life.conversation.waitUntilIdle()
  expect(life.status).toBe('finished')
  const keys = (await life.eventSummary()).filter((line) => /hook_execution|repository_consent/.test(line))
  expect(keys).toEqual(['repository_consent', 'repository_consent', 'hook_execution'])
})

test('a decision in the moment before the run begins to wait is not missed', async () => {
  let checks = 0
  const life = await createWithHooks({
    check: async () => ({ id: 'c', verdict: ++checks > 2 ? 'allowed' : 'pending' }),
  })
  await life.sendAndWait('Hello')
  expect(life.status).toBe('finished')
})

type Call = readonly [tool: string, args: object]

/** A repository whose hook refuses every command, and decisions by the hash of its content. */
async function openGuarded(undecided: 'pending' | 'skipped', later: readonly Call[] = []) {
  const allowed = new Set<string>()
  const repositoryConsents: RepositoryConsents = {
    check: async ({ hash }) => ({
      id: hash.slice(0, 32),
      verdict: allowed.has(hash) ? 'allowed' : undecided,
    }),
  }
  const calls: Call[] = []
  const player = new FakeModel([{ calls }, ...later.map((call) => ({ calls: [call] }))])
  const life = await fixtures.create({
    model: player.open,
    deps: { repositoryConsents },
    agent: { tools: [{ name: 'terminal' }, { name: 'file_editor' }] },
  })
  const file = (path: string) => join(life.workspace, path)
  await mkdir(file('.openhands'), { recursive: true })
  await writeFile(file('.openhands/guard.sh'), '#!/bin/sh\necho guarded >&2; exit 2\n', { mode: 0o755 })
  const config = { pre_tool_use: [{ matcher: 'terminal', hooks: [{ command: '.openhands/guard.sh' }] }] }
  await writeFile(file('.openhands/hooks.json'), JSON.stringify(config))
  const allow = async () => void allowed.add((await readRepositoryCode(life.workspace)).hash)
  await allow()
  const runAgain = async () => {
    await life.conversation.run()
    await life.conversation.waitUntilIdle()
  }
  return { life, player, file, allow, calls, runAgain }
}

const edit = (path: string, old_str: string, new_str: string): Call => [
  'file_editor',
  { command: 'str_replace', path, old_str, new_str },
]
const touch: Call = ['terminal', { command: 'touch done' }]

test.each([
  ['pending', 'guard.sh', 'exit 2', 'exit 0'],
  ['skipped', 'guard.sh', 'exit 2', 'exit 0'],
  ['skipped', 'hooks.json', 'pre_tool_use', 'session_end'],
  ['skipped', 'hooks.json', '{"pre_tool_use"', '"pre_tool_use"'],
] as const)(
  'an agent gets past a hook neither in the same reply nor later (undecided: %s) by an edit of %s: %s to %s',
  async (undecided, name, before, after) => {
    const { life, player, file, allow, calls, runAgain } = await openGuarded(undecided, [touch])
    calls.push(edit(file(`.openhands/${name}`), before, after), touch)
    await life.sendAndWait('go')
    expect(await readFile(file(`.openhands/${name}`), 'utf8')).not.toContain(before)
    const [rejection] = await life.eventsOfKind('UserRejectObservation')
    expect(rejection).toMatchObject({ tool_name: 'terminal', rejection_source: 'user' })
    expect(rejection?.rejection_reason).toContain('have changed since the user allowed them')
    expect(life.status).toBe('waiting_for_confirmation')
    expect(life.conversation.awaitedConsent).toBeDefined()
    // Another run, and a process that has just started, wait too.
    await runAgain()
    expect(life.status).toBe('waiting_for_confirmation')
    await life.reopen()
    await runAgain()
    expect(life.status).toBe('waiting_for_confirmation')
    expect(player.requests).toHaveLength(1)
    expect(existsSync(file('done'))).toBe(false)
    // What the user allows decides from then on.
    await allow()
    await runAgain()
    expect(life.status).toBe('finished')
    expect(existsSync(file('done'))).toBe(true)
  },
)

test('a conversation whose hooks are gone or cannot run waits, and continues when they are as they were', async () => {
  const { life, file, runAgain, player } = await openGuarded('skipped')
  await life.sendAndWait('Hello')
  expect(life.status).toBe('finished')
  const text = await readFile(file('.openhands/hooks.json'))
  for (const [change, restore] of [
    [() => rm(file('.openhands/hooks.json')), () => writeFile(file('.openhands/hooks.json'), text)],
    [() => chmod(file('.openhands/guard.sh'), 0o644), () => chmod(file('.openhands/guard.sh'), 0o755)],
  ]) {
    const count = player.requests.length
    await change?.()
    await life.sendAndWait('Again')
    expect(life.status).toBe('waiting_for_confirmation')
    await life.reopen()
    await runAgain()
    expect(life.status).toBe('waiting_for_confirmation')
    expect(player.requests).toHaveLength(count)
    await restore?.()
    await runAgain()
    expect(life.status).toBe('finished')
  }
})

test('the content of a repository has the files that its commands name, and no others', async () => {
  const { life, file } = await openGuarded('skipped')
  const hash = async (command: string) => {
    const config = { stop: [{ hooks: [{ command }] }] }
    await writeFile(file('.openhands/hooks.json'), JSON.stringify(config))
    return (await readRepositoryCode(life.workspace)).hash
  }
  const outside = join(life.workspace, '..', `${life.id}-outside.sh`)
  await writeFile(outside, 'one')
  await symlink(outside, file('link.sh'))
  await symlink('.openhands/guard.sh', file('inner.sh'))
  await mkdir(file('my tools'))
  await writeFile(file('my tools/check'), 'one')
  const paths = ['.openhands/guard.sh', 'my tools/check']
  const commands: readonly (readonly [command: string, named: string | undefined])[] = [
    ['.openhands/guard.sh --strict', paths[0]],
    ['sh "$OPENHANDS_PROJECT_DIR"/.openhands/guard.sh', paths[0]],
    [`cat x|sh -c 'exec ${file('.openhands/guard.sh')};true'`, paths[0]],
    ['cd .openhands && ./guard.sh', paths[0]],
    ['node --import=./.openhands/guard.sh', paths[0]],
    ['./inner.sh', paths[0]],
    ['sh "my tools/check"', paths[1]],
    [`./link.sh ${outside} ../${life.id}-outside.sh`, undefined],
    ['echo guard.sh', undefined],
  ]
  for (const [command, named] of commands) {
    const before = await hash(command)
    expect(await hash(command), command).toBe(before)
    await writeFile(outside, String(Math.random()))
    for (const path of paths) {
      await writeFile(file(path), `${Math.random()}`)
      const after = await hash(command)
      if (path === named) expect(after, command).not.toBe(before)
    }
    if (named === undefined) expect(await hash(command), command).toBe(before)
  }
  await writeFile(file('.openhands/guard.sh'), 'exit 2')
  await hash('.openhands/guard.sh')
  expect((await readRepositoryCode(life.workspace)).items).toEqual([
    { kind: 'hook', path: '.openhands/hooks.json', name: 'stop', command: '.openhands/guard.sh' },
    { kind: 'script', path: '.openhands/guard.sh', name: 'that a command names', command: 'exit 2' },
  ])
})

test('hooks of the home directory also run where a repository has hooks that were allowed', async () => {
  const home = join(fixtures.directory, 'home-with-hooks')
  await mkdir(join(home, '.openhands'), { recursive: true })
  const config = { session_start: [{ hooks: [{ command: 'echo of the home directory' }] }] }
  await writeFile(join(home, '.openhands/hooks.json'), JSON.stringify(config))
  const life = await createWithHooks(always('allowed'), { homeDirectory: home })
  await life.sendAndWait('Hello')
  const updates = await life.eventsOfKind('ConversationStateUpdateEvent')
  const executions = updates
    .filter(({ key }) => key === 'hook_execution')
    .map(({ value }) => Object(value).command)
  expect(executions).toEqual(['echo of the home directory', 'echo of the repository'])
})
