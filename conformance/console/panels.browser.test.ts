import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bashStep, scriptedModel, toolCall, toolCallsStep } from '../support/agent-driver.ts'
import { messageLine, toJsonLines } from '../support/agent-server-api.ts'
import { findChromium } from '../support/browser-user.ts'
import { ConsoleFixture, findViolations, waitUntil } from './console-fixture.ts'

const chromiumPath = await findChromium()
/** 1 by 1 pixel. */
const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

describe.runIf(chromiumPath !== undefined)('the panels of a conversation', { timeout: 400_000 }, () => {
  let fixture: ConsoleFixture
  let workspace: string
  let id: string
  beforeAll(async () => {
    workspace = await mkdtemp(join(tmpdir(), 'slipway-panels-'))
    fixture = await ConsoleFixture.open(chromiumPath ?? '')
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.com', ...args], {
        cwd: workspace,
      })
    await mkdir(join(workspace, 'src'))
    await writeFile(join(workspace, 'src/main.ts'), "// a comment\nexport const answer = 'forty-two'\n")
    await writeFile(
      join(workspace, 'attack.md'),
      '<img src=x onerror="window.hacked=1">\n\n[go](javascript:window.hacked=2)\n',
    )
    await writeFile(
      join(workspace, 'attack.svg'),
      '<svg xmlns="http://www.w3.org/2000/svg" onload="parent.hacked=3"/>',
    )
    await writeFile(join(workspace, 'dot.png'), png)
    await writeFile(join(workspace, 'program.bin'), Buffer.from([1, 0, 2]))
    await writeFile(join(workspace, 'huge.log'), 'a line of the log\n'.repeat(400_000))
    await writeFile(join(workspace, '.hidden'), 'not shown at first')
    await symlink('/etc/hostname', join(workspace, 'outside'))
    git('init', '--quiet')
    git('add', '.')
    git('commit', '--quiet', '-m', 'first')
    const script = [
      toolCallsStep(
        toolCall('task_tracker', {
          command: 'plan',
          task_list: [{ title: 'Look at the files', status: 'in_progress', notes: '' }],
        }),
      ),
      {
        ...bashStep('echo "// changed" >> src/main.ts'),
        usage: { prompt_tokens: 900, completion_tokens: 20 },
      },
      { text: 'Changed.' },
    ]
    const tools = [{ name: 'terminal' }, { name: 'task_tracker' }]
    const conversation = await fixture.driver.create(
      { llm: scriptedModel(script), tools },
      {
        workspace: { working_dir: workspace },
        initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
      },
    )
    id = conversation.id
    await fixture.driver.waitUntilIdle(id)
  }, 180_000)
  afterAll(async () => {
    await fixture?.[Symbol.asyncDispose]()
    await rm(workspace, { recursive: true, force: true })
  }, 60_000)

  const openPanel = async (tab: string, options = {}) => {
    const watched = await fixture.newPage(options)
    await watched.page.goto(`${fixture.site.url}/c/${id}`)
    await watched.page.getByText('Changed.').first().waitFor()
    await watched.page.getByRole('button', { name: 'Panel', exact: true }).click()
    await watched.page.getByRole('tab', { name: tab }).click()
    return watched
  }

  test('files of the workspace are listed and shown: source, Markdown, pictures, and nothing runs', async () => {
    const { page, problems, foreignRequests } = await openPanel('Files', { bypassCSP: true })
    const panel = page.locator('.panel')
    const back = () => panel.getByRole('navigation', { name: 'Path' }).getByRole('button').first().click()
    const open = (name: string) => panel.getByRole('button', { name, exact: false }).click()
    await open('src/')
    await open('main.ts')
    await panel.locator('.numbered .code-line', { hasText: 'answer' }).waitFor()
    // The grammar is loaded when it is needed, and its colours are those of the page.
    await waitUntil(
      async () => (await panel.locator('.code-line span[style*="--code-string"]').count()) > 0,
      'the text is coloured',
    )
    expect(await findViolations(page, 'file')).toEqual([])
    await back()
    await open('attack.md')
    await panel.getByText('<img src=x').waitFor()
    await back()
    await open('attack.svg')
    await panel.locator('img.picture').waitFor()
    await back()
    await open('dot.png')
    await waitUntil(
      async () =>
        await panel
          .locator('img.picture')
          .evaluate((image) => (image as HTMLImageElement).naturalWidth === 1),
      'the picture is shown',
    )
    await back()
    await open('program.bin')
    await panel.getByText('This file is no text.').waitFor()
    await back()
    await open('huge.log')
    await panel.getByText('Only the first').waitFor()
    expect(await page.evaluate(() => document.body.innerText.length)).toBeLessThan(200_000)
    await back()
    await open('outside')
    await panel.getByRole('alert').getByText('inside the conversation workspace').waitFor()
    await back()
    expect(await panel.getByText('.hidden').count()).toBe(0)
    await panel.getByLabel('Hidden files').check()
    await panel.getByText('.hidden').waitFor()
    expect(await page.evaluate(() => 'hacked' in window)).toBe(false)
    expect(problems).toEqual([])
    expect(foreignRequests).toEqual([])
    await page.context().close()
  })

  test('changes are a diff, commands have their output, tasks and use are shown', async () => {
    const { page, problems } = await openPanel('Changes')
    const panel = page.locator('.panel')
    await panel.getByRole('button', { name: 'src/main.ts' }).click()
    await panel.locator('.diff .added', { hasText: '// changed' }).waitFor()
    await page.getByRole('tab', { name: 'Terminal' }).click()
    await panel.getByText('echo "// changed"').waitFor()
    await page.getByRole('tab', { name: 'Tasks' }).click()
    await panel.getByText('Look at the files').waitFor()
    await page.getByRole('tab', { name: 'Usage' }).click()
    await panel.locator('.plot canvas').first().waitFor()
    await page.getByRole('tab', { name: 'Details' }).click()
    await panel.getByText(workspace).waitFor()
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('the context panel shows what the model sees, and the log marks what it no longer sees', async () => {
    const at = (second: number) => `2026-03-01T10:00:0${second}`
    const condensation = {
      ...{ id: 'c1', timestamp: at(5), kind: 'Condensation', source: 'environment', llm_response_id: 'r1' },
      ...{ forgotten_event_ids: ['m2', 'm3'], summary: 'What was <b>said</b>', summary_offset: 1 },
    }
    const messages = [1, 2, 3, 4].map((n) => messageLine(`m${n}`, at(n), `message ${n}`))
    const back = {
      ...{ id: 'l1', timestamp: at(6), kind: 'ConversationStateUpdateEvent', source: 'environment' },
      ...{ key: 'leaf_event_id', value: 'm3' },
    }
    const branched = await fixture.api.import(toJsonLines(...messages, back))
    const condensed = await fixture.api.import(toJsonLines(...messages, condensation))
    const { page, problems } = await fixture.newPage()
    await page.goto(`${fixture.site.url}/c/${condensed}`)
    await page.locator('.entry.forgotten', { hasText: 'message 2' }).waitFor()
    expect(await page.locator('.entry.forgotten').count()).toBe(2)
    await page.getByRole('button', { name: 'Panel', exact: true }).click()
    await page.getByRole('tab', { name: 'Context' }).click()
    const panel = page.locator('.panel')
    await panel.getByText('What was <b>said</b>').waitFor()
    await panel.getByRole('link', { name: '#4' }).click()
    await page.locator('.entry.target', { hasText: 'message 4' }).waitFor()
    expect(await findViolations(page, 'context panel')).toEqual([])
    await page.goto(`${fixture.site.url}/c/${branched}`)
    await page.locator('.entry.forgotten', { hasText: 'message 4' }).waitFor()
    await page.getByRole('link', { name: 'Go to #3' }).click()
    await page.locator('.entry.target', { hasText: 'message 3' }).waitFor()
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('on a phone the panel covers the page, and closes', async () => {
    const viewport = { width: 390, height: 844 }
    const { page, problems } = await openPanel('Files', { viewport, hasTouch: true, isMobile: true })
    const box = await page.locator('.panels').boundingBox()
    expect(box?.width).toBe(390)
    expect(box?.height).toBeGreaterThan(700)
    // What is beneath does not show through.
    const isOnTop = await page.locator('.panels').evaluate((panels) => {
      const { left, top, width, height } = panels.getBoundingClientRect()
      const spots = [0.1, 0.5, 0.9].map((part) =>
        document.elementFromPoint(left + width / 2, top + height * part),
      )
      return spots.every((spot) => spot !== null && panels.contains(spot))
    })
    expect(isOnTop).toBe(true)
    await page.getByRole('button', { name: 'Close the panel' }).tap()
    await page.getByRole('button', { name: 'Send' }).waitFor()
    expect(await page.locator('.panels').count()).toBe(0)
    expect(problems).toEqual([])
    await page.context().close()
  })
})
