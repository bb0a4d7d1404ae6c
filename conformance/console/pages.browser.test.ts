import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { applicationFiles } from '../map/extensions/application.ts'
import { bashStep, finishStep, scriptedModel } from '../support/agent-driver.ts'
import { findChromium } from '../support/browser-user.ts'
import { errorReply, MockProvider } from '../support/mock-provider.ts'
import { axeThemes, ConsoleFixture, findViolations, waitUntil } from './console-fixture.ts'

const chromiumPath = await findChromium()
const key = 'a-session-key-of-the-console-test'

describe.runIf(chromiumPath !== undefined)('the pages of the console', { timeout: 400_000 }, () => {
  let fixture: ConsoleFixture
  beforeAll(async () => {
    fixture = await ConsoleFixture.open(chromiumPath ?? '', { key, path: '/behind/a/proxy' })
  }, 180_000)
  afterAll(() => fixture?.[Symbol.asyncDispose](), 60_000)

  const signIn = async (page: Page, path = '/') => {
    await page.goto(`${fixture.site.url}${path}`)
    const pages = page.getByRole('navigation', { name: 'Main' })
    await page.getByLabel('Key', { exact: true }).or(pages).waitFor()
    if (await pages.isVisible()) return
    await page.getByLabel('Key', { exact: true }).fill(key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await pages.waitFor()
  }

  test('a wrong key is refused, a right one is taken and is stored nowhere', async () => {
    const { page, problems, foreignRequests } = await fixture.newPage()
    await page.goto(`${fixture.site.url}/`)
    await page.getByLabel('Key').fill('a-wrong-key')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('This key is not accepted.').waitFor()
    const refusal = { status: 429, json: { detail: 'Too many wrong keys; wait a minute' } }
    await page.route('**/console/session', (route) => route.fulfill(refusal), { times: 1 })
    await page.getByLabel('Key').fill(key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('Too many wrong keys').waitFor()
    await signIn(page)
    await page.getByRole('heading', { name: 'Conversations', exact: true }).waitFor()
    const traces = await page.evaluate(() =>
      JSON.stringify([
        document.documentElement.outerHTML,
        Object.entries(localStorage),
        Object.entries(sessionStorage),
        document.cookie,
        location.href,
        history.state,
      ]),
    )
    expect(traces).not.toContain(key)
    await page.getByRole('button', { name: 'Menu of the console' }).click()
    await page.getByRole('menuitem', { name: 'Sign out' }).click()
    await page.getByLabel('Key').waitFor()
    expect(problems).toEqual([])
    expect(foreignRequests).toEqual([])
    await page.context().close()
  })

  test('conversations are found, renamed, deleted with a way back, exported and imported', async () => {
    const lines = readFileSync(new URL('../../examples/sample-log/sample.jsonl', import.meta.url), 'utf8')
    const ids = await Promise.all(
      ['apples', 'pears'].map(async (title) => {
        const id = await fixture.api.import(lines)
        await fixture.api.sendJson('PATCH', `/api/conversations/${id}`, { title, tags: { fruit: title } })
        return id
      }),
    )
    const { page, problems } = await fixture.newPage()
    await signIn(page)
    const titles = page.locator('.row-title')
    await page.getByRole('link', { name: 'apples' }).waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('pea')
    await waitUntil(async () => (await titles.count()) === 1, 'one title is left')
    expect(page.url()).toContain('q=pea')
    await page.getByRole('button', { name: 'Actions of pears' }).click()
    await page.getByRole('menuitem', { name: 'Rename' }).click()
    await page.getByLabel('Title', { exact: true }).fill('sweet peaches')
    await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click()
    await page.getByRole('link', { name: 'sweet peaches' }).waitFor()
    await page.getByRole('button', { name: 'Actions of sweet peaches' }).click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await waitUntil(async () => (await titles.count()) === 0, 'it is gone from the list')
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.getByRole('link', { name: 'sweet peaches' }).waitFor()
    expect((await fixture.api.fetch(`/api/conversations/${ids[1]}`)).status).toBe(200)
    await page.getByRole('button', { name: 'Actions of sweet peaches' }).click()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('menuitem', { name: 'Export' }).click(),
    ])
    const exported = await text(await download.createReadStream())
    expect(exported.split('\n').slice(1).join('\n')).toBe(lines)
    await page.getByRole('button', { name: 'Actions of sweet peaches' }).click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await waitUntil(
      async () => (await fixture.api.fetch(`/api/conversations/${ids[1]}`)).status === 404,
      'it is deleted when no one took it back',
    )
    await page.locator('input[type=file]').setInputFiles({
      name: 'again.jsonl',
      mimeType: 'application/x-ndjson',
      buffer: Buffer.from(exported),
    })
    await page.getByText('again.jsonl:').waitFor()
    await page.getByRole('button', { name: 'Open' }).click()
    await page.waitForURL(`**/c/${ids[1]}`)
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('nothing runs and nothing overflows, whatever the model and its tools write', async () => {
    const attack = [
      '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>',
      '[link](javascript:window.hacked=3) ![picture](http://192.0.2.1/a.png) <iframe srcdoc="<script>parent.hacked=4</script>">',
      '\u001b]8;;javascript:window.hacked=5\u0007click\u001b]8;;\u0007 \u001b[31mred\u001b[0m \u001b[2J\u001b[H',
      '\u202e right to left \u2066 مرحبا 👩‍👩‍👧‍👦 \u0000\u0007',
      'x'.repeat(20_000),
      `| a | b |\n|---|---|\n| ${'y'.repeat(3_000)} | z |`,
    ].join('\n\n')
    const text = { type: 'text', text: attack }
    const call = { id: 'c1', name: attack, arguments: attack, origin: 'completion' }
    const common = { tool_name: attack, tool_call_id: 'c1' }
    const svg = `data:image/svg+xml,${encodeURIComponent('<svg xmlns="http://www.w3.org/2000/svg" onload="parent.hacked=6"/>')}`
    const events: object[] = [
      { kind: 'SystemPromptEvent', source: 'agent', system_prompt: text, tools: [] },
      {
        kind: 'MessageEvent',
        source: 'user',
        sender: attack,
        llm_message: {
          role: 'user',
          content: [text, { type: 'image', image_urls: [svg, 'http://192.0.2.1/b.png', attack] }],
        },
      },
      {
        kind: 'ActionEvent',
        id: 'a1',
        ...common,
        thought: [text],
        reasoning_content: attack,
        summary: attack,
        tool_call: call,
        llm_response_id: attack,
        action: { kind: 'TerminalAction', command: attack },
      },
      {
        kind: 'ObservationEvent',
        ...common,
        action_id: 'a1',
        observation: { kind: 'TerminalObservation', content: [text], command: attack, exit_code: 1 },
      },
      {
        kind: 'ActionEvent',
        id: 'a2',
        ...common,
        tool_call_id: 'c2',
        thought: [],
        tool_call: { ...call, id: 'c2' },
        llm_response_id: 'r2',
        action: { kind: 'MCPToolAction', data: { [attack]: attack } },
      },
      { kind: 'AgentErrorEvent', ...common, tool_call_id: 'c2', error: attack },
      {
        kind: 'ActionEvent',
        id: 'a3',
        ...common,
        tool_call_id: 'c3',
        thought: [],
        tool_call: { ...call, id: 'c3' },
        llm_response_id: 'r3',
        action: {
          kind: 'FileEditorAction',
          command: 'str_replace',
          path: attack,
          old_str: attack,
          new_str: `${attack}!`,
        },
      },
      {
        kind: 'UserRejectObservation',
        ...common,
        tool_call_id: 'c3',
        action_id: 'a3',
        rejection_reason: attack,
      },
      {
        kind: 'ActionEvent',
        id: 'a4',
        ...common,
        tool_call_id: 'c4',
        thought: [],
        tool_call: { ...call, id: 'c4' },
        llm_response_id: 'r4',
        action: {
          kind: 'TaskTrackerAction',
          command: 'plan',
          task_list: [{ title: attack, notes: attack, status: attack }],
        },
      },
      { kind: 'Condensation', llm_response_id: 'r5', summary: attack, forgotten_event_ids: [attack] },
      { kind: 'ConversationErrorEvent', source: 'environment', code: attack, detail: attack },
      { kind: 'ConversationStateUpdateEvent', key: attack, value: { [attack]: attack } },
      { kind: `Unknown${attack}`, source: 'agent', [attack]: { deep: [attack] } },
      {
        kind: 'ObservationEvent',
        tool_name: 'terminal',
        tool_call_id: 'c9',
        action_id: 'a9',
        observation: {
          kind: 'TerminalObservation',
          content: [{ type: 'text', text: 'line of output\n'.repeat(3_500_000) }],
          command: 'yes',
        },
      },
    ]
    const meta = JSON.stringify({ title: attack.slice(0, 190), tags: { x: attack.slice(0, 200) } })
    const id = await fixture.api.import(
      [meta, ...events.map((event) => JSON.stringify(event))].join('\n'),
      '?unknown=keep',
    )
    const { page, problems, foreignRequests } = await fixture.newPage()
    await signIn(page)
    await page.getByText('<img src=x').first().waitFor()
    await checkNothingRan(page)
    await signIn(page, `/c/${id}?view=all`)
    await page.locator('.entry').last().waitFor()
    await page.locator('.timeline-scroller').focus()
    await page.keyboard.press('x')
    await page.getByText('line of output').first().waitFor()
    await page.locator('.ansi-red', { hasText: 'red' }).first().waitFor()
    for (const viewport of [
      { width: 1280, height: 800 },
      { width: 390, height: 844 },
    ]) {
      await page.setViewportSize(viewport)
      await checkNothingRan(page)
      // What is wider than the timeline is cut or has its own scroll bar.
      const tooWide = await page
        .locator('.timeline-scroller')
        .evaluate((scroller) =>
          [...scroller.querySelectorAll('.entry, .entry > *, .call, .fold, .output, .markdown')]
            .filter(
              (element) => element.getBoundingClientRect().right > scroller.getBoundingClientRect().right,
            )
            .map((element) => element.outerHTML.slice(0, 200)),
        )
      expect(tooWide).toEqual([])
    }
    // The big output is cut, and there is more of it when it is asked for.
    expect(await page.evaluate(() => document.body.innerText.length)).toBeLessThan(2_000_000)
    await page.getByRole('button', { name: 'Panel', exact: true }).click()
    for (const tab of ['Terminal', 'Tasks', 'Context', 'Usage', 'Details']) {
      await page.getByRole('tab', { name: tab }).click()
      await page.locator(`#panel[aria-labelledby="tab-${tab}"] > *`).first().waitFor()
    }
    await checkNothingRan(page)
    expect(problems).toEqual([])
    expect(foreignRequests).toEqual([])
    await page.context().close()
  })

  test('the first load is at most 250 kB compressed', async () => {
    const html = await readFile(join(fixture.bundle, 'index.html'), 'utf8')
    const names = [...html.matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map((found) => String(found[1]))
    const sizes = await Promise.all(
      names.map(async (name) => gzipSync(await readFile(join(fixture.bundle, name))).length),
    )
    expect(names.length).toBeGreaterThan(1)
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(250_000)
  })

  test('a first model is set up, a conversation begun, settings and secrets changed', async () => {
    const { page, problems } = await fixture.newPage()
    await signIn(page, '/settings/secrets')
    await page.getByLabel('Name').fill('DEPLOY_TOKEN')
    await page.getByLabel('Value').fill('a-canary-of-the-console')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('DEPLOY_TOKEN', { exact: true }).waitFor()
    expect(await page.content()).not.toContain('a-canary-of-the-console')
    await page.getByRole('link', { name: 'Agent' }).click()
    await page.getByLabel('Parallel tool calls').fill('3')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Saved').waitFor()
    expect((await fixture.api.requestJson('/api/settings')).body).toMatchObject({
      agent_settings: { tool_concurrency_limit: 3 },
    })
    await page.keyboard.press('Escape')
    await page.locator('h1').click()
    await page.keyboard.press('n')
    await page.getByRole('heading', { name: 'First, a model' }).waitFor()
    await page.getByLabel('Model, as provider/name').fill('nobody/nothing')
    await page.getByRole('button', { name: 'Try and save' }).click()
    await page.locator('.problem', { hasText: /\w/ }).waitFor()
    const llm = scriptedModel([bashStep('echo from the console'), finishStep('Begun and done.')])
    await fixture.api.sendJson('POST', '/api/profiles/scripted', { llm })
    await signIn(page, '/')
    await page.getByRole('link', { name: 'New', exact: true }).click()
    const workspace = await mkdtemp(join(tmpdir(), 'slipway-skills-'))
    for (const name of ['release', 'review']) {
      const directory = join(workspace, '.agents/skills', name)
      await mkdir(directory, { recursive: true })
      const text = `---\nname: ${name}\ndescription: How to ${name}.\n---\nCarefully.\n`
      await writeFile(join(directory, 'SKILL.md'), text)
    }
    await page.getByLabel('What is to be done?').fill('Say something.')
    await page.getByLabel('Workspace').fill(workspace)
    await page.getByText('Skills', { exact: true }).click()
    await page.getByLabel('release').uncheck()
    await page.getByRole('button', { name: 'Begin' }).click()
    await page.getByText('Begun and done.').waitFor()
    const id = new URL(page.url()).pathname.split('/').at(-1)
    const prompt = await fixture.api.fetch(`/api/conversations/${id}/events/search?kind=SystemPromptEvent`)
    const text = await prompt.text()
    expect([text.includes('How to review.'), text.includes('How to release.')]).toEqual([true, false])
    await rm(workspace, { recursive: true })
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('an application is approved with the names of its secrets, started and opened', async () => {
    const source = await mkdtemp(join(tmpdir(), 'slipway-app-'))
    const backend = { argv: ['{artifact_dir}/run.js', '{port}', '{data_dir}'], secrets: ['MAIL_TOKEN'] }
    for (const [path, content] of Object.entries(applicationFiles({ name: 'notes', backend }))) {
      await mkdir(join(source, path, '..'), { recursive: true })
      await writeFile(join(source, path), content)
    }
    await fixture.api.sendJson('PUT', '/api/settings/secrets', { name: 'MAIL_TOKEN', value: 'a-mail-token' })
    await fixture.api.sendJson('POST', '/api/canvas-extensions/install', { source })
    const { page, problems } = await fixture.newPage({ bypassCSP: true })
    await signIn(page, '/settings/applications')
    await page.getByRole('button', { name: 'Approve …' }).click()
    const dialog = page.getByRole('dialog', { name: 'Approve notes 0.1.0' })
    await dialog.getByText('MAIL_TOKEN').waitFor()
    expect(await findViolations(page, 'approval')).toEqual([])
    await dialog.getByRole('button', { name: 'Approve', exact: true }).click()
    await page.getByRole('button', { name: 'Start' }).click()
    const opened = page.context().waitForEvent('page')
    await page.getByRole('button', { name: 'Open' }).click()
    const application = await opened
    await application.getByText('"path":"/"').waitFor()
    expect(new URL(application.url()).hostname).toMatch(/^notes-[0-9a-f]{8}\.localhost$/)
    expect(await application.textContent('body')).toContain('a-mail-token')
    await page.getByRole('button', { name: 'Delete notes' }).click()
    await page.getByText('No applications are installed').waitFor()
    await rm(source, { recursive: true })
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('why a model did not answer is shown, also of one that is saved all the same', async () => {
    await using provider = await MockProvider.open()
    const { page, problems } = await fixture.newPage()
    await signIn(page, '/settings')
    const add = page.getByRole('button', { name: 'Add a model' })
    await add.or(page.getByLabel('Model, as provider/name')).waitFor()
    if (await add.isVisible()) await add.click()
    await page.getByLabel('Name', { exact: true }).fill('silent')
    await page.getByLabel('Model, as provider/name').fill('openai-compatible/m')
    await page.getByLabel('Address').fill(`${provider.url}/v1`)
    provider.replyWithoutTools = errorReply(402, { error: { message: 'no credits' } })
    await page.getByRole('button', { name: 'Try and save' }).click()
    await page.locator('.problem', { hasText: /LLMRateLimitError: .*no credits/ }).waitFor()
    provider.replyWithoutTools = errorReply(504, { error: { message: 'too late' } })
    await page.getByRole('button', { name: 'Try and save' }).click()
    await page.getByText(/The model is saved\. It did not answer: LLMTimeoutError: .*too late/).waitFor()
    provider.replyWithoutTools = errorReply(429, { error: { message: 'slow down' } })
    await page
      .getByRole('listitem')
      .filter({ hasText: 'silent' })
      .getByRole('button', { name: 'Test' })
      .click()
    await page.getByText(/silent: LLMRateLimitError: .*slow down/).waitFor()
    await fixture.api.fetch('/api/profiles/silent', { method: 'DELETE' })
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('every view is free of violations that axe finds', async () => {
    const llm = scriptedModel([bashStep('exit 2'), bashStep('echo waits'), finishStep('Done.')])
    const { id } = await fixture.driver.create(
      { llm },
      {
        initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
        confirmation_policy: { kind: 'AlwaysConfirm' },
      },
    )
    for (const colorScheme of axeThemes('dark')) {
      const { page } = await fixture.newPage({ colorScheme, bypassCSP: true })
      await page.goto(`${fixture.site.url}/`)
      await page.getByLabel('Key').waitFor()
      const found: string[] = await findViolations(page, 'sign-in')
      await signIn(page)
      await page.locator('.row').first().waitFor()
      found.push(...(await findViolations(page, 'list')))
      await page.keyboard.press('?')
      await page.getByRole('dialog').waitFor()
      found.push(...(await findViolations(page, 'shortcuts')))
      await signIn(page, `/c/${id}`)
      await page.getByRole('button', { name: 'Approve' }).waitFor()
      await page.keyboard.press('x')
      await page.getByRole('button', { name: 'Panel', exact: true }).click()
      found.push(...(await findViolations(page, 'conversation')))
      await page.getByRole('tab', { name: 'Usage' }).click()
      await page.locator('.plot canvas').first().waitFor()
      found.push(...(await findViolations(page, 'usage')))
      await signIn(page, '/settings/agent')
      await page.getByLabel('Parallel tool calls').waitFor()
      found.push(...(await findViolations(page, 'settings')))
      expect(found).toEqual([])
      await page.context().close()
    }
  })
})

async function checkNothingRan(page: Page): Promise<void> {
  const seen = await page.evaluate(() => ({
    hacked: 'hacked' in window,
    scripts: document.querySelectorAll('#root script, #root iframe, #root [onerror], #root object').length,
    links: [...document.querySelectorAll('#root a')].filter((link) =>
      /^javascript:/i.test((link as HTMLAnchorElement).href),
    ).length,
    width: document.documentElement.scrollWidth - innerWidth,
  }))
  expect(seen).toEqual({ hacked: false, scripts: 0, links: 0, width: 0 })
}
