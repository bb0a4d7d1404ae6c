import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { hasTmux, isAlive, type ScreenOptions, SessionFixture } from './testing/session-fixture.ts'

vi.setConfig({ testTimeout: 240_000, hookTimeout: 60_000 })

let fixture: SessionFixture

beforeAll(async () => {
  fixture = await SessionFixture.open()
})
afterEach(async () => await fixture.reset())
afterAll(async () => await fixture.dispose())

const openScreen = (args: readonly string[], options?: ScreenOptions) => fixture.openScreen(args, options)

/** Columns of a terminal; the narrow one is where texts do not fit. */
const widths = process.env.SLIPWAY_NIGHTLY === '1' ? [80, 200] : [80]

test.skipIf(!hasTmux)(
  'the first session asks for a model, tests it, keeps it, and leaves no process',
  async () => {
    const first = await openScreen([])
    await first.until(/Which provider\?/)
    await first.keys('Up')
    await first.until(/● A local/)
    await first.keys('Enter')
    await first.until(/address of its API/)
    await first.enter(fixture.modelUrl)
    await first.until(/name of the model/)
    await first.enter('far')
    await first.until(/API key/)
    await first.keys('Enter')
    await first.until(/\n› *\n/)
    await first.enter('tell me something')
    await first.until(/I heard \d+ characters\.\n· finished/)
    await first.expectNoWrap()
    const pid = await fixture.serverPid()
    await first.keys('C-d')
    await first.until(/Come back with: slipway attach [0-9a-f]{8}\nEXIT 0/)
    expect(isAlive(pid)).toBe(false)

    // The next one needs no answers, and a joined one shows what was said.
    const second = await openScreen(['attach', '--last'], { columns: 200 })
    await second.until(/tell me something\n[\s\S]*I heard[\s\S]*\n› *\n/)
    await second.enter('and more')
    await second.until(/and more\n[\s\S]*I heard \d+ characters\.\n· finished/)
  },
)

test.skipIf(!hasTmux)(
  'a model that does not answer in time is kept and the reason shown; a used-up account is refused with it',
  async () => {
    // One that has no model yet.
    const newcomer = await SessionFixture.open()
    onTestFinished(async () => {
      await newcomer.reset()
      await newcomer.dispose()
    })
    const screen = await newcomer.openScreen([], { columns: 160 })
    const choose = async (name: string) => {
      await screen.until(/◆.*Which provider\?/)
      await screen.keys('Up')
      await screen.until(/● A local/)
      await screen.keys('Enter')
      await screen.until(/◆.*address of its API/)
      await screen.enter(newcomer.modelUrl)
      await screen.until(/◆.*name of the model/)
      await screen.enter(name)
      await screen.until(/◆.*API key/)
      await screen.keys('Enter')
    }
    await choose('status-402')
    await screen.until(/The model does not answer: LLMRateLimitError: .*Busy with 402/)
    await choose('status-504')
    await screen.until(
      /The model did not answer, and is saved all the same: LLMTimeoutError: .*Busy with 504[\s\S]*\n› *\n/,
    )
  },
)

test.skipIf(!hasTmux)(
  'a question is answered with a key, for ever with another, and the reason of a no is asked',
  async () => {
    const screen = await openScreen([], { env: fixture.modelEnv })
    await screen.until(/\n› *\n/)
    await screen.enter('danger one')
    await screen.until(
      /Allow this\?\n +terminal \[HIGH\]: rm -rf \.\/old\n +y yes .* a always: rm -rf \.\/old/,
    )
    await screen.keys('n')
    await screen.until(/What should the agent know\?/)
    await screen.enter('keep the files')
    await screen.until(/keep the files[\s\S]*· finished/)
    await screen.enter('danger two')
    await screen.until(/danger two[\s\S]*Allow this\?/)
    await screen.keys('a')
    await screen.until(/danger two[\s\S]*· finished/)
    await screen.enter('danger three')
    const shown = await screen.until(/danger three[\s\S]*· finished/)
    expect(shown.slice(shown.indexOf('danger three'))).not.toContain('waits for confirmation')
  },
)

test.skipIf(!hasTmux).each([
  ['a terminal', {}],
  ['a terminal with a screen reader', { SLIPWAY_SCREEN_READER: '1' }],
])('%s shows a whole command in its question, also one that is longer than the screen', async (_, more) => {
  const screen = await openScreen([], { env: { ...fixture.modelEnv, ...more } })
  await screen.until(/\/help/)
  await screen.enter('a hidden part of 300')
  // tmux joins what the terminal wraps; what the session wraps is joined here.
  const wholeEnd = async () => {
    const shown = await screen.until(/Allow this\?[\s\S]*y(es| yes)/)
    const question = shown.slice(shown.indexOf('Allow this?')).replaceAll(/\n +/g, '')
    expect(question).toContain(`${'true && '.repeat(37)}rm -rf ./hidden`)
  }
  const answered = async () => {
    await screen.enter('s')
    await vi.waitFor(
      async () => expect((await fixture.runCli('pending')).stderr).toContain('Nothing waits'),
      { timeout: 30_000, interval: 200 },
    )
  }
  await wholeEnd()
  await answered()
  await screen.enter('show something nasty')
  await screen.until(/terminal \[HIGH\]: ls␍rm \\u\{202e\}-rf\\u\{200b\} \.\/a␉b␛\[2K # ␈\n[\s\S]*y(es| yes)/)
  await answered()
  await screen.enter('make an edit')
  await screen.until(
    /file_editor \[HIGH\]: str_replace \/tmp\/none\/of\.txt\n +one\n +- two\n +\+ 2\n +three\n[\s\S]*y(es| yes)/,
  )
  await answered()
})

test.skipIf(!hasTmux)(
  'a question longer than the screen shows its beginning and end, and keys show the lines between',
  async () => {
    const screen = await openScreen([], { rows: 24, env: fixture.modelEnv })
    await screen.until(/\/help/)
    await screen.enter('do 100 numbered lines')
    const shown = await screen.until(
      /terminal \[HIGH\]: echo line 1\n +echo line 2\n[\s\S]*… \d+ lines hidden: .*\n[\s\S]*echo line 100\n +rm -rf \.\/hidden\n +y yes/,
    )
    const seen = new Set(shown.match(/echo line \d+$/gm))
    for (let page = 0; !/\(end\)/.test(await screen.visible()); page++) {
      expect(page).toBeLessThan(20)
      const before = await screen.visible()
      await screen.keys('PageDown')
      await vi.waitFor(async () => expect(await screen.visible()).not.toBe(before))
      for (const line of (await screen.visible()).match(/echo line \d+$/gm) ?? []) seen.add(line)
    }
    expect(seen.size).toBe(100)
    await screen.expectNoWrap()
    for (let page = 0; page < 20; page++) await screen.keys('PageUp')
    await screen.until(
      /terminal \[HIGH\]: echo line 1\n[\s\S]*lines hidden:[\s\S]*rm -rf \.\/hidden\n +y yes/,
    )
    await screen.keys('s')
    await screen.until(/rejected/)
  },
)

test.skipIf(!hasTmux)('the question of a run shows hidden lines at a key, and asks again', async () => {
  const screen = await openScreen(['run', '--ask', 'do 40 numbered lines'], {
    rows: 24,
    env: fixture.modelEnv,
  })
  await screen.until(
    /echo line 1\n[\s\S]*… \d+ lines hidden[\s\S]*echo line 40\n +rm -rf \.\/hidden\n[\s\S]*Allow this\?/,
  )
  const seen = new Set<string>()
  // The answer to the question before stays on the screen: keys that come before the next one are lost.
  let from = '\\d+'
  for (let page = 0; page < 4; page++) {
    const next = new RegExp(`Show lines ${from} to (\\d+) of 41\\n`)
    const [label, to] = next.exec(await screen.until(next)) ?? []
    from = String(Number(to) + 1)
    if (page === 0) for (let down = 0; down < 4; down++) await screen.keys('Down')
    await screen.keys('Enter')
    const all = await screen.until(new RegExp(`${label}[\\s\\S]*echo line[\\s\\S]*Decide later\\n`))
    for (const line of all.match(/echo line \d+$/gm) ?? []) seen.add(line)
    if (seen.size === 40) break
  }
  expect(seen.size).toBe(40)
  // Once more than there are pages: nothing is allowed by that.
  await screen.keys('Enter')
  await screen.until(/EXIT 3/)
  await fixture.runCli('confirm', '--last', '--reject')
})

test.skipIf(!hasTmux)(
  'the question of a run closes when another terminal answers, and the next command asks again',
  async () => {
    const screen = await openScreen(['run', '--ask', 'do both'], { columns: 120, env: fixture.modelEnv })
    await screen.until(/first {2}of two[\s\S]*Allow this\?[\s\S]*Yes/)
    const { stdout: pending } = await fixture.runCli('pending', '--json')
    const [{ id = '' }] = JSON.parse(pending).actions
    const confirmed = await fixture.runCli('confirm', '--last', '--action', id)
    expect(confirmed.stderr).toContain("Accepted: terminal [HIGH]: echo 'first  of two'")
    await screen.until(/approved from another terminal[\s\S]*touch second[\s\S]*Allow this\?[\s\S]*Yes/)
    // An answer for the first command approves nothing.
    const late = await fixture
      .runCli('confirm', '--last', '--action', id)
      .catch((error: { code: number; stderr: string }) => error)
    expect(late).toMatchObject({ code: 1, stderr: expect.stringContaining('Already answered elsewhere') })
    expect(existsSync(join(fixture.home, 'project', 'second'))).toBe(false)
    const rejected = await fixture.runCli('confirm', '--last', '--reject', '--reason', 'not today')
    expect(rejected.stderr).toContain('Rejected: terminal [HIGH]: touch second')
    const shown = await screen.until(/rejected from another terminal[\s\S]*EXIT 0/)
    expect(shown).toMatch(/not today[\s\S]*All of it is done\./)
    expect(existsSync(join(fixture.home, 'project', 'second'))).toBe(false)
  },
)

test.skipIf(!hasTmux)('what /undo takes back is in the log, for other readers too', async () => {
  const screen = await openScreen([], { columns: 120, env: fixture.modelEnv })
  await screen.until(/\n› *\n/)
  await screen.enter('tell me one')
  await screen.until(/tell me one[\s\S]*· finished/)
  await screen.enter('tell me two')
  await screen.until(/tell me two[\s\S]*· finished/)
  await screen.enter('/undo')
  await screen.until(/back to before: tell me two[\s\S]*slipway checkpoints [0-9a-f]{8}, slipway rollback/)
  await screen.enter('tell me three')
  await screen.until(/tell me three[\s\S]*· finished/)
  for (const words of ['tell me three', 'tell me one']) {
    await screen.enter('/undo')
    await screen.until(new RegExp(`back to before: ${words}`))
  }
  await screen.enter('/undo')
  await screen.until(/There is nothing to undo/)
  const { stdout } = await fixture.runCli('logs', '--last')
  expect(stdout.match(/· back to before: .*/g)).toEqual([
    '· back to before: tell me two',
    '· back to before: tell me three',
    '· back to before: tell me one',
  ])
})

test.skipIf(!hasTmux)('what is chosen before the first message holds for it', async () => {
  const never = await openScreen([], { columns: 120, env: fixture.modelEnv })
  await never.until(/^.*\/project · openai-compatible\/far\n/m)
  await never.until(/\n› *\n/)
  await never.enter('/confirm never')
  await never.until(/Confirmation: never/)
  await never.enter('danger one')
  const shown = await never.until(/danger one[\s\S]*· finished/)
  expect(shown).not.toContain('waits for confirmation')
  const flags = ['--ask', '--allow', 'rm -rf ./old', '--deny', 'touch *']
  const asking = await openScreen(flags, { columns: 120, env: fixture.modelEnv })
  await asking.until(/\n› *\n/)
  await asking.enter('danger one')
  await asking.until(/danger one[\s\S]*· finished/)
  await asking.enter('do both')
  await asking.until(/Allow this\?[\s\S]*first {2}of two/)
  await asking.keys('y')
  await asking.until(/touch second\n[\s\S]*a rule denies commands like `touch \*`[\s\S]*· finished/)
})

/** Bold, dim, red, green, yellow, magenta and cyan text, and their ends. */
const themeCodes = new Set(['', '0', '1', '2', '22', '31', '32', '33', '35', '36', '39', '49'])

test.skipIf(!hasTmux).each(widths)(
  'at %i columns only colours of the theme are used, which light and dark terminals both show',
  async (columns) => {
    const screen = await openScreen([], { columns, env: fixture.modelEnv })
    await screen.until(/\n› *\n/)
    await screen.enter('danger one')
    await screen.until(/danger one[\s\S]*Allow this\?/)
    let shown = await screen.capture()
    await screen.keys('y')
    await screen.until(/danger one[\s\S]*· finished/)
    await screen.enter('make a plan')
    await screen.until(/✓ Read the code\n +▸ Write a test\n/)
    shown += await screen.capture()
    await screen.expectNoWrap()
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the escape sequences of colours
    const codes = [...shown.matchAll(/\u001b\[([\d;:]*)m/g)].flatMap(([, text = '']) => text.split(/[;:]/))
    expect(codes).toEqual(expect.arrayContaining(['1', '2', '31', '33', '36']))
    expect(codes.filter((code) => !themeCodes.has(code))).toEqual([])
  },
)

test.skipIf(!hasTmux)('messages wait while the agent works, and Escape interrupts it', async () => {
  const screen = await openScreen([], { columns: 200, env: fixture.modelEnv })
  await screen.until(/\n› *\n/)
  await screen.enter('slow one')
  await screen.until(/word word[\s\S]*● working/)
  await screen.enter('later')
  await screen.until(/queued: later/)
  await screen.resize(80)
  await screen.keys('Escape')
  await screen.until(/· paused[\s\S]*interrupted ·/)
  await screen.enter('make a plan')
  await screen.until(/✓ Read the code\n +▸ Write a test\n/)
  await screen.expectNoWrap()
})

test.skipIf(!hasTmux)('a server that is killed comes back, and the session continues', async () => {
  const screen = await openScreen([], { env: fixture.modelEnv })
  await screen.until(/\n› *\n/)
  await screen.enter('slow one')
  await screen.until(/word word/)
  const pid = await fixture.serverPid()
  const before = fixture.requestCount
  process.kill(pid, 'SIGKILL')
  await vi.waitFor(async () => expect(await fixture.serverPid()).not.toBe(pid), {
    timeout: 60_000,
    interval: 200,
  })
  // The run that was cut continues: the model is asked again.
  await vi.waitFor(() => expect(fixture.requestCount).toBeGreaterThan(before), {
    timeout: 60_000,
    interval: 200,
  })
  await screen.keys('Escape')
  await screen.until(/· paused[\s\S]*interrupted ·/)
  await screen.enter('hello again')
  await screen.until(/hello again\n[\s\S]*I heard \d+ characters\.\n· finished/)
})

const expectEnd = (pid: number) =>
  vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 60_000, interval: 200 })

test.skipIf(!hasTmux).each([
  ['a terminal', {}, /\n› *\n/],
  ['a terminal with a screen reader', { SLIPWAY_SCREEN_READER: '1' }, /Type a message and press Enter/],
])('%s that is closed leaves no process', async (_, env, prompt) => {
  const screen = await openScreen([], { env: { ...fixture.modelEnv, ...env } })
  await screen.until(prompt)
  const pid = await fixture.serverPid()
  await screen.close()
  await expectEnd(pid)
})

test.skipIf(!hasTmux)('a terminal that is closed leaves the server to another session', async () => {
  const first = await openScreen([], { env: fixture.modelEnv })
  await first.until(/\n› *\n/)
  const second = await openScreen([], { env: fixture.modelEnv })
  await second.until(/\n› *\n/)
  const pid = await fixture.serverPid()
  await first.close()
  await second.enter('tell me something')
  await second.until(/I heard \d+ characters\.\n· finished/)
  expect(await fixture.serverPid()).toBe(pid)
  await second.close()
  await expectEnd(pid)
})

test.skipIf(!hasTmux)('sessions that are killed leave no server', async () => {
  const screen = await openScreen([], { env: fixture.modelEnv })
  await screen.until(/\n› *\n/)
  const pid = await fixture.serverPid()
  const sessions = await fixture.sessionPids()
  expect(sessions).toHaveLength(1)
  for (const session of sessions) process.kill(session, 'SIGKILL')
  await expectEnd(pid)
})

test('a run that was left alone continues without a session, and then its server ends', async () => {
  await fixture.runCli('run', 'brief', '--detach')
  const pid = await fixture.serverPid()
  expect(await fixture.sessionPids()).toEqual([])
  // A console would end with the server.
  const opened = await fixture
    .runCli('open', '--no-browser')
    .catch((error: { code: number; stderr: string }) => error)
  expect(opened).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('has no console. Use: slipway stop'),
  })
  await sleep(2_000)
  expect(isAlive(pid)).toBe(true)
  await expectEnd(pid)
  const { stdout } = await fixture.runCli('logs', '--last')
  expect(stdout).toMatch(/word word[\s\S]*· finished/)
})

test.skipIf(!hasTmux)('a terminal is asked before a conversation is deleted', async () => {
  await fixture.runCli('run', 'brief')
  const listIds = async () => (await fixture.runCli('ls', '-q')).stdout.trim().split('\n')
  const before = await listIds()
  const left = await openScreen(['rm', '--last'], { env: fixture.modelEnv })
  expect(await left.until(/Delete with the log, for good\?/)).toContain(before[0]?.slice(0, 8))
  await left.keys('n')
  await left.until(/Nothing was deleted|\[exited|Pane is dead/).catch(() => '')
  expect(await listIds()).toEqual(before)
  const deleted = await openScreen(['rm', '--last'], { env: fixture.modelEnv })
  await deleted.until(/for good\?/)
  await deleted.keys('y')
  await vi.waitFor(async () => expect(await listIds()).not.toContain(before[0]), { timeout: 30_000 })
})

test.skipIf(!hasTmux)('a file is named with @, and a paste of a megabyte is one message', async () => {
  await writeFile(join(fixture.home, 'project', 'note.txt'), 'from the note')
  const screen = await openScreen([], { env: fixture.modelEnv })
  await screen.until(/\n› *\n/)
  await screen.keys('-l', 'read @no')
  await screen.until(/@note\.txt/)
  await screen.keys('Tab')
  await screen.until(/› read @note\.txt/)
  await screen.keys('Enter')
  await screen.until(/I read the note\./)
  await screen.paste('a line of text\n'.repeat(70_000))
  await screen.until(/\[Pasted text 1: 70001 lines, 1050000 characters\]/)
  await screen.keys('C-c')
  await screen.until(/\n› *\n/)
})

test.skipIf(!hasTmux)('without a terminal it is a program', async () => {
  const { stdout } = await fixture.runCli('--print', 'tell me')
  expect(stdout).toMatch(/I heard \d+ characters\./)
  const ended = await fixture.runCli('--print', ' ').catch((error: { code: number; stderr: string }) => error)
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('the input is empty') })
})

/** Escape sequences of colours. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin so
const colour = /\u001b\[[0-9;]*m/

test.skipIf(!hasTmux).each(widths)(
  'at %i columns the question, its answer and the facts fit, with colours and without',
  async (columns) => {
    const screen = await openScreen([], { columns, env: fixture.modelEnv })
    await screen.until(/\n› *\n/)
    await screen.enter('danger one')
    await screen.until(/Allow this\?/)
    await screen.expectNoWrap()
    expect(await screen.capture()).toMatch(colour)
    await screen.keys('y')
    await screen.until(/danger one[\s\S]*· finished/)
    await screen.expectNoWrap()
    await screen.keys('C-d')
    await screen.until(/EXIT 0/)

    const plain = await openScreen(['attach', '--last'], {
      columns,
      env: { ...fixture.modelEnv, NO_COLOR: '1' },
    })
    await plain.until(/danger one[\s\S]*· finished[\s\S]*\n› *\n/)
    expect(await plain.capture()).not.toMatch(colour)
    await plain.expectNoWrap()
  },
)

test.skipIf(!hasTmux)('a second terminal joins, sees the question and answers it for the first', async () => {
  const first = await openScreen([], { env: fixture.modelEnv })
  await first.until(/\n› *\n/)
  await first.enter('danger one')
  await first.until(/Allow this\?/)
  const second = await openScreen(['attach', '--last'], { columns: 200, env: fixture.modelEnv })
  await second.until(/danger one[\s\S]*Allow this\?/)
  await second.keys('y')
  await second.until(/All of it is done\.[\s\S]*· finished/)
  const seen = await first.until(/All of it is done\.[\s\S]*· finished/)
  expect(seen.match(/Allow this\?/g) ?? []).toEqual([])
})

test.skipIf(!hasTmux)(
  'for screen readers whole lines are printed once, and lines are the answers',
  async () => {
    const env = { ...fixture.modelEnv, SLIPWAY_SCREEN_READER: '1', NO_COLOR: '1' }
    const screen = await openScreen([], { env })
    await screen.until(/Type a message and press Enter/)
    await screen.enter('danger one')
    await screen.until(/Allow this\?\n +terminal \[HIGH\]: rm -rf \.\/old\nAnswer y for yes/)
    await screen.enter('n keep the files')
    await screen.until(/keep the files[\s\S]*· finished/)
    await screen.enter('slow one')
    await screen.until(/word word/)
    await screen.enter('later')
    await screen.until(/Queued until the run has ended\./)
    await screen.enter('/interrupt')
    const seen = await screen.until(/· paused/)
    expect(seen.match(/Allow this\?/g)).toHaveLength(1)
    expect(seen).not.toMatch(/[─›●]/)
    await screen.keys('C-d')
    await screen.until(/Come back with: slipway attach [0-9a-f]{8}/)
  },
)
