import type { Browser, Page } from 'playwright-core'
import {
  type ConsoleSite,
  openBrowser,
  openPageClock,
  type PageChange,
  type PageClock,
  recordFrames,
  serveConsole,
  takeFrames,
  timeChange,
} from '../support/console-page.ts'
import { type BenchContext, conversationId, importLog, withStorage } from '../support/fixtures.ts'
import { firstInstant, generateLog, needles } from '../support/generate-log.ts'
import { atMost, information, median, percentile, type ResultRow } from '../support/result-table.ts'
import { SeededRandom } from '../support/seeded-random.ts'

const goals = {
  firstPaintMs: 300,
  jumpMs: 100,
  rows: 400,
  heapBytes: 150e6,
  longFramesShare: 0.05,
  worstLiveFrameMs: 200,
}
/** A frame that took longer than this came later than 60 a second allow. */
const longFrameMs = 25
const liveEventsPerSecond = 1_000
const path = `c/${conversationId}`
const eventsPath = `api/conversations/${conversationId}/events`

/**
 * The console in Chromium on a conversation of 1,000,000 events: first paint after the HTML, jumps beside the
 * time that the server took for their answers, scrolling, rows and heap, and 1,000 events a second followed.
 */
export async function consolePage(bench: BenchContext): Promise<ResultRow[]> {
  const size = bench.isQuick
    ? { events: 20_000, loads: 2, jumps: 12, scrollMs: 1_000, liveSeconds: 1 }
    : { events: 1_000_000, loads: 15, jumps: 500, scrollMs: 10_000, liveSeconds: 10 }
  const data = await bench.directory()
  await withStorage(
    data,
    async (storage) => void (await importLog(storage, generateLog({ count: size.events, words: 60 }))),
  )
  await using site = await serveConsole(data)
  await coverOverview(site)
  const browser = await openBrowser(bench)
  try {
    return [
      ...(await measureLoads(browser, site, size.loads)),
      ...(await measureJumps(browser, site, size)),
      ...(await measureScrolling(browser, site, size)),
      ...(await measureLive(browser, site, size)),
    ]
  } finally {
    await browser.close()
  }
}

/** Lets the server count the log for its overview, as the first visitor of it does. */
async function coverOverview(site: ConsoleSite): Promise<void> {
  for (;;) {
    const response = await fetch(`${site.url}/${eventsPath}/overview?buckets=240`)
    const { covered, head } = (await response.json()) as { covered: number; head: number }
    if (covered >= head) return
  }
}

async function newPage(browser: Browser): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  return page
}

const lastRow = '.entry[data-position]'

/** Each load is that of a new browser profile: nothing is cached. */
async function measureLoads(browser: Browser, site: ConsoleSite, loads: number): Promise<ResultRow[]> {
  const paints: number[] = []
  const rows: number[] = []
  const cpu: number[] = []
  for (let load = 0; load < loads; load++) {
    const page = await newPage(browser)
    const clock = await openPageClock(page)
    await page.goto(`${site.url}/${path}`)
    await page.locator(lastRow).first().waitFor()
    cpu.push(await clock())
    const { paint, shown } = (await page.evaluate(`(() => {
      const html = performance.getEntriesByType('navigation')[0].responseEnd;
      const paint = performance.getEntriesByName('first-contentful-paint')[0].startTime;
      return { paint: paint - html, shown: performance.now() - html };
    })()`)) as { paint: number; shown: number }
    paints.push(paint)
    rows.push(shown)
    await page.context().close()
  }
  return [
    atMost('first paint after the HTML, median', 'ms', median(paints), goals.firstPaintMs),
    information('first paint after the HTML, p95', 'ms', percentile(paints, 95)),
    information('end of the log is shown after the HTML, median', 'ms', median(rows)),
    information('processor time of the page until then, median', 'ms', median(cpu)),
  ]
}

async function measureJumps(
  browser: Browser,
  site: ConsoleSite,
  size: { readonly events: number; readonly jumps: number },
): Promise<ResultRow[]> {
  const page = await newPage(browser)
  const clock = await openPageClock(page)
  const random = new SeededRandom(5)
  const position = () => 1 + Math.floor(random.next() * (size.events - 1))
  await page.goto(`${site.url}/${path}?view=all#${position()}`)
  await page.locator('.entry.target').waitFor()
  const kinds: Record<'position' | 'time' | 'failed' | 'text', PageChange[]> = {
    position: [],
    time: [],
    failed: [],
    text: [],
  }
  for (let jump = 0; jump < size.jumps; jump++) {
    if (jump % 10 === 7) kinds.time.push(await jumpToTime(page, clock, site, size.events, random))
    else if (jump % 10 === 8) kinds.failed.push(...(await toggleFailed(page, clock)))
    else if (jump % 10 === 9) kinds.text.push(await searchText(page, clock, jump))
    else {
      const target = position()
      const cause = `() => { location.hash = '#${target}' }`
      kinds.position.push(await timeChange(page, clock, cause, isTarget(target)))
    }
  }
  const all = Object.values(kinds).flat()
  const session = await page.context().newCDPSession(page)
  await session.send('HeapProfiler.collectGarbage')
  const heap = (await page.evaluate('performance.memory.usedJSHeapSize')) as number
  await page.context().close()
  const names = {
    position: 'jump to a position',
    time: 'jump to a time',
    failed: 'failed steps only, on and off',
    text: 'messages with a text',
  }
  return [
    ...Object.entries(kinds).flatMap(([kind, changes]) => {
      const name = names[kind as keyof typeof names]
      const own = changes.map(({ totalMs, serverMs }) => totalMs - serverMs)
      return [
        information(`${name}: whole, p50`, 'ms', median(changes.map(({ totalMs }) => totalMs))),
        information(
          `${name}: the server's part, p95`,
          'ms',
          percentile(
            changes.map(({ serverMs }) => serverMs),
            95,
          ),
        ),
        information(
          `${name}: processor time of the page, p95`,
          'ms',
          percentile(
            changes.map(({ cpuMs }) => cpuMs),
            95,
          ),
        ),
        atMost(`${name}: the page's part, p95`, 'ms', percentile(own, 95), goals.jumpMs),
      ]
    }),
    atMost('rows in the page, most', 'rows', Math.max(...all.map(({ rows }) => rows)), goals.rows),
    atMost(`heap after ${all.length} jumps`, 'bytes', heap, goals.heapBytes),
  ]
}

/** Whether the row with a position is the one that was jumped to. */
const isTarget = (position: number) => `() => {
  const target = document.querySelector('.entry.target');
  return target?.dataset.positions.split(' ').includes('${position}') ?? false;
}`

/** Rows of before get a mark; afterwards none has it. */
const markRows = `for (const row of document.querySelectorAll('.entry')) row.dataset.old = '1';`
const areRowsNew = `() => document.querySelector('.entry') !== null && document.querySelector('.entry[data-old]') === null`

async function jumpToTime(
  page: Page,
  clock: PageClock,
  site: ConsoleSite,
  events: number,
  random: SeededRandom,
): Promise<PageChange> {
  // Whole seconds, as the field has them.
  const seconds = Math.floor(firstInstant / 1e6) + Math.floor(random.next() * events * 0.9)
  const instant = new Date(seconds * 1_000)
  const query = `timestamp__lt=${encodeURIComponent(instant.toISOString())}`
  const response = await fetch(`${site.url}/${eventsPath}/count?${query}`)
  const target = Number(await response.json()) + 1
  await page.getByRole('button', { name: 'Go to, and copy' }).click()
  await page.getByRole('menuitem', { name: 'Position or time' }).click()
  await page.locator('#time').fill(localTime(instant))
  const cause = `() => document.querySelector('#time').form.requestSubmit()`
  return await timeChange(page, clock, cause, isTarget(target))
}

/** As a field of local time has it; the benchmark runs in the time zone of the browser. */
function localTime(instant: Date): string {
  return new Date(instant.getTime() - instant.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

async function toggleFailed(page: Page, clock: PageClock): Promise<PageChange[]> {
  const cause = `() => {
    ${markRows}
    [...document.querySelectorAll('.filter-bar button')].find((one) => one.textContent === 'Failed only').click();
  }`
  const on = await timeChange(page, clock, cause, areRowsNew)
  const off = await timeChange(page, clock, cause, areRowsNew)
  return [on, off]
}

async function searchText(page: Page, clock: PageClock, jump: number): Promise<PageChange> {
  const texts = [needles.rare, needles.medium, needles.Greek, needles.common]
  const text = texts[Math.floor(jump / 10) % texts.length] ?? needles.rare
  // The filter is set as by a link: typing waits a quarter of a second for the next letter.
  const visit = (search: string) => `() => {
    ${markRows}
    history.pushState(null, '', location.pathname + '${search}' + location.hash);
    dispatchEvent(new PopStateEvent('popstate'));
  }`
  const found = await timeChange(
    page,
    clock,
    visit(`?view=all&in=messages&q=${encodeURIComponent(text)}`),
    areRowsNew,
  )
  await timeChange(page, clock, visit('?view=all'), areRowsNew)
  return found
}

async function measureScrolling(
  browser: Browser,
  site: ConsoleSite,
  size: { readonly events: number; readonly scrollMs: number },
): Promise<ResultRow[]> {
  const page = await newPage(browser)
  await page.goto(`${site.url}/${path}#${Math.floor(size.events / 2)}`)
  await page.locator('.entry').first().waitFor()
  await page.mouse.move(500, 400)
  const clock = await openPageClock(page)
  const cpuBefore = await clock()
  let rows = 0
  await recordFrames(page)
  const startedAt = performance.now()
  for (let turn = 0; performance.now() - startedAt < size.scrollMs; turn++) {
    // Down for a while, then up: both edges are read on the way.
    await page.mouse.wheel(0, Math.floor(turn / 120) % 2 === 0 ? 120 : -120)
    await new Promise((done) => setTimeout(done, 16))
    if (turn % 50 === 0) rows = Math.max(rows, await page.locator('.entry').count())
  }
  const frames = await takeFrames(page)
  const cpuMs = (await clock()) - cpuBefore
  await page.context().close()
  const long = frames.filter((ms) => ms > longFrameMs).length
  return [
    information(
      'scrolling: frames a second',
      '1/s',
      (frames.length / frames.reduce((a, b) => a + b, 0)) * 1_000,
    ),
    information('scrolling: processor time of the page for a frame', 'ms', cpuMs / frames.length),
    atMost('scrolling: long frames', 'share', long / frames.length, goals.longFramesShare),
    atMost('scrolling: rows in the page, most', 'rows', rows, goals.rows),
  ]
}

async function measureLive(
  browser: Browser,
  site: ConsoleSite,
  { liveSeconds }: { readonly liveSeconds: number },
): Promise<ResultRow[]> {
  const page = await newPage(browser)
  await page.goto(`${site.url}/${path}?view=all`)
  await page.locator('.entry').first().waitFor()
  const clock = await openPageClock(page)
  const cpuBefore = await clock()
  await recordFrames(page)
  const sent = liveEventsPerSecond * liveSeconds
  const startedAt = performance.now()
  for (let count = 0; count < sent; ) {
    const due = Math.min(
      sent,
      Math.floor(((performance.now() - startedAt) / 1_000) * liveEventsPerSecond) + 1,
    )
    await Promise.all(Array.from({ length: Math.min(64, due - count) }, () => sendMessage(site, count++)))
    if (count >= due) await new Promise((done) => setTimeout(done, 5))
  }
  const sentMs = performance.now() - startedAt
  await page
    .getByText(`live message ${sent - 1} `, { exact: false })
    .last()
    .waitFor()
  const frames = await takeFrames(page)
  const cpuMs = (await clock()) - cpuBefore
  const rows = await page.locator('.entry').count()
  await page.context().close()
  const worst = Math.max(...frames)
  return [
    information('live: events a second', '1/s', (sent / sentMs) * 1_000),
    information('live: frames a second', '1/s', (frames.length / frames.reduce((a, b) => a + b, 0)) * 1_000),
    information('live: processor time of the page for an event', 'ms', cpuMs / sent),
    information('live: p95 of frames', 'ms', percentile(frames, 95)),
    atMost('live: longest frame', 'ms', worst, goals.worstLiveFrameMs),
    atMost('live: rows in the page', 'rows', rows, goals.rows),
  ]
}

async function sendMessage(site: ConsoleSite, n: number): Promise<void> {
  const content = [{ type: 'text', text: `live message ${n} of the benchmark` }]
  const response = await fetch(`${site.url}/${eventsPath}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ role: 'user', content, run: false }),
  })
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  await response.arrayBuffer()
}
