import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { bashStep, finishStep, scriptedModel, toolCall, toolCallsStep } from '../support/agent-driver.ts'
import { findChromium } from '../support/browser-user.ts'
import { SandboxServer } from '../support/sandbox-server/server.ts'
import { createUser, textModel } from '../support/sandbox-server/user.ts'
import { openBrowser } from '../support/shared-browser.ts'
import { ConsoleFixture, findViolations } from './console-fixture.ts'

/**
 * `npx node conformance/console/screenshots.ts [--out DIRECTORY] [--only NAME] [--server agent|sandbox] [--png]`:
 * pictures of every page of both consoles, in light, dark and phone width, for docs/console.md and for the
 * eye. What axe finds in each goes to bench/results/console-accessibility.json; it ends with 1 when axe
 * finds anything.
 */

const { values } = parseArgs({
  options: {
    out: { type: 'string', default: resolve(import.meta.dirname, '../../docs/images/console') },
    only: { type: 'string' },
    server: { type: 'string' },
    png: { type: 'boolean', default: false },
  },
})

const looks = {
  light: { viewport: { width: 1280, height: 800 }, colorScheme: 'light' },
  dark: { viewport: { width: 1280, height: 800 }, colorScheme: 'dark' },
  phone: {
    viewport: { width: 390, height: 844 },
    colorScheme: 'light',
    hasTouch: true,
    isMobile: true,
  },
} as const

/** A page to take, and how it is reached in a browser that is signed in. */
interface Shot {
  readonly name: string
  open(page: Page): Promise<void>
}

interface ViewReport {
  readonly view: string
  /** Of WCAG 2.2 AA and of the rules of axe, as `view: rule: element`. */
  readonly violations: readonly string[]
}
const reports: ViewReport[] = []

const chromiumPath = await findChromium()
if (chromiumPath === undefined) throw new Error('Chromium is not installed')
await mkdir(values.out, { recursive: true })
if (values.server !== 'sandbox') await takeAgentServer(chromiumPath)
if (values.server !== 'agent') await takeSandboxServer(chromiumPath)
const file = new URL('../../bench/results/console-accessibility.json', import.meta.url)
const before = JSON.parse(await readFile(file, 'utf8').catch(() => '[]')) as ViewReport[]
const others = before.filter(({ view }) => !reports.some((report) => report.view === view))
const all = [...others, ...reports].sort((a, b) => (a.view < b.view ? -1 : 1))
await writeFile(file, `${JSON.stringify(all, null, 2)}\n`)
for (const violation of reports.flatMap(({ violations }) => violations)) {
  console.error(violation)
  process.exitCode = 1
}

async function take(browser: Browser, shots: readonly Shot[], signIn?: (page: Page) => Promise<void>) {
  for (const [look, options] of Object.entries(looks)) {
    // The policy of the pages forbids the script of axe.
    const context = await browser.newContext({ ...options, bypassCSP: true })
    const page = await context.newPage()
    await signIn?.(page)
    for (const { name, open } of shots) {
      if (values.only !== undefined && !name.includes(values.only)) continue
      await open(page)
      // Markdown, colours and plots come after the text.
      await page.waitForTimeout(1_500)
      await save(browser, `${name}-${look}`, await page.screenshot())
      const violations = await findViolations(page, `${name}-${look}`)
      reports.push({ view: `${name}-${look}`, violations })
      console.log(`${name}-${look}`)
    }
    await context.close()
  }
}

/** Saves a picture as WebP, which Chromium can write. */
async function save(browser: Browser, name: string, png: Buffer): Promise<void> {
  if (values.png) return void (await writeFile(join(values.out, `${name}.png`), png))
  const page = await browser.newPage()
  const webp = await page.evaluate(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0))
    const picture = await createImageBitmap(new Blob([bytes], { type: 'image/png' }))
    const canvas = document.createElement('canvas')
    const scale = Math.min(1, 800 / picture.width)
    canvas.width = picture.width * scale
    canvas.height = picture.height * scale
    const context = canvas.getContext('2d')
    if (context === null) throw new Error('No canvas')
    context.imageSmoothingQuality = 'high'
    context.drawImage(picture, 0, 0, canvas.width, canvas.height)
    return canvas.toDataURL('image/webp', 0.6).split(',')[1] ?? ''
  }, png.toString('base64'))
  await page.close()
  await writeFile(join(values.out, `${name}.webp`), Buffer.from(webp, 'base64'))
}

async function takeAgentServer(executablePath: string): Promise<void> {
  const workspace = await mkdtemp(join(tmpdir(), 'slipway-shop-'))
  await using fixture = await ConsoleFixture.open(executablePath)
  const browser = await openBrowser(executablePath)
  try {
    await writeWorkspace(workspace)
    const { driver, site } = fixture
    const create = async (title: string, script: readonly unknown[], more: object = {}) => {
      const { id } = await driver.create(
        {
          llm: scriptedModel(script),
          tools: [{ name: 'terminal' }, { name: 'file_editor' }, { name: 'task_tracker' }],
        },
        {
          workspace: { working_dir: workspace },
          initial_message: {
            content: [
              {
                type: 'text',
                text: 'The totals of the cart are wrong when a coupon is used. Please find out why.',
              },
            ],
          },
          ...more,
        },
      )
      await fixture.api.sendJson('PATCH', `/api/conversations/${id}`, { title })
      return id
    }
    const done = await create('Wrong totals with coupons', cartScript(workspace), { tags: { team: 'shop' } })
    await driver.waitUntilIdle(done)
    const waiting = await create(
      'Clean the build server',
      [bashStep('rm -rf build/ && npm run build', { security_risk: 'HIGH' }), finishStep()],
      { confirmation_policy: { kind: 'AlwaysConfirm', deadline_seconds: 3_000 } },
    )
    await create('Follow the release', [bashStep('sleep 600')], { tags: { team: 'release' } })
    await fixture.api.sendJson('POST', '/api/profiles/fast', {
      llm: { model: 'openai/gpt-5-mini', api_key: 'x' },
    })
    await fixture.api.sendJson('POST', '/api/profiles/careful', {
      llm: { model: 'anthropic/claude-opus-4-5', api_key: 'x' },
    })
    await fixture.api.sendJson('PUT', '/api/settings/secrets', { name: 'DEPLOY_TOKEN', value: 'never-shown' })
    const go = (path: string) => async (page: Page) => {
      // About another page first, so that nothing of the page before is left.
      await page.goto('about:blank')
      await page.goto(`${site.url}${path}`)
      await page.locator('h1').first().waitFor()
    }
    const panel = (tab: string, then?: (page: Page) => Promise<void>): Shot => ({
      name: `panel-${tab.toLowerCase()}`,
      async open(page) {
        await go(`/c/${done}`)(page)
        await page.locator('.entry').first().waitFor()
        await page.getByRole('button', { name: 'Panel', exact: true }).click()
        await page.getByRole('tab', { name: tab }).click()
        await then?.(page)
      },
    })
    await take(browser, [
      { name: 'conversations', open: go('/') },
      {
        name: 'conversations-search',
        async open(page) {
          await go('/')(page)
          await page.keyboard.press('/')
          await page.keyboard.type('coupon')
        },
      },
      {
        name: 'conversation',
        async open(page) {
          await go(`/c/${done}#1`)(page)
          await page.locator('.entry').first().waitFor()
        },
      },
      { name: 'conversation-failed', open: go(`/c/${done}?failed=true`) },
      { name: 'approval', open: go(`/c/${waiting}`) },
      panel('Files'),
      {
        ...panel('Files', async (page) => {
          await page.getByRole('button', { name: 'src/' }).click()
          await page.getByRole('button', { name: 'cart.ts' }).click()
        }),
        name: 'panel-file',
      },
      panel('Changes', async (page) => await page.locator('.file').first().click()),
      panel('Terminal'),
      panel('Tasks'),
      panel('Context'),
      panel('Usage'),
      panel('Details'),
      { name: 'new', open: go('/new') },
      ...['models', 'agent', 'conversation', 'secrets', 'mcp', 'skills'].map((section) => ({
        name: `settings-${section}`,
        open: go(`/settings/${section}`),
      })),
      {
        name: 'shortcuts',
        async open(page) {
          await go('/')(page)
          await page.locator('.row').first().waitFor()
          await page.keyboard.press('?')
        },
      },
    ])
  } finally {
    await browser.close()
    await rm(workspace, { recursive: true, force: true })
  }
}

/** A small repository with a fault. */
async function writeWorkspace(directory: string): Promise<void> {
  await mkdir(join(directory, 'src'))
  await writeFile(
    join(directory, 'README.md'),
    '# Shop\n\nThe cart of the shop.\n\n```sh\nnpm test\n```\n\n| file | what |\n|---|---|\n| `src/cart.ts` | totals |\n',
  )
  await writeFile(join(directory, 'package.json'), '{\n  "name": "shop",\n  "type": "module"\n}\n')
  await writeFile(
    join(directory, 'src/cart.ts'),
    `import type { Coupon, Line } from './types.ts'

/** The total of a cart in cents; a coupon takes percent off. */
export function total(lines: readonly Line[], coupon?: Coupon): number {
  const sum = lines.reduce((all, { price, count }) => all + price * count, 0)
  return coupon ? sum - coupon.percent : sum
}
`,
  )
  await writeFile(
    join(directory, 'src/types.ts'),
    'export interface Coupon {\n  readonly percent: number\n}\n',
  )
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=Shop', '-c', 'user.email=shop@example.com', ...args], {
      cwd: directory,
    })
  git('init', '--quiet')
  git('add', '.')
  git('commit', '--quiet', '-m', 'The cart')
}

function cartScript(directory: string): readonly unknown[] {
  const usage = (prompt_tokens: number) => ({
    usage: { prompt_tokens, completion_tokens: 180, cache_read_tokens: Math.round(prompt_tokens * 0.8) },
  })
  const task = (title: string, status: string) => ({ title, status, notes: '' })
  return [
    {
      text: 'I will read the code of the cart first, then look for a test.',
      ...toolCallsStep(
        toolCall('task_tracker', {
          command: 'plan',
          task_list: [
            task('Find how the total is made', 'in_progress'),
            task('Write a test that fails', 'todo'),
            task('Mend it', 'todo'),
          ],
        }),
        toolCall('terminal', { command: 'grep -n "coupon" -r src --color=always' }),
      ),
      ...usage(3_200),
    },
    { ...bashStep('cat src/cart.ts'), ...usage(4_100) },
    { ...bashStep('node --test test/'), ...usage(5_400) },
    {
      text: 'A coupon **takes percent off**, but the code subtracts the number itself:\n\n```ts\nreturn coupon ? sum - coupon.percent : sum\n```',
      ...toolCallsStep(
        toolCall('file_editor', {
          command: 'str_replace',
          path: join(directory, 'src/cart.ts'),
          old_str: '  return coupon ? sum - coupon.percent : sum',
          new_str:
            '  const off = coupon === undefined ? 0 : (sum * coupon.percent) / 100\n  return Math.round(sum - off)',
        }),
      ),
      ...usage(6_000),
    },
    { ...bashStep('git diff --stat --color=always'), ...usage(7_300) },
    {
      text: 'The total subtracted the **percentage as cents**. Now it takes that share of the sum:\n\n- `src/cart.ts`: `total` rounds to whole cents\n- there was no test; I suggest one with a coupon of 10 %',
      ...usage(8_200),
    },
  ]
}

async function takeSandboxServer(executablePath: string): Promise<void> {
  await using server = await SandboxServer.open()
  const browser = await openBrowser(executablePath)
  try {
    const user = await createUser(server)
    await user.setModel(textModel)
    const { id } = await user.createConversation({
      initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    })
    await user.waitForMessage(id, 'Answer 0.')
    await user.requestOrThrow('PATCH', `/api/v1/app-conversations/${id}`, {
      title: 'Wrong totals with coupons',
    })
    const go = (path: string) => async (page: Page) => {
      await page.goto('about:blank')
      await page.goto(`${server.url}${path}`)
      await page.locator('h1').first().waitFor()
    }
    const signIn = (key: string) => async (page: Page) => {
      await page.goto(`${server.url}/`)
      await page.getByLabel('Key').fill(key)
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.getByRole('navigation', { name: 'Main' }).waitFor()
    }
    const signInShot = { name: 'sign-in', open: (page: Page) => page.goto(`${server.url}/`).then(() => {}) }
    await take(browser, [signInShot])
    const sections = ['sandboxes', 'conversations', 'specs', 'keys']
    await take(
      browser,
      [
        ...sections.map((section) => ({ name: `fleet-${section}`, open: go(`/fleet/${section}`) })),
        { name: 'fleet-conversation', open: go(`/c/${id}`) },
      ],
      signIn(user.key),
    )
    await take(
      browser,
      ['all-sandboxes', 'all-conversations', 'users', 'budgets', 'audit'].map((section) => ({
        name: `fleet-${section}`,
        open: go(`/fleet/${section}`),
      })),
      signIn(server.key),
    )
  } finally {
    await browser.close()
  }
}
