import type { Browser, Page } from 'playwright-core'
import { BareConsole, takeRows } from '../floors/bare-console.ts'
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
import { type BenchContext, conversationId, importLog, startFloor, withStorage } from '../support/fixtures.ts'
import { firstInstant, generateLog, needles } from '../support/generate-log.ts'
import {
  atLeast,
  atMost,
  Floor,
  information,
  median,
  percentile,
  type ResultRow,
  withinBudget,
} from '../support/result-table.ts'
import { SeededRandom } from '../support/seeded-random.ts'

/** Ratios to bare pages in the same browser, and the most rows of a page. */
const goals = { firstPaint: 5, jump: 2, heap: 2, frames: 0.95, longestLiveFrame: 11, rows: 400 }
const liveEventsPerSecond = 1_000
const path = `c/${conversationId}`
const eventsPath = `api/conversations/${conversationId}/events`

/**
 * The console in Chromium on a conversation of 1,000,000 events: first paint after the HTML, jumps without the
 * time that the server took for their answers, scrolling, rows and heap, and 1,000 events a second followed.
 * Each beside a bare page in the same browser: of the same bytes, that sets the same rows, that scrolls through
 * them, that appends each event as a plain row.
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
    await using bare = await openBareConsole(browser, site, size.events)
    return [
      ...(await measureLoads(browser, { site, bare }, size.loads)),
      ...(await measureJumps(browser, { site, bare }, size)),
      ...(await measureScrolling(browser, { site, bare }, size)),
      ...(await measureLive(browser, { site, bare }, size)),
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

interface Sites {
  readonly site: ConsoleSite
  readonly bare: BareConsole
}

/** Bare pages with the rows of two places of the log. */
async function openBareConsole(browser: Browser, site: ConsoleSite, events: number): Promise<BareConsole> {
  const page = await newPage(browser)
  const rowsAt = async (position: number) => {
    await page.goto(`${site.url}/${path}?view=all#${position}`)
    await page.locator('.entry.target').waitFor()
    return await takeRows(page)
  }
  const first = await rowsAt(Math.floor(events / 3))
  await page.goto('about:blank')
  const second = await rowsAt(Math.floor(events / 2))
  const snapshot = await page.content()
  await page.context().close()
  return await BareConsole.open(site, path, { snapshot, places: [first, second] })
}

const lastRow = '.entry[data-position]'

/** Each load is that of a new browser profile: nothing is cached. */
async function measureLoads(browser: Browser, { site, bare }: Sites, loads: number): Promise<ResultRow[]> {
  const paints: number[] = []
  const barePaints: number[] = []
  const rows: number[] = []
  const cpu: number[] = []
  for (let load = 0; load < loads; load++) {
    const page = await newPage(browser)
    const clock = await openPageClock(page)
    await page.goto(`${site.url}/${path}`)
    await page.locator(lastRow).first().waitFor()
    cpu.push(await clock())
    rows.push(await page.evaluate(`performance.now() - ${htmlEnd}`))
    paints.push(await readFirstPaint(page))
    await page.context().close()
    const barePage = await newPage(browser)
    await barePage.goto(bare.address('bytes'))
    barePaints.push(await readFirstPaint(barePage))
    await barePage.context().close()
  }
  const floor = (percent: number) => Floor.of('a bare page of the same bytes', barePaints, percent)
  return [
    atMost('first paint after the HTML, median', 'ms', median(paints), floor(50), goals.firstPaint),
    information('first paint after the HTML, p95', 'ms', percentile(paints, 95), floor(95)),
    information('end of the log is shown after the HTML, median', 'ms', median(rows)),
    information('processor time of the page until then, median', 'ms', median(cpu)),
  ]
}

const htmlEnd = `performance.getEntriesByType('navigation')[0].responseEnd`

/** Milliseconds from the end of the HTML to the first paint. */
async function readFirstPaint(page: Page): Promise<number> {
  const paint = `performance.getEntriesByName('first-contentful-paint')[0]`
  await page.waitForFunction(`${paint} !== undefined`)
  return await page.evaluate(`${paint}.startTime - ${htmlEnd}`)
}

/** Milliseconds that a bare page takes to set the rows of another place, until they are painted. */
async function measureBareJumps(browser: Browser, bare: BareConsole, jumps: number): Promise<number[]> {
  const page = await newPage(browser)
  const clock = await openPageClock(page)
  await page.goto(bare.address('rows'))
  const times: number[] = []
  for (let jump = 0; jump < jumps; jump++) {
    const { totalMs } = await timeChange(page, clock, '() => show()', `() => ${isRowShown}`)
    times.push(totalMs)
  }
  await page.context().close()
  return times
}

const isRowShown = `document.querySelector('.entry') !== null`

/** In bytes, after a collection. */
async function readHeap(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page)
  await session.send('HeapProfiler.collectGarbage')
  return await page.evaluate('performance.memory.usedJSHeapSize')
}

async function measureJumps(
  browser: Browser,
  { site, bare }: Sites,
  size: { readonly events: number; readonly jumps: number },
): Promise<ResultRow[]> {
  const page = await newPage(browser)
  const clock = await openPageClock(page)
  const random = new SeededRandom(5)
  const position = () => 1 + Math.floor(random.next() * (size.events - 1))
  await page.goto(`${site.url}/${path}?view=all#${position()}`)
  await page.locator('.entry.target').waitFor()
  const heapBefore = Floor.of('its heap before them', [await readHeap(page)])
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
  const heap = await readHeap(page)
  await page.context().close()
  const bareJumps = await measureBareJumps(browser, bare, Math.ceil(size.jumps / 5))
  const floor = Floor.of('a bare page that sets the same rows, p95', bareJumps, 95)
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
        atMost(`${name}: the page's part, p95`, 'ms', percentile(own, 95), floor, goals.jump),
      ]
    }),
    withinBudget('rows in the page, most', 'rows', Math.max(...all.map(({ rows }) => rows)), goals.rows),
    atMost(`heap after ${all.length} jumps`, 'bytes', heap, heapBefore, goals.heap),
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
  { site, bare }: Sites,
  size: { readonly events: number; readonly scrollMs: number },
): Promise<ResultRow[]> {
  const page = await newPage(browser)
  await page.goto(`${site.url}/${path}#${Math.floor(size.events / 2)}`)
  const ours = await scroll(page, size.scrollMs)
  await page.context().close()
  const barePage = await newPage(browser)
  await barePage.goto(bare.address('rows'))
  await barePage.evaluate('lengthen()')
  const floor = await scroll(barePage, size.scrollMs)
  await barePage.context().close()
  const floorName = 'a bare page of the same rows'
  const pairs = [{ ours: ours.framesPerSecond, floor: floor.framesPerSecond }]
  const cpu = Floor.of(floorName, [floor.cpuMs])
  return [
    atLeast('scrolling: frames a second', '1/s', { floorName, pairs }, goals.frames),
    information('scrolling: processor time of the page for a frame', 'ms', ours.cpuMs, cpu),
    withinBudget('scrolling: rows in the page, most', 'rows', ours.rows, goals.rows),
  ]
}

/** Turns the wheel down for a while, then up: both edges are read on the way. */
async function scroll(page: Page, durationMs: number) {
  await page.locator('.entry').first().waitFor()
  await page.mouse.move(500, 400)
  const clock = await openPageClock(page)
  const cpuBefore = await clock()
  let rows = 0
  await recordFrames(page)
  const startedAt = performance.now()
  for (let turn = 0; performance.now() - startedAt < durationMs; turn++) {
    await page.mouse.wheel(0, Math.floor(turn / 120) % 2 === 0 ? 120 : -120)
    await new Promise((done) => setTimeout(done, 16))
    if (turn % 50 === 0) rows = Math.max(rows, await page.locator('.entry').count())
  }
  const frames = await takeFrames(page)
  const cpuMs = ((await clock()) - cpuBefore) / frames.length
  return { framesPerSecond: framesPerSecond(frames), cpuMs, rows }
}

function framesPerSecond(frames: readonly number[]): number {
  return (frames.length / frames.reduce((a, b) => a + b, 0)) * 1_000
}

async function measureLive(
  browser: Browser,
  { site, bare }: Sites,
  { liveSeconds }: { readonly liveSeconds: number },
): Promise<ResultRow[]> {
  const page = await newPage(browser)
  await page.goto(`${site.url}/${path}?view=all`)
  await page.locator('.entry').first().waitFor()
  const ours = await followMessages(page, liveSeconds, `${site.url}/${eventsPath}`)
  const rows = await page.locator('.entry').count()
  await page.context().close()
  const floor = await measureBareLive(browser, bare, liveSeconds)
  const beside = (figure: number) => Floor.of('a bare page that appends plain rows', [figure])
  const cpu = beside(floor.cpuMs)
  return [
    information('live: events a second', '1/s', ours.rate, beside(floor.rate)),
    information('live: frames a second', '1/s', framesPerSecond(ours.frames)),
    information('live: processor time of the page for an event', 'ms', ours.cpuMs, cpu),
    information('live: p95 of frames', 'ms', percentile(ours.frames, 95)),
    atMost(
      ...(['live: longest frame', 'ms', Math.max(...ours.frames)] as const),
      beside(Math.max(...floor.frames)),
      goals.longestLiveFrame,
    ),
    withinBudget('live: rows in the page', 'rows', rows, goals.rows),
  ]
}

/** A bare `ws` server and a bare page follow the same messages. */
async function measureBareLive(browser: Browser, bare: BareConsole, liveSeconds: number) {
  await using server = await startFloor('broadcast')
  const page = await newPage(browser)
  await page.goto(bare.address('rows'))
  await page.evaluate(`follow('ws://127.0.0.1:${server.port}')`)
  const result = await followMessages(page, liveSeconds, `http://127.0.0.1:${server.port}/`)
  await page.context().close()
  return result
}

/** Posts messages, evenly, until the page shows the last one. */
async function followMessages(page: Page, seconds: number, address: string) {
  const clock = await openPageClock(page)
  const cpuBefore = await clock()
  await recordFrames(page)
  const sent = liveEventsPerSecond * seconds
  const startedAt = performance.now()
  for (let count = 0; count < sent; ) {
    const due = Math.min(
      sent,
      Math.floor(((performance.now() - startedAt) / 1_000) * liveEventsPerSecond) + 1,
    )
    const batch = Math.min(64, due - count)
    await Promise.all(Array.from({ length: batch }, () => sendMessage(address, count++)))
    if (count >= due) await new Promise((done) => setTimeout(done, 5))
  }
  const rate = (sent / (performance.now() - startedAt)) * 1_000
  const last = page.getByText(`live message ${sent - 1} `, { exact: false }).last()
  await last.waitFor()
  const frames = await takeFrames(page)
  return { frames, rate, cpuMs: ((await clock()) - cpuBefore) / sent }
}

async function sendMessage(address: string, n: number): Promise<void> {
  const content = [{ type: 'text', text: `live message ${n} of the benchmark` }]
  const response = await fetch(address, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ role: 'user', content, run: false }),
  })
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  await response.arrayBuffer()
}
