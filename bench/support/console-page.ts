import { type Browser, chromium, type Page } from 'playwright-core'
import { findChromium } from '../../conformance/support/browser-user.ts'
import { prepareConsole } from '../../packages/cli/src/console/console-build.ts'
import type { BenchContext } from './fixtures.ts'
import { type Program, startProgram } from './processes.ts'

export interface ConsoleSite extends AsyncDisposable {
  readonly url: string
}

/** Starts `slipway serve` on a data directory, with the console of this tree, which is built before. */
export async function serveConsole(data: string): Promise<ConsoleSite> {
  await prepareConsole()
  const main = new URL('../../packages/cli/src/main.js', import.meta.url).pathname
  const program: Program = await startProgram([main, 'serve', '--port', '0', '--data', data], {
    SLIPWAY_NO_KEY: '1',
  })
  const url = /http:\/\/\S+/.exec(program.firstLine)?.[0]
  if (url === undefined) throw new Error(`No address: ${program.firstLine}`)
  return { url, [Symbol.asyncDispose]: () => program[Symbol.asyncDispose]() }
}

export async function whyNoChromium(): Promise<string | undefined> {
  return (await findChromium()) === undefined ? 'Chromium is not installed' : undefined
}

/** A Chromium with exact clocks and memory figures that reaches loopback addresses alone. */
export async function openBrowser(bench: BenchContext): Promise<Browser> {
  const executablePath = await findChromium()
  if (executablePath === undefined) throw new Error('Chromium is not installed')
  return await chromium.launch({
    executablePath,
    env: { ...process.env, TMPDIR: await bench.directory() } as Record<string, string>,
    args: [
      '--no-sandbox',
      '--enable-precise-memory-info',
      '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1',
    ],
  })
}

/** What a change of the page took, in milliseconds. */
export interface PageChange {
  /** From the cause to the frame that shows the result. */
  readonly totalMs: number
  /** The part of it in which at least one request to the server was open. */
  readonly serverMs: number
  /** Processor time of the page's main thread. */
  readonly cpuMs: number
  /** Rows of the timeline afterwards. */
  readonly rows: number
}

/** Processor time of the page's main thread so far, in milliseconds: what a busy machine does not change. */
export type PageClock = () => Promise<number>

export async function openPageClock(page: Page): Promise<PageClock> {
  const session = await page.context().newCDPSession(page)
  await session.send('Performance.enable', { timeDomain: 'threadTicks' })
  return async () => {
    const { metrics } = await session.send('Performance.getMetrics')
    return (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN) * 1_000
  }
}

/**
 * Does `cause` in the page and waits for a frame in which `isDone` holds. Both are the source of functions;
 * what `cause` returns is the argument of `isDone`.
 */
export async function timeChange(
  page: Page,
  clock: PageClock,
  cause: string,
  isDone: string,
): Promise<PageChange> {
  const before = await clock()
  const change = await page.evaluate<Omit<PageChange, 'cpuMs'>>(
    `(async () => {
      const cause = ${cause}, isDone = ${isDone};
      performance.clearResourceTimings();
      const startedAt = performance.now();
      const argument = cause();
      const frame = () => new Promise((done) => requestAnimationFrame(done));
      while (!isDone(argument)) {
        if (performance.now() - startedAt > 60_000) throw new Error('No such result: ' + location.href);
        await frame();
      }
      // The frame after the one that was asked for is painted.
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      const endedAt = performance.now();
      let serverMs = 0, covered = startedAt;
      const requests = performance.getEntriesByType('resource')
        .filter(({ name }) => name.includes('/events/'))
        .sort((a, b) => a.startTime - b.startTime);
      for (const { startTime, responseEnd } of requests) {
        const from = Math.max(covered, startTime), to = Math.min(endedAt, responseEnd);
        if (to > from) { serverMs += to - from; covered = to }
      }
      return { totalMs: endedAt - startedAt, serverMs, rows: document.querySelectorAll('.entry').length };
    })()`,
  )
  return { ...change, cpuMs: (await clock()) - before }
}

/** Starts to note how far apart frames are, in milliseconds; `takeFrames` returns them and ends it. */
export async function recordFrames(page: Page): Promise<void> {
  await page.evaluate(`(() => {
    const frames = [];
    let last = performance.now(), isOn = true;
    const note = (now) => { frames.push(now - last); last = now; if (isOn) requestAnimationFrame(note) };
    requestAnimationFrame((now) => { last = now; requestAnimationFrame(note) });
    globalThis.benchFrames = () => { isOn = false; return frames };
  })()`)
}

export async function takeFrames(page: Page): Promise<number[]> {
  return await page.evaluate('globalThis.benchFrames()')
}
