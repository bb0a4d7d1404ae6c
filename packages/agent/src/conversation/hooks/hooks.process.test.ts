import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type HookEvent, hookConfig, must } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadHooks } from '../../repository/hooks-file.ts'
import { Workspace } from '../../workspace/workspace.ts'
import { Hooks, type HooksOptions, type HookVerdict } from './hooks.ts'
import { matchesTool, resultFromDecision } from './protocol.ts'

const conversation = '0b0b0b0b-0000-4000-8000-000000000001'
const neverAborted = new AbortController().signal
let directory = ''
let workspace: Workspace

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-hooks-'))
  workspace = await Workspace.open({ directory, env: { PATH: '/usr/bin:/bin', OF_WORKSPACE: 'yes' } })
})

afterAll(async () => {
  await workspace[Symbol.asyncDispose]()
  await rm(directory, { recursive: true, force: true })
})

function open(config: unknown, askModel?: HooksOptions['askModel']): Hooks {
  return new Hooks({
    clock: systemClock,
    config: hookConfig.parse(config),
    workspace,
    conversation,
    askModel,
  })
}

/** Runs one command as a hook before a tool. */
async function before(command: string, more: Record<string, unknown> = {}): Promise<HookVerdict> {
  const hooks = open({ pre_tool_use: [{ hooks: [{ command, ...more }] }] })
  const verdict = await hooks.run(
    'pre_tool_use',
    { tool_name: 'terminal', tool_input: { command: 'ls' } },
    neverAborted,
  )
  await hooks.close()
  return verdict
}

const emptyVerdict: HookVerdict = {
  isBlocked: false,
  reason: undefined,
  additionalContext: [],
  shouldStop: false,
  failures: [],
  events: [],
}

test('a hook that exits with 0 and no output allows the event', async () => {
  expect(await before('true')).toEqual(emptyVerdict)
  expect(await before('echo all is well')).toEqual(emptyVerdict)
  expect(await before('echo "[1, 2]"')).toEqual(emptyVerdict)
})

test('a hook that ends with 2 blocks, for the reason that it wrote to its error output', async () => {
  const verdict = await before('echo "not on a Friday" >&2; exit 2')
  expect(verdict).toEqual({ ...emptyVerdict, isBlocked: true, reason: 'not on a Friday' })
})

test('the reason in a blocking hook’s output has precedence over its error output', async () => {
  const verdict = await before(`echo '{"reason": "in JSON"}'; echo noise >&2; exit 2`)
  expect(verdict).toMatchObject({ isBlocked: true, reason: 'in JSON' })
})

test('a hook that ends with 0 and denies in JSON blocks', async () => {
  const verdict = await before(`echo '{"decision": "deny", "reason": "no", "additionalContext": "see docs"}'`)
  expect(verdict).toEqual({ ...emptyVerdict, isBlocked: true, reason: 'no', additionalContext: ['see docs'] })
})

test('a hook can allow and add context, and can say that the run should end', async () => {
  expect(await before(`echo '{"decision": "allow", "additionalContext": "mind the gap"}'`)).toEqual({
    ...emptyVerdict,
    additionalContext: ['mind the gap'],
  })
  expect(await before(`echo '{"continue": false, "reason": "enough"}'`)).toEqual({
    ...emptyVerdict,
    shouldStop: true,
    reason: 'enough',
  })
})

test('without on_error a hook with another exit code, without a program or killed by a signal blocks nothing', async () => {
  for (const [command, why] of [
    ['echo broken >&2; exit 1', 'exit code 1: broken'],
    ['/no/such/program', 'exit code 127'],
    ['kill -9 $$', 'was killed'],
    ['  ', 'has no command'],
    ['true \0', 'exit code 127'],
  ] as const) {
    const verdict = await before(command, { name: 'guard' })
    expect(verdict).toMatchObject({ isBlocked: false, shouldStop: false })
    expect(verdict.failures).toHaveLength(1)
    expect(verdict.failures[0]).toContain('PreToolUse hook "guard"')
    expect(verdict.failures[0]).toContain(why)
  }
})

test('a hook with on_error: block blocks when it cannot run, fails or takes too long', async () => {
  const script = join(directory, 'not-executable.sh')
  await writeFile(script, '#!/bin/sh\nexit 0\n', { mode: 0o644 })
  for (const [command, why] of [
    [script, /ended with exit code 126: .*Permission denied/s],
    ['/no/such/program', /ended with exit code 127/],
    ['echo broken >&2; exit 1', /ended with exit code 1: broken/],
    ['kill -9 $$', /was killed/],
    ['  ', /has no command/],
    ['sleep 60', /took longer than 0.5 s/],
  ] as const) {
    const verdict = await before(command, { name: 'guard', on_error: 'block', timeout: 0.5 })
    expect(verdict.isBlocked, command).toBe(true)
    expect(verdict.reason).toMatch(/^The PreToolUse hook "guard" /)
    expect(verdict.reason).toMatch(why)
    expect(verdict.failures).toHaveLength(1)
  }
  expect(await before('exit 0', { on_error: 'block' })).toEqual(emptyVerdict)
  expect(await before('echo no >&2; exit 2', { on_error: 'block' })).toMatchObject({
    reason: 'no',
    failures: [],
  })
  expect((await before('exit 1', { on_error: 'allow' })).isBlocked).toBe(false)
  expect((await before('exit 1', { on_error: 'block', async: true })).isBlocked).toBe(false)
  expect(() => hookConfig.parse({ stop: [{ hooks: [{ command: 'true', on_error: 'deny' }] }] })).toThrow()
})

test('on_error blocks the first event that can be blocked, and neither an end nor what is done', async () => {
  const block = [{ hooks: [{ command: 'exit 1', on_error: 'block' }] }]
  const hooks = open({
    user_prompt_submit: block,
    post_tool_use: block,
    stop: block,
    session_start: block,
    pre_tool_use: [
      { matcher: '(', hooks: [{ command: 'exit 1' }, { command: 'exit 9', on_error: 'block' }] },
    ],
  })
  const isBlocked = async (event: HookEvent) =>
    (await hooks.run(event, { tool_name: 'terminal' }, neverAborted)).isBlocked
  expect(await isBlocked('user_prompt_submit')).toBe(true)
  for (const event of ['post_tool_use', 'stop', 'session_start'] as const)
    expect(await isBlocked(event)).toBe(false)
  // A matcher that is no regular expression: the hook that blocks on errors is for every tool.
  const verdict = await hooks.run('pre_tool_use', { tool_name: 'grep' }, neverAborted)
  expect(verdict.isBlocked).toBe(true)
  expect(verdict.failures).toEqual([
    'The matcher ( of PreToolUse is no regular expression.',
    'The PreToolUse hook "exit 9" ended with exit code 9.',
  ])
})

test('a hook that takes too long is killed with what it started, and blocks nothing', async () => {
  const mark = join(directory, 'late')
  const verdict = await before(`(sleep 2; touch ${mark}) & wait; exit 2`, { timeout: 0.3 })
  expect(verdict.isBlocked).toBe(false)
  expect(verdict.failures[0]).toContain('took longer than 0.3 s')
  await sleep(2_200)
  expect(existsSync(mark)).toBe(false)
})

test('a time-out of years is none', async () => {
  expect(await before('sleep 0.2; exit 2', { timeout: 1e9 })).toMatchObject({ isBlocked: true, failures: [] })
})

test('a hook reads the event as JSON and has its environment', async () => {
  const file = join(directory, 'told.json')
  const hooks = open({
    PreToolUse: [{ matcher: 'terminal', hooks: [{ command: `cat > ${file}; env > ${file}.env` }] }],
  })
  const payload = { tool_name: 'terminal', tool_input: { command: 'echo "$HOME" ü\n' } }
  await hooks.run('pre_tool_use', payload, neverAborted)
  expect(JSON.parse(await readFile(file, 'utf8'))).toEqual({
    event_type: 'PreToolUse',
    tool_name: 'terminal',
    tool_input: payload.tool_input,
    tool_response: null,
    message: null,
    session_id: conversation,
    working_dir: workspace.directory,
    metadata: {},
  })
  const env = (await readFile(`${file}.env`, 'utf8')).split('\n')
  for (const prefix of ['OPENHANDS', 'SLIPWAY']) {
    expect(env).toContain(`${prefix}_PROJECT_DIR=${workspace.directory}`)
    expect(env).toContain(`${prefix}_SESSION_ID=${conversation}`)
    expect(env).toContain(`${prefix}_EVENT_TYPE=PreToolUse`)
    expect(env).toContain(`${prefix}_TOOL_NAME=terminal`)
  }
  expect(env).toContain('OF_WORKSPACE=yes')
})

test('a hook that does not read a large event is not disturbed by it', async () => {
  const hooks = open({ post_tool_use: [{ hooks: [{ command: 'exit 0' }] }] })
  const tool_response = 'x'.repeat(4 * 1024 * 1024)
  expect(await hooks.run('post_tool_use', { tool_name: 'terminal', tool_response }, neverAborted)).toEqual(
    emptyVerdict,
  )
})

test('a hook that floods its output is read to the end, and texts are bounded', async () => {
  const verdict = await before('head -c 20000000 /dev/zero | tr "\\0" x >&2; exit 2')
  expect(verdict.isBlocked).toBe(true)
  expect(must(verdict.reason, 'reason').length).toBeLessThanOrEqual(10_000)
})

test('hooks run one after another, and the first that blocks is the last', async () => {
  const file = join(directory, 'order')
  const hook = (name: string, end = '') => ({ command: `echo ${name} >> ${file}${end}` })
  const hooks = [hook('a', '; sleep 0.3'), hook('b', '; exit 2'), hook('c')]
  const open2 = open({
    pre_tool_use: [{ hooks }],
    post_tool_use: [{ hooks: [hooks[1]] }, { hooks: [hooks[2]] }],
  })
  expect((await open2.run('pre_tool_use', { tool_name: 'grep' }, neverAborted)).isBlocked).toBe(true)
  expect(await readFile(file, 'utf8')).toBe('a\nb\n')
  expect((await open2.run('post_tool_use', { tool_name: 'grep' }, neverAborted)).isBlocked).toBe(true)
  expect(await readFile(file, 'utf8')).toBe('a\nb\nb\nc\n')
})

test('a matcher chooses tools, and events of no tool pass it over', async () => {
  const block = [{ command: 'exit 2' }]
  const hooks = open({
    pre_tool_use: [{ matcher: 'file_editor|edit', hooks: block }],
    stop: [{ matcher: 'nobody', hooks: block }],
  })
  expect((await hooks.run('pre_tool_use', { tool_name: 'edit' }, neverAborted)).isBlocked).toBe(true)
  expect((await hooks.run('pre_tool_use', { tool_name: 'editor' }, neverAborted)).isBlocked).toBe(false)
  expect((await hooks.run('stop', {}, neverAborted)).isBlocked).toBe(true)
})

test('a matcher that is no regular expression matches nothing and is reported', async () => {
  const hooks = open({ pre_tool_use: [{ matcher: '(', hooks: [{ command: 'exit 2' }] }] })
  const verdict = await hooks.run('pre_tool_use', { tool_name: '(' }, neverAborted)
  expect(verdict).toEqual({
    ...emptyVerdict,
    failures: ['The matcher ( of PreToolUse is no regular expression.'],
  })
})

test('a name without special characters matches itself and nothing else', () => {
  const name = fc.stringMatching(/^[a-z_]{1,12}$/)
  fc.assert(
    fc.property(name, name, (matcher, tool) => {
      expect(matchesTool(matcher, tool)).toBe(matcher === tool)
      expect(matchesTool(`${matcher}|x`, matcher)).toBe(true)
      expect(matchesTool(`${matcher}.+`, matcher)).toBe(false)
      expect(matchesTool('*', tool)).toBe(true)
      expect(matchesTool('', tool)).toBe(true)
    }),
  )
})

test('a hook in the background blocks nothing, and its failure comes with a later event', async () => {
  const file = join(directory, 'background')
  const hooks = open({
    session_start: [{ hooks: [{ command: `sleep 0.2; echo done > ${file}; exit 2`, async: true }] }],
    stop: [{ hooks: [{ command: 'exit 9', async_: true, name: 'nine' }] }],
  })
  expect(await hooks.run('session_start', {}, neverAborted)).toEqual(emptyVerdict)
  await expect.poll(() => existsSync(file), { timeout: 10_000 }).toBe(true)
  expect(await hooks.run('stop', {}, neverAborted)).toEqual(emptyVerdict)
  const failures: string[] = []
  const later = async () => {
    failures.push(...(await hooks.run('session_end', {}, neverAborted)).failures)
    return failures
  }
  await expect.poll(later, { timeout: 10_000 }).toEqual(['The Stop hook "nine" ended with exit code 9.'])
  await hooks.close()
})

test('closing waits a moment for hooks in the background and then ends them', async () => {
  const [quick, slow] = [join(directory, 'quick'), join(directory, 'slow')]
  const hooks = open({
    session_end: [
      {
        hooks: [
          { command: `sleep 0.1; touch ${quick}`, async: true },
          { command: `sleep 60; touch ${slow}`, async: true },
        ],
      },
    ],
  })
  await hooks.run('session_end', {}, neverAborted)
  await hooks.close(3_000)
  expect(existsSync(quick)).toBe(true)
  expect(existsSync(slow)).toBe(false)
})

test('an abort kills the hook that runs, and the run rejects with its reason', async () => {
  const hooks = open({ pre_tool_use: [{ hooks: [{ command: 'sleep 60' }] }] })
  const abort = new AbortController()
  const run = hooks.run('pre_tool_use', { tool_name: 'terminal' }, abort.signal)
  setTimeout(() => abort.abort(new Error('stopped by the test')), 100)
  await expect(run).rejects.toThrow('stopped by the test')
})

test('a prompt hook sends rule and event to a model and applies its decision', async () => {
  const questions: string[] = []
  const config = { pre_tool_use: [{ hooks: [{ type: 'prompt', prompt: 'No deletions.', name: 'rule' }] }] }
  const run = async (answer: string) => {
    const hooks = open(config, async ({ system, prompt }) => {
      questions.push(system + prompt)
      return answer
    })
    return await hooks.run(
      'pre_tool_use',
      { tool_name: 'terminal', tool_input: { command: 'rm x' } },
      neverAborted,
    )
  }
  expect(await run('{"decision": "deny", "reason": "it deletes"}')).toMatchObject({
    isBlocked: true,
    reason: 'it deletes',
  })
  expect(await run('```json\n{"decision": "allow"}\n```')).toEqual(emptyVerdict)
  const unclear = await run('I would rather not.')
  expect(unclear.isBlocked).toBe(false)
  expect(unclear.failures[0]).toContain('gave no decision')
  expect(questions[0]).toContain('No deletions.')
  expect(questions[0]).toContain('"rm x"')
})

test('a prompt hook without a model, with one that fails, or with one that never answers, blocks nothing', async () => {
  const config = { stop: [{ hooks: [{ type: 'agent', prompt: 'Is it done?', timeout: 0.2 }] }] }
  for (const [ask, why] of [
    [undefined, 'no model'],
    [async () => Promise.reject(new Error('out of reach')), 'out of reach'],
    [() => new Promise<string>(() => {}), 'took longer than 0.2 s'],
  ] as const) {
    const verdict = await open(config, ask).run('stop', {}, neverAborted)
    expect(verdict.isBlocked).toBe(false)
    expect(verdict.failures[0]).toContain(why)
  }
})

test('whatever a model answers is a decision or a failure', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (answer) => {
      const { isBlocked, failure } = resultFromDecision(answer)
      expect(isBlocked && failure !== undefined).toBe(false)
    }),
  )
})

test('hooks are read from the project, then from the home directory', async () => {
  const [project, homeDirectory] = [join(directory, 'project'), join(directory, 'home')]
  for (const base of [project, homeDirectory]) await mkdir(join(base, '.openhands'), { recursive: true })
  expect(await loadHooks(project, homeDirectory)).toEqual({ config: undefined, issues: [] })
  const write = async (base: string, text: string) =>
    await writeFile(join(base, '.openhands/hooks.json'), text)
  await write(homeDirectory, '{"hooks": {"Stop": [{"hooks": [{"command": "of the home directory"}]}]}}')
  expect((await loadHooks(project, homeDirectory)).config?.stop[0]?.hooks[0]?.command).toBe(
    'of the home directory',
  )
  await write(project, '{"stop": [{"hooks": [{"command": "of project"}]}]}')
  expect((await loadHooks(project, homeDirectory)).config?.stop[0]?.hooks[0]?.command).toBe('of project')
  for (const [text, why] of [
    ['{"stop": ', 'is not JSON'],
    ['{"stopp": []}', 'stopp: Extra inputs'],
    ['{"stop": [{"hooks": [{"timeout": "soon"}]}]}', 'stop.0.hooks.0.timeout'],
    [`${'{"hooks":'.repeat(20_000)}{}${'}'.repeat(20_000)}`, 'is not JSON'],
    [' '.repeat(300_000), 'larger than 256 KiB'],
    ['\0', 'is a binary file'],
  ] as const) {
    await write(project, text)
    const { config, issues } = await loadHooks(project, homeDirectory)
    expect(config?.stop[0]?.hooks[0]?.command).toBe('of the home directory')
    expect(issues).toHaveLength(1)
    expect(issues[0]).toContain(why)
  }
})
