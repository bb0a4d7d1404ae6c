import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page, Route } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  bashStep,
  eventLabel,
  finishStep,
  scriptedModel,
  toolCall,
  toolCallsStep,
} from '../support/agent-driver.ts'
import type { ApiEvent } from '../support/agent-server-api.ts'
import { findChromium } from '../support/browser-user.ts'
import { ConsoleFixture, shownPositions, waitUntil } from './console-fixture.ts'

const chromiumPath = await findChromium()

/**
 * A script of many small steps, so that there is something to follow for a while. Its log has fewer events
 * than are read when a log is opened at the end, so all of them are shown whenever it is opened.
 */
const longScript = [
  ...Array.from({ length: 20 }, (_, n) => bashStep(`echo step-${n}; sleep 0.1`)),
  finishStep('All done.'),
]

describe.runIf(chromiumPath !== undefined)('a conversation in the console', { timeout: 300_000 }, () => {
  let fixture: ConsoleFixture
  beforeAll(async () => {
    fixture = await ConsoleFixture.open(chromiumPath ?? '')
  }, 180_000)
  afterAll(() => fixture?.[Symbol.asyncDispose](), 60_000)

  const visit = (page: Page, id: string, rest = '') => page.goto(`${fixture.site.url}/c/${id}${rest}`)
  const count = async (id: string) => (await fixture.driver.getEvents(id)).length
  const isComplete = async (page: Page, id: string) => {
    const positions = await shownPositions(page)
    return (
      positions.length === (await count(id)) &&
      (await fixture.driver.getInfo(id)).execution_status === 'finished'
    )
  }

  test('shows the steps of a run with their results', async () => {
    const script = [bashStep('echo first; echo second'), bashStep('exit 3'), finishStep('It is **done**.')]
    const { id } = await fixture.driver.createScripted(script)
    await fixture.driver.waitUntilIdle(id)
    const { page, problems } = await fixture.newPage()
    await visit(page, id)
    await page.getByText('Begin.').waitFor()
    await page.locator('.markdown strong', { hasText: 'done' }).waitFor()
    const calls = page.locator('details.call')
    expect(await calls.count()).toBe(2)
    await calls.first().locator('summary').click()
    await calls
      .first()
      .locator('.terminal', { hasText: /first\s+second/ })
      .waitFor()
    await page.locator('details.call.failed[open]', { hasText: 'exit 3' }).waitFor()
    await page.getByRole('button', { name: 'Failed only' }).click()
    await waitUntil(async () => (await page.locator('.entry').count()) === 1, 'one failed step')
    expect(page.url()).toContain('failed=true')
    await page.reload()
    await page.locator('details.call.failed').waitFor()
    expect(await page.locator('.entry').count()).toBe(1)
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('plan mode is shown, and a plan that is accepted is carried out', async () => {
    const script = [
      bashStep('touch made'),
      { text: 'The plan: make a file.' },
      bashStep('touch made'),
      finishStep(),
    ]
    const { id } = await fixture.driver.createScripted(script, { plan_mode: true })
    await fixture.driver.waitUntilIdle(id)
    for (const width of [1280, 390]) {
      const { page, problems } = await fixture.newPage({ viewport: { width, height: 800 } })
      await visit(page, id)
      const bar = page.getByRole('region', { name: 'Plan mode' })
      if (width === 1280) {
        await bar.waitFor()
        await page.getByText('plan mode is on').first().waitFor()
      } else {
        await bar.getByRole('button', { name: 'Accept and run' }).click()
        await bar.waitFor({ state: 'hidden' })
        const isDone = async () => (await fixture.driver.getInfo(id)).execution_status === 'finished'
        await waitUntil(isDone, 'the plan is carried out')
      }
      expect(problems).toEqual([])
      await page.context().close()
    }
    const results = (await fixture.driver.getEvents(id)).map(eventLabel)
    expect(results).toEqual(expect.arrayContaining(['AgentErrorEvent:terminal', 'result:terminal']))
    expect((await fixture.driver.getInfo(id)).plan_mode).toBe(false)
  })

  test('follows a run over a reload, in two browsers', async () => {
    const { id } = await fixture.driver.createScripted(longScript)
    const [one, two] = [await fixture.newPage(), await fixture.newPage()]
    for (const { page } of [one, two]) await visit(page, id, '?view=all')
    await one.page
      .getByText(/step-\d/)
      .first()
      .waitFor()
    await one.page.reload()
    for (const { page, problems } of [one, two]) {
      await waitUntil(() => isComplete(page, id), 'all events are shown')
      await checkOrder(page, await count(id))
      expect(problems).toEqual([])
      await page.context().close()
    }
  })

  test('catches up after the server was killed and started again', async () => {
    const { id } = await fixture.driver.createScripted(longScript)
    const { page, problems } = await fixture.newPage()
    await visit(page, id, '?view=all')
    await page
      .getByText(/step-\d/)
      .first()
      .waitFor()
    await fixture.killAndRestart()
    await waitUntil(
      async () => (await fixture.driver.getInfo(id)).execution_status !== 'running',
      'the run ended',
    )
    await page.getByRole('button', { name: 'Run', exact: true }).click()
    await waitUntil(() => isComplete(page, id), 'all events are shown')
    await checkOrder(page, await count(id))
    await compareWithExport(page, await fixture.driver.getEvents(id))
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('sends a file, which is in the workspace when the agent reads of it', async () => {
    const { id, workspace } = await fixture.driver.create({ llm: scriptedModel([finishStep('Read.')]) })
    const { page, problems } = await fixture.newPage()
    await visit(page, id)
    await page.locator('.composer input[type=file]').setInputFiles({
      name: '../notes of today.txt',
      mimeType: 'text/plain',
      buffer: Buffer.from('what was said'),
    })
    await page.getByRole('button', { name: /^Remove .*notes of today.txt$/ }).waitFor()
    await page.getByLabel('Message', { exact: true }).fill('Please read this.')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByText('Read.', { exact: true }).waitFor()
    const sent = (await fixture.driver.getEvents(id)).find(({ source }) => source === 'user')
    const path = /Attached file: (uploads\/[\w.-]+)/.exec(JSON.stringify(sent))?.[1]
    expect(readFileSync(join(workspace.working_dir, path ?? ''), 'utf8')).toBe('what was said')
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('a rare word is found in the messages of a long log at once', async () => {
    const event = (n: number) =>
      JSON.stringify({
        kind: 'MessageEvent',
        source: 'user',
        timestamp: new Date(Date.UTC(2026, 0, 1) + n * 1_000).toISOString(),
        llm_message: {
          role: 'user',
          content: [{ type: 'text', text: n === 77 ? 'a Quokka' : `message ${n}` }],
        },
      })
    const id = await fixture.api.import(Array.from({ length: 25_000 }, (_, n) => event(n + 1)).join('\n'))
    const { page } = await fixture.newPage()
    await visit(page, id, '#24000')
    await page.locator('.entry.target').waitFor()
    await page.getByLabel('Search in this log').fill('quokka')
    await page.getByText('a Quokka').waitFor()
    expect(page.url()).toContain('in=messages')
    expect(await page.locator('.entry').count()).toBe(1)
    await page.context().close()
  })

  test('sends a message, and pauses and interrupts a run', async () => {
    const llm = scriptedModel([bashStep('sleep 600'), finishStep('First.'), finishStep('Second.')])
    const { id } = await fixture.driver.create({ llm })
    const { page } = await fixture.newPage()
    await visit(page, id)
    await page.getByLabel('Message', { exact: true }).fill('Please sleep.')
    await page.keyboard.press('Control+Enter')
    await page.locator('.message.user', { hasText: 'Please sleep.' }).waitFor()
    await page.locator('details.call', { hasText: 'sleep 600' }).waitFor()
    await page.getByRole('button', { name: 'Interrupt' }).click()
    await page.locator('.status', { hasText: 'Paused' }).waitFor()
    await page.getByLabel('Message', { exact: true }).fill('Continue.')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByText('First.').waitFor()
    await page.context().close()
  })

  test('approves and rejects with one thumb', async () => {
    const long = `echo ${'very-long-command '.repeat(400)} \u202e&& rm -rf ./end`
    const llm = scriptedModel([bashStep(long), bashStep('echo never'), finishStep('Understood.')])
    const { id } = await fixture.driver.create(
      { llm },
      {
        initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
        confirmation_policy: { kind: 'AlwaysConfirm', deadline_seconds: 3_000 },
      },
    )
    const { page } = await fixture.newPage({
      viewport: { width: 390, height: 844 },
      hasTouch: true,
      isMobile: true,
    })
    await visit(page, id)
    const approve = page.getByRole('button', { name: 'Approve' })
    await approve.waitFor()
    await page.getByText('rejected automatically in').waitFor()
    await waitUntil(async () => (await page.title()).startsWith('(!)'), 'the title says that it waits')
    const visible = long.replace('\u202e', '\\u{202e}')
    const command = page.locator('.confirmation .command')
    // Beginning and end are in view, and the button shows what is between.
    const [beginning = '', end = ''] = await command.allTextContents()
    expect(visible.startsWith(beginning) && visible.endsWith(end) && end.length > 0).toBe(true)
    for (const part of [command.first(), command.last()]) {
      const box = await part.boundingBox()
      expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual((await approve.boundingBox())?.y ?? 0)
    }
    await page.getByRole('button', { name: /^Show \d+ hidden lines$/ }).tap()
    expect(await command.allTextContents()).toEqual([visible])
    const box = await approve.boundingBox()
    expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(844)
    expect(box?.height).toBeGreaterThanOrEqual(44)
    await approve.tap()
    await page.locator('.confirmation', { hasText: 'echo never' }).waitFor()
    await page.getByLabel('Reason for a rejection').fill('Not on this machine.')
    await page.getByRole('button', { name: 'Reject' }).tap()
    // The agent waits for a message before it continues.
    await page.getByRole('button', { name: 'Run', exact: true }).tap()
    await page.getByText('Understood.').waitFor()
    const events = await fixture.driver.getEvents(id)
    expect(events.find(({ kind }) => kind === 'UserRejectObservation')).toMatchObject({
      rejection_reason: 'Not on this machine.',
    })
    const { width } = await page.evaluate(() => ({ width: document.documentElement.scrollWidth }))
    expect(width).toBeLessThanOrEqual(390)
    await page.context().close()
  })

  test('a question shows an edit and all arguments, and its answer is for what it showed', async () => {
    const old_str = `same\nold\n${'line\n'.repeat(2_000)}`
    const edit = {
      command: 'str_replace',
      path: '/tmp/none/of.txt',
      old_str,
      new_str: old_str.replace('old', 'new'),
    }
    const llm = scriptedModel([
      toolCallsStep(toolCall('file_editor', edit)),
      bashStep('echo one'),
      bashStep('echo two'),
      finishStep('Done.'),
    ])
    const { id } = await fixture.driver.create(
      { llm, tools: [{ name: 'terminal' }, { name: 'file_editor' }] },
      {
        initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
        confirmation_policy: { kind: 'AlwaysConfirm' },
      },
    )
    const { page } = await fixture.newPage()
    await visit(page, id)
    const question = page.locator('.confirmation')
    await question.getByText('str_replace /tmp/none/of.txt').waitFor()
    expect(await question.locator('.removed').allTextContents()).toEqual(['- old'])
    expect(await question.locator('.added').allTextContents()).toEqual(['+ new'])
    const answer = async () => {
      const response = page.waitForResponse('**/respond_to_confirmation')
      await page.getByRole('button', { name: 'Approve' }).click()
      return (await response).status()
    }
    expect(await answer()).toBe(200)
    await page.locator('.confirmation', { hasText: 'echo one' }).waitFor()
    // While the answer is on its way, another client rejects, and another command waits.
    const rejectElsewhere = async (route: Route) => {
      expect(route.request().postDataJSON().actions_digest).toMatch(/^sha256:[0-9a-f]{64}$/)
      const rejected = await fixture.driver.post(id, 'events/respond_to_confirmation', { accept: false })
      expect(rejected.status).toBe(200)
      await fixture.driver.post(id, 'run')
      await fixture.driver.waitUntilIdle(id)
      await route.continue()
    }
    await page.route('**/respond_to_confirmation', rejectElsewhere, { times: 1 })
    expect(await answer()).toBe(409)
    await page.locator('.confirmation', { hasText: 'echo two' }).waitFor()
    expect((await fixture.driver.getInfo(id)).execution_status).toBe('waiting_for_confirmation')
    await page.context().close()
  })

  test('a question that is not shown has no answer', async () => {
    const { id } = await fixture.driver.create(
      { llm: scriptedModel([bashStep('echo unseen'), finishStep('Done.')]), tools: [{ name: 'terminal' }] },
      {
        initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
        confirmation_policy: { kind: 'AlwaysConfirm' },
      },
    )
    await fixture.driver.waitUntilIdle(id)
    const { page } = await fixture.newPage()
    const isRead = Promise.withResolvers<void>()
    const ofQuestion = /events\/search\?.*TIMESTAMP_DESC/
    await page.route(ofQuestion, async (route) => {
      await isRead.promise
      await route.fulfill({ status: 503, contentType: 'application/json', body: '{"detail":"out of reach"}' })
    })
    await visit(page, id)
    const question = page.locator('.confirmation')
    const buttons = ['Approve', 'Reject'].map((name) => question.getByRole('button', { name }))
    const areEnabled = () => Promise.all(buttons.map((button) => button.isEnabled()))
    await question.getByText('Reading the calls').waitFor()
    expect(await areEnabled()).toEqual([false, false])
    isRead.resolve()
    await question.getByText('out of reach').waitFor()
    expect(await areEnabled()).toEqual([false, false])
    await page.unroute(ofQuestion)
    await question.getByRole('button', { name: 'Try again' }).click()
    await question.getByText('echo unseen').waitFor()
    expect(await areEnabled()).toEqual([true, true])
    await page.context().close()
  })

  test('holds few rows of a long log, and goes to any position', async () => {
    const size = 20_000
    const event = (n: number) =>
      JSON.stringify({
        kind: 'MessageEvent',
        source: n % 2 === 0 ? 'agent' : 'user',
        timestamp: new Date(Date.UTC(2026, 0, 1) + n * 1_000).toISOString(),
        llm_message: { role: 'user', content: [{ type: 'text', text: `message number ${n}` }] },
      })
    const id = await fixture.api.import(Array.from({ length: size }, (_, n) => event(n + 1)).join('\n'))
    const { page, problems } = await fixture.newPage()
    await visit(page, id, '#12345')
    await page.getByText('message number 12345', { exact: true }).waitFor()
    await page.locator('.entry.target[data-position="12345"]').waitFor()
    const rows = () => page.locator('.entry').count()
    expect(await rows()).toBeLessThanOrEqual(400)
    // Scrolling up and down leaves what is read in its place, and the number of rows bounded.
    for (const direction of [-1, 1, 1, 1, -1]) {
      for (let n = 0; n < 25; n++) await page.mouse.wheel(0, direction * 900)
      expect(await rows()).toBeLessThanOrEqual(400)
      const positions = await shownPositions(page)
      expect(positions).toEqual(positions.map((_, at) => (positions[0] ?? 0) + at))
    }
    await page.keyboard.press('Shift+G')
    await page.getByText(`message number ${size}`, { exact: true }).waitFor()
    await page.evaluate(() => {
      location.hash = '#7'
    })
    await page.locator('.entry.target[data-position="7"]').waitFor()
    expect(await rows()).toBeLessThanOrEqual(400)
    // New events do not move what is being read.
    const before = await page.locator('.entry.target').boundingBox()
    await fixture.api.sendJson('POST', `/api/conversations/${id}/events`, {
      content: [{ type: 'text', text: 'one more' }],
      run: false,
    })
    await page.getByRole('button', { name: '1 new' }).waitFor()
    expect((await page.locator('.entry.target').boundingBox())?.y).toBe(before?.y)
    await page.getByRole('button', { name: '1 new' }).click()
    await page.getByText('one more').waitFor()
    expect(problems).toEqual([])
    await page.context().close()
  })
})

/** Each call of the exported log is in the row of its position, and nowhere else. */
async function compareWithExport(page: Page, events: readonly ApiEvent[]): Promise<void> {
  const rows = await page.locator('.entry[data-positions]').evaluateAll((entries) =>
    entries.map((entry) => ({
      positions: (entry.getAttribute('data-positions') ?? '').split(' ').map(Number),
      text: entry.textContent ?? '',
    })),
  )
  const commands = events.flatMap((event, at) => {
    const command = (event.action as { command?: unknown } | undefined)?.command
    return typeof command === 'string' ? [{ position: at + 1, command }] : []
  })
  expect(commands.length).toBeGreaterThan(10)
  for (const { position, command } of commands) {
    const shown = rows.filter(({ text }) => text.includes(command))
    expect(
      shown.map(({ positions }) => positions.includes(position)),
      command,
    ).toEqual([true])
  }
}

/** The timeline shows each position of the log once; a result stands beside its call. */
async function checkOrder(page: Page, size: number): Promise<void> {
  const positions = await shownPositions(page)
  expect([...positions].sort((a, b) => a - b)).toEqual(Array.from({ length: size }, (_, n) => n + 1))
  const firsts = await page
    .locator('.entry[data-position]')
    .evaluateAll((entries) => entries.map((entry) => Number(entry.getAttribute('data-position'))))
  expect(firsts).toEqual([...firsts].sort((a, b) => a - b))
}
