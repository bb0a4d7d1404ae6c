import { once } from 'node:events'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { SandboxServerFixture } from '../../testing/sandbox-server-fixture.ts'

// Each command is its own process, each sandbox several, and the machine may have others to run.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const terminalCall = (line: string) => [{ name: 'terminal', arguments: { command: line } }]

let fixture: SandboxServerFixture

const runCli = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  fixture.runCli(args, { env })
const splitLines = (printed: string) => printed.trimEnd().split('\n')

/** Starts a conversation, follows it, and answers where it is. */
async function startAndFollow(
  ...args: string[]
): Promise<{ conversation: string; sandbox: string; printed: string }> {
  const { stdout, stderr, code } = await runCli(['app', 'start', ...args, '--follow'])
  const [, conversation = '', sandbox = ''] = /Conversation (\S+) in sandbox (\S+)/.exec(stderr) ?? []
  expect({ code, conversation, sandbox, stderr }).toMatchObject({
    code: 0,
    conversation: expect.stringMatching(/^[0-9a-f]{32}$/),
    sandbox: expect.stringMatching(/^sb-/),
  })
  return { conversation, sandbox, printed: stdout }
}

/** A model on this machine that is not ready for the first request of an agent. */
const modelServer = createServer((request, response) => {
  if (request.method === 'GET') return void response.writeHead(404).end()
  void text(request).then((sent) => {
    // The title is requested without tools.
    const isRefused = isFirstRequest && JSON.parse(sent).tools !== undefined
    if (isRefused) isFirstRequest = false
    if (isRefused) response.writeHead(503, { 'retry-after': '4' }).end()
    else {
      const choices = [{ index: 0, delta: { role: 'assistant', content: 'Here.' }, finish_reason: 'stop' }]
      const message = { role: 'assistant', content: 'Here.' }
      const isStream = JSON.parse(sent).stream === true
      const body = { id: 'x', created: 1, model: 'local', choices }
      const whole = { ...body, choices: [{ index: 0, message, finish_reason: 'stop' }] }
      response.setHeader('content-type', isStream ? 'text/event-stream' : 'application/json')
      response.end(isStream ? `data: ${JSON.stringify(body)}\n\ndata: [DONE]\n\n` : JSON.stringify(whole))
    }
  })
})
let isFirstRequest = true

beforeAll(async () => {
  await once(modelServer.listen(0, '127.0.0.1'), 'listening')
  const { port } = Object(modelServer.address())
  fixture = await SandboxServerFixture.start({ SLIPWAY_SANDBOX_HOST_PORTS: String(port) })
})

afterAll(async () => {
  modelServer.close()
  await fixture.stop()
})

test('a sandbox is started, listed, paused, resumed and removed', async () => {
  const made = await runCli(['sandbox', 'start', '--json'])
  expect(made.code).toBe(0)
  const { id, status, exposed_urls } = JSON.parse(made.stdout)
  expect({ status, urls: exposed_urls.length }).toEqual({ status: 'RUNNING', urls: 1 })

  const listed = await runCli(['sandboxes'])
  expect(splitLines(listed.stdout)).toEqual([
    expect.stringMatching(/^ID +STATUS +SPEC +ISOLATION +CREATED +DETAIL$/),
    expect.stringMatching(new RegExp(`^${id} +RUNNING +process +(namespaces|none) `)),
  ])
  const use = JSON.parse((await runCli(['sandbox', 'stats', '--json'])).stdout)
  expect(use.items).toMatchObject([{ sandbox_id: id, cpus: expect.any(Number) }])
  expect(use.items[0].memory_bytes).toBeGreaterThan(10_000_000)
  expect((await runCli(['sandbox', 'stats'])).stdout).toMatch(new RegExp(`^ID .*\\n${id} +\\d\\.\\d\\d +`))
  const paused = await runCli(['sandbox', 'pause', id])
  expect(paused).toMatchObject({ code: 0, stdout: 'PAUSED\n' })
  const [row] = splitLines((await runCli(['sandboxes', '--json'])).stdout)
  expect(JSON.parse(row ?? '')).toMatchObject({ id, status: 'PAUSED', session_api_key: null })

  const resumed = await runCli(['sandbox', 'resume', id])
  expect(resumed).toMatchObject({ code: 0, stdout: expect.stringMatching(/^RUNNING {2}http:\/\/\S+\n$/) })
  expect(await runCli(['sandbox', 'rm', id, '--json'])).toMatchObject({
    code: 0,
    stdout: `{"id":"${id}","status":"removed"}\n`,
  })
  expect((await runCli(['sandboxes'])).stderr).toContain('There is no sandbox.')
})

test('operators look into a sandbox, restart it, and see what it used, also when it is gone', async () => {
  const { id } = JSON.parse((await runCli(['sandbox', 'start', '--json'])).stdout)
  const written = await runCli(['sandbox', 'exec', id, '--', 'echo kept > marker; cat marker; exit 7'])
  expect(written).toMatchObject({ code: 7, stdout: 'kept\n' })
  const late = await runCli(['sandbox', 'exec', id, '--timeout', '1', 'sleep', '30'])
  expect(late).toMatchObject({ code: 124, stderr: expect.stringContaining('did not end in 1 s') })
  const [info] = JSON.parse(`[${(await runCli(['sandbox', 'show', id, '--json'])).stdout}]`)
  const key = await runCli(['sandbox', 'exec', id, '--', `echo ${info.session_api_key}`])
  expect(key.stdout).toBe('<secret-hidden>\n')
  expect((await runCli(['sandbox', 'restart', id])).code).toBe(0)
  expect((await runCli(['sandbox', 'exec', id, 'cat', 'marker'])).stdout).toBe('kept\n')
  const log = await runCli(['sandbox', 'logs', id])
  expect(log).toMatchObject({ code: 0, stdout: expect.stringContaining('http') })
  expect(log.stdout).not.toContain(info.session_api_key)
  const listed = await runCli([
    'sandbox',
    'ls',
    '--all-users',
    '--status',
    'running',
    '--text',
    id,
    '--sort',
    'cost',
  ])
  expect(splitLines(listed.stdout)).toEqual([
    expect.stringMatching(/^ID +STATUS +USER +SPEC +CREATED +USED +COST +CONV +DETAIL$/),
    expect.stringMatching(new RegExp(`^${id} +RUNNING +Administrator +process +now +now +\\$0\\.00 +0`)),
  ])
  expect((await runCli(['sandbox', 'rm', id])).code).toBe(0)
  await expect
    .poll(async () => (await runCli(['sandbox', 'events', id])).stdout, { timeout: 60_000, interval: 1_000 })
    .toContain('deleted')
  const events = splitLines((await runCli(['sandbox', 'events', id])).stdout)
  const kinds = events.slice(1).map((line) => line.slice(22, 32).trim())
  expect(kinds).toEqual([
    'create',
    'running',
    'exec',
    'exec',
    'exec',
    'restart',
    'running',
    'exec',
    'delete',
    'deleted',
  ])
  expect(events.join()).not.toContain(info.session_api_key)
  const past = await runCli(['sandbox', 'logs', id])
  expect(past).toMatchObject({ code: 0, stderr: expect.stringContaining('Its last output') })
  expect(past.stdout).toContain('http')
  const usage = await runCli(['usage', '--by', 'day'])
  expect(usage.stdout).toMatch(/DAY +CONV +INPUT +OUTPUT +CACHED +HOURS +COST\n\d{4}-\d\d-\d\d .*\ntotal /)
  expect((await runCli(['usage', '--csv'])).stdout).toMatch(/^key,name,.*\r\nadmin,Administrator,/)
})

test('a local model is reached at a host port, and requests that are repeated are shown though the log has none', async () => {
  const { port } = Object(modelServer.address())
  const llm = {
    model: 'openai-compatible/local',
    base_url: `http://127.0.0.1:${port}/v1`,
    num_retries: 3,
  }
  await fixture.client.call('changeSettings', { body: { agent_settings_diff: { llm } } })
  const { printed, conversation } = await startAndFollow('Wait')
  expect(printed).toMatch(
    /· running\nHTTP 503 from 127\.0\.0\.1:\d+: Service Unavailable, trying again in [\d.]+ s \(1 of 3\)\n.*Here\.\n/s,
  )
  await runCli(['app', 'rm', conversation])
  await fixture.client.call('changeSettings', { body: { agent_settings_diff: { llm: null } } })
})

test('a conversation is started with each state, followed, listed, asked again, forked, downloaded and removed', async () => {
  await fixture.setScript(
    { text: 'I look.', tool_calls: terminalCall('echo "six times seven is $((6*7))"') },
    { text: 'It is done.' },
    { text: 'Once more.' },
    { text: 'A title', side: true },
  )
  const { conversation, sandbox, printed } = await startAndFollow('Count', '--title', 'Sums')
  const states = splitLines(printed).flatMap((line) => /^ +\d+\.\d s {2}([A-Z_]+)/.exec(line)?.[1] ?? [])
  expect(states).toEqual([
    ...['WORKING', 'WAITING_FOR_SANDBOX', 'PREPARING_REPOSITORY', 'RUNNING_SETUP_SCRIPT'],
    ...['SETTING_UP_GIT_HOOKS', 'SETTING_UP_SKILLS', 'STARTING_CONVERSATION', 'READY'],
  ])
  for (const words of ['You\n  Count\n', 'six times seven is 42', 'It is done.', '· finished'])
    expect(printed).toContain(words)

  const listed = await runCli(['app', 'list'])
  expect(splitLines(listed.stdout)[1]).toMatch(
    new RegExp(`^${conversation} +finished +RUNNING +${sandbox} +Sums$`),
  )
  const again = await runCli(['app', 'send', conversation, 'And now?', '--follow'])
  expect(again.code).toBe(0)
  expect(again.stdout).toContain('You\n  And now?\n')
  expect(again.stdout).toContain('Once more.')
  expect(again.stdout).not.toContain('six times seven')

  const forked = await runCli(['app', 'fork', conversation, '--title', 'A copy'])
  const copy = /Conversation ([0-9a-f]{32}) in sandbox/.exec(forked.stderr)?.[1] ?? ''
  expect(splitLines(forked.stdout).at(-1)).toMatch(/READY$/)
  expect((await runCli(['app', 'list'])).stdout).toMatch(new RegExp(`^${copy} +finished .*A copy$`, 'm'))
  await runCli(['app', 'rm', copy])

  await runCli(['sandbox', 'pause', sandbox])
  expect((await runCli(['app', 'fork', conversation])).stderr).toContain('PAUSED')
  const refused = await runCli(['app', 'send', conversation, 'x'])
  expect(refused).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('PAUSED') })
  const tailed = await runCli(['app', 'tail', conversation, '--until-idle', '--json'])
  const events = splitLines(tailed.stdout).map((line) => JSON.parse(line))
  expect(events.map(({ position }) => position)).toEqual(events.map((_, at) => at + 1))
  expect(events.at(-1).event).toMatchObject({ key: 'execution_status', value: 'finished' })

  const file = join(fixture.directory, 'history.zip')
  const loaded = await runCli(['app', 'download', conversation, '--output', file, '--json'])
  const zip = await readFile(file, 'latin1')
  expect(JSON.parse(loaded.stdout)).toEqual({ output: file, size_bytes: expect.any(Number) })
  const directoryEntries = zip.split('PK\u0001\u0002').length - 1
  expect(directoryEntries).toBe(events.length + 1)
  expect(zip.slice(30, 39)).toBe('meta.json')

  expect(await runCli(['app', 'rm', conversation])).toMatchObject({ code: 0, stdout: 'removed\n' })
  expect((await runCli(['app', 'list'])).stdout).not.toContain(conversation)
  expect((await runCli(['sandboxes'])).stdout).not.toContain(sandbox)
})

test('what waits for an answer ends with code 3 and says how to give it', async () => {
  await fixture.setScript({ text: 'May I?', tool_calls: terminalCall('echo yes') })
  await fixture.client.call('changeSettings', {
    body: { conversation_settings_diff: { confirmation_mode: true } },
  })
  try {
    const { stdout, stderr, code } = await runCli(['app', 'start', 'Try', '--follow', '--json'])
    const last = JSON.parse(splitLines(stdout).at(-1) ?? '')
    expect(last).toMatchObject({ execution_status: 'waiting_for_confirmation', sandbox_status: 'RUNNING' })
    expect(code).toBe(3)
    expect(stderr).toMatch(
      /SLIPWAY_URL=http:\/\/127\.0\.0\.1:\d+\/sandboxes\/[\w-]+\/agent SLIPWAY_SESSION_API_KEY=\.\.\. slipway confirm/,
    )
    // The words of the advice do what they say.
    const listed = await fixture.client.call('searchAppConversations', { query: {} })
    const [{ session_api_key, id } = { session_api_key: '', id: '' }] = listed.items
    const [, agentUrl = ''] = /SLIPWAY_URL=(\S+)/.exec(stderr) ?? []
    const confirmed = await runCli(['confirm', id], {
      SLIPWAY_URL: agentUrl,
      SLIPWAY_SESSION_API_KEY: session_api_key ?? '',
    })
    expect(confirmed).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('Accepted: terminal: echo yes'),
    })
    await runCli(['app', 'rm', id])
  } finally {
    await fixture.client.call('changeSettings', {
      body: { conversation_settings_diff: { confirmation_mode: false } },
    })
  }
})

test('by a context the verbs of conversations are those of an agent server', async () => {
  const home = { HOME: fixture.directory, XDG_CONFIG_HOME: '', SLIPWAY_URL: '' }
  const keyFile = join(fixture.directory, 'key')
  await writeFile(keyFile, fixture.key)
  const added = await runCli(['context', 'add', 'boxes', fixture.url, '--key-file', keyFile], home)
  expect(added).toMatchObject({ code: 0, stdout: expect.stringContaining('sandbox server at') })
  await fixture.setScript({ text: 'May I?', tool_calls: terminalCall('echo yes') }, { text: 'Said it.' })
  await fixture.client.call('changeSettings', {
    body: { conversation_settings_diff: { confirmation_mode: true } },
  })
  try {
    const opened = await runCli(['open', '--no-browser'], home)
    expect(opened).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^http:\/\/127\S+\/#token=\S+\n$/),
    })
    const { stdout } = await runCli(['app', 'start', 'Try', '--title', 'By a context', '--follow', '--json'])
    const id: string = JSON.parse(splitLines(stdout).at(-1) ?? '').conversation_id
    const short = id.slice(0, 8)
    expect((await runCli(['ls'], home)).stdout).toMatch(
      new RegExp(`^${short} +waiting for confirmation .*By a context$`, 'm'),
    )
    expect((await runCli(['pending'], home)).stdout).toContain('terminal: echo yes')
    expect((await runCli(['show', short], home)).stdout).toContain('waits      terminal: echo yes')
    expect(await runCli(['confirm', short, '--follow'], home)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Said it.'),
    })
    expect(await runCli(['rename', '--last', 'Named'], home)).toMatchObject({ code: 0, stdout: 'renamed\n' })
    await vi.waitFor(async () => expect((await runCli(['logs', short], home)).stdout).toContain('Said it.'), {
      timeout: 60_000,
      interval: 500,
    })
    expect(splitLines((await runCli(['export', short], home)).stdout).length).toBeGreaterThan(5)
    expect((await runCli(['search', short, '--kind', 'ActionEvent', '--count'], home)).stdout).toBe('1\n')
    expect((await runCli(['trust', '--list'], home)).stdout).toBe('No repository is known yet.\n')
    const refused = await runCli(['grep', 'x'], home)
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('this needs an agent server') })
    expect(await runCli(['rm', short], home)).toMatchObject({ code: 0, stdout: `removed ${short}  Named\n` })
  } finally {
    await fixture.client.call('changeSettings', {
      body: { conversation_settings_diff: { confirmation_mode: false } },
    })
  }
})

test('the address of a sandbox server is known as one, whatever key is sent', async () => {
  const elsewhere = { SLIPWAY_SANDBOX_URL: '' }
  expect(await runCli(['--url', fixture.url, 'ls'], elsewhere)).toMatchObject({ code: 0 })
  const wrong = { ...elsewhere, SLIPWAY_API_KEY: '', SLIPWAY_SESSION_API_KEY: 'of-an-agent-server' }
  expect((await runCli(['--url', fixture.url, 'ls'], wrong)).stderr).toContain(
    'Set SLIPWAY_API_KEY to an API key',
  )
  const run = await runCli(['--url', fixture.url, 'run', 'hello', '--model', 'scripted/demo'])
  expect(run).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('is a sandbox server; this needs an agent server'),
  })
})

test('users, keys and quotas are managed by commands', async () => {
  const ann = JSON.parse((await runCli(['users', 'add', 'Ann', '--per-day', '3', '--json'])).stdout)
  expect(ann).toMatchObject({ name: 'Ann', daily_conversation_limit: 3, key: expect.stringMatching(/^sk-/) })
  expect((await runCli(['users'])).stdout).toMatch(new RegExp(`^${ann.id} +3 +Ann$`, 'm'))
  const asAnn = { SLIPWAY_API_KEY: ann.key }
  expect((await runCli(['quotas'], asAnn)).stdout).toMatch(
    /^ +USED +LIMIT *\nconversations today +0 +3 +again at \S+Z, set for the user\nconversations stored +0 +unlimited *\nMB of events stored +0 +unlimited *\nrunning sandboxes +0 +10 *\n$/,
  )
  const limits = ['--per-day', '-1', '--conversations', 'none', '--stored-mb', '7', '--sandboxes', '2']
  expect((await runCli(['quotas', 'set', 'Ann', ...limits])).stdout).toMatch(
    /today +0 +unlimited +set for the user\n.*stored +0 +unlimited *\n.*stored +0 +7 *\n.*sandboxes +0 +2 *\n$/,
  )
  expect((await runCli(['users'])).stdout).toMatch(/ unlimited +Ann$/m)
  const set = await runCli(['quotas', 'set', 'Ann', '--per-day', '5', '--sandboxes', 'default', '--json'])
  expect(JSON.parse(set.stdout)).toMatchObject({ daily_conversation_limit: 5, max_sandboxes: null })
  for (const show of [await runCli(['quotas'], asAnn), await runCli(['quotas', 'show', 'Ann'])])
    expect(show.stdout).toMatch(/today +0 +5 .*\n.*\n.*stored +0 +7 *\n.*sandboxes +0 +10 *\n$/)
  expect((await runCli(['quotas', 'show', 'Ann'], asAnn)).code).toBe(1)
  for (const wrong of [['--per-day', '-2'], ['--sandboxes', 'x'], []])
    expect(await runCli(['quotas', 'set', 'Ann', ...wrong])).toMatchObject({
      code: expect.any(Number),
      stdout: '',
    })
  const made = JSON.parse((await runCli(['keys', 'add', 'reader', '--read-only', '--json'], asAnn)).stdout)
  expect(made).toMatchObject({ scopes: ['read'], name: 'reader' })
  const listed = await runCli(['keys'], asAnn)
  expect(listed.stdout).toContain('reader')
  expect(listed.stdout).not.toContain(made.key)
  expect(await runCli(['keys', 'rm', made.id], asAnn)).toMatchObject({ code: 0, stdout: 'removed\n' })
  const old = JSON.parse((await runCli(['keys', 'add', 'old', '--user', 'Ann', '--json'])).stdout)
  const rotate = ['keys', 'rotate', old.id, '--grace', '1h', '--user', 'Ann', '--json']
  const rotated = JSON.parse((await runCli(rotate)).stdout)
  expect((await runCli(['keys', '--user', 'Ann'])).stdout).toContain(rotated.id)
  for (const SLIPWAY_API_KEY of [old.key, rotated.key])
    expect((await runCli(['keys'], { SLIPWAY_API_KEY })).code).toBe(0)
  expect((await runCli(['keys', 'rotate', old.id], { SLIPWAY_API_KEY: old.key })).stdout).toMatch(/^sk-/)
  expect((await runCli(['keys'], { SLIPWAY_API_KEY: old.key })).code).toBe(1)
  expect((await runCli(['keys', '--user', 'Ann'], asAnn)).code).toBe(1)
  expect((await runCli(['users'], asAnn)).code).toBe(1)
  const audited = await runCli(['audit', 'export', '--action', 'rotateUserKey', '--target', old.id])
  expect(JSON.parse(audited.stdout)).toMatchObject({ status: 201, after: { keys: [rotated.id] } })
  expect((await runCli(['audit', '--user', 'Ann'])).stdout).toMatch(/201 +createApiKey +user:/)
  expect(await runCli(['users', 'rm', ann.id])).toMatchObject({ code: 0, stdout: 'removed\n' })
})

test('a removed user has no keys at once; sandboxes are named, and deleted when that is asked for', async () => {
  const limits = ['--per-day', 'unlimited', '--sandboxes', '3', '--stored-mb', '9']
  const ben = JSON.parse((await runCli(['users', 'add', 'Ben', ...limits, '--json'])).stdout)
  expect(ben).toMatchObject({ daily_conversation_limit: -1 })
  expect((await runCli(['quotas', 'show', 'Ben'])).stdout).toMatch(
    /stored +0 +9 *\nrunning sandboxes +0 +3 *\n$/,
  )
  const asBen = { SLIPWAY_API_KEY: ben.key }
  const first = JSON.parse((await runCli(['sandbox', 'start', '--json'], asBen)).stdout)
  const second = JSON.parse((await runCli(['sandbox', 'start', '--json'], asBen)).stdout)
  expect((await runCli(['sandbox', 'ls', '--all-users'], asBen)).code).toBe(1)
  const home = { HOME: fixture.directory, XDG_CONFIG_HOME: '', SLIPWAY_API_KEY: '', SLIPWAY_SANDBOX_URL: '' }
  const keyFile = join(fixture.directory, 'key-of-ben')
  await writeFile(keyFile, ben.key)
  expect((await runCli(['context', 'add', 'ben', fixture.url, '--key-file', keyFile], home)).code).toBe(0)
  expect((await runCli(['sandbox', 'ls'])).stderr).toContain('There is no sandbox.')
  const listed = await runCli(['sandbox', 'ls', '--user', 'Ben'])
  expect(listed.stdout).toMatch(new RegExp(`^${first.id} +RUNNING +Ben +process +(?:now|\\dm ago) `, 'm'))
  expect((await runCli(['sandbox', 'ls', '--all-users', '--json'])).stdout).not.toContain(
    first.session_api_key,
  )
  expect(await runCli(['sandbox', 'rm', first.id])).toMatchObject({ code: 0, stdout: 'removed\n' })

  const refused = await runCli(['users', 'rm', 'Ben'])
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  for (const words of ['keys of the user do not work', second.id, 'slipway users rm Ben --with-sandboxes'])
    expect(refused.stderr).toContain(words)
  expect(await runCli(['sandboxes'], asBen)).toMatchObject({ code: 1, stdout: '' })
  for (const args of [['sandboxes'], ['ls']])
    expect((await runCli(['--context', 'ben', ...args], home)).stderr).toMatch(
      /key of the context ben: .*revoked\. Ask the\nadministrator .* slipway context add ben URL --key-file FILE/,
    )
  const removed = await runCli(['users', 'rm', 'Ben', '--with-sandboxes'])
  expect(removed).toMatchObject({ code: 0, stdout: 'removed\n' })
  expect((await runCli(['sandbox', 'ls', '--all-users'])).stderr).toContain('There is no sandbox.')
})

test('the first key is in a private file where the output is a journal', async () => {
  const data = join(fixture.directory, 'other')
  const child = fixture.spawnCli(['sandbox-server', '--port', '0', '--data', data, '--no-console'], {
    env: { SLIPWAY_API_KEY: '', JOURNAL_STREAM: '8:1234' },
  })
  child.stderr.resume()
  let printed = ''
  for await (const chunk of child.stdout) {
    printed += chunk
    if (printed.includes('Ctrl-C stops it')) break
  }
  child.kill()
  await once(child, 'close')
  const path = join(data, 'admin.key')
  expect(printed).toContain(`API key   in ${path}`)
  expect(printed).not.toContain('sk-slipway-')
  expect(await readFile(path, 'utf8')).toMatch(/^sk-slipway-\S+\n$/)
  expect((await stat(path)).mode & 0o777).toBe(0o600)
})

test('Ctrl-C ends the showing and not the agent', async () => {
  // It says something all the time: what is silent for long is let go by the terminal.
  await fixture.setScript(
    { tool_calls: terminalCall('while [ ! -e go ]; do sleep 0.5; echo .; done') },
    { text: 'Over.' },
  )
  const child = fixture.spawnCli(['app', 'start', 'Wait', '--follow'])
  const err = text(child.stderr)
  let printed = ''
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    printed += chunk
    if (printed.includes('▸ terminal')) break
  }
  const end = new Promise((resolve) => child.once('close', resolve))
  child.kill('SIGINT')
  expect(await end).toBe(1)
  const stderr = await err
  expect(stderr).toContain('The run continues. Follow it with: slipway app tail')
  const [, id = ''] = /Conversation (\S+) in sandbox/.exec(stderr) ?? []
  const { items } = await fixture.client.call('searchAppConversations', { query: {} })
  expect(items.find((one) => one.id === id)).toMatchObject({ execution_status: 'running' })
  await runCli(['app', 'rm', id])
})

test('errors say what to do', async () => {
  const noKey = await runCli(['sandboxes'], { SLIPWAY_API_KEY: '' })
  expect(noKey).toMatchObject({ code: 1, stdout: '' })
  expect(noKey.stderr).toContain('Set SLIPWAY_API_KEY')
  const wrongKey = await runCli(['sandboxes'], { SLIPWAY_API_KEY: 'sk-slipway-wrong-one' })
  expect(wrongKey.code).toBe(1)
  expect(wrongKey.stderr).not.toContain('sk-slipway-wrong-one')
  const nobody = await runCli(['sandboxes'], { SLIPWAY_SANDBOX_URL: 'http://127.0.0.1:9' })
  expect(nobody.stderr).toContain('slipway sandbox-server')
  const flagged = await runCli(['sandboxes', '--url', 'http://127.0.0.1:9'])
  expect(flagged.stderr).toContain('No answer from http://127.0.0.1:9')
  const unknown = await runCli(['sandbox', 'pause', 'sb-not-there'])
  expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining('"slipway sandbox ls"') })
  const noConversation = await runCli(['app', 'tail', crypto.randomUUID()])
  expect(noConversation).toMatchObject({ code: 1, stderr: expect.stringContaining('"slipway app ls"') })
  const noSpec = await runCli(['sandbox', 'start', '--spec', 'nope'])
  expect(noSpec).toMatchObject({ code: 1, stderr: expect.stringContaining('no such sandbox spec') })
  const noMessage = await runCli(['app', 'start'])
  expect(noMessage.code).toBe(2)
})

test('a start that fails ends with code 1 and says why', async () => {
  await fixture.setScript({ text: 'never said' })
  const failed = await runCli(['app', 'start', 'x', '--repository', 'http://127.0.0.1:9/none.git'])
  expect(failed.code).toBe(1)
  expect(failed.stdout).toContain('ERROR')
  expect(failed.stderr).toMatch(/none\.git|clone/i)
})
