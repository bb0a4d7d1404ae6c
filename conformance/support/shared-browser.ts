import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Browser, chromium, type LaunchOptions } from 'playwright-core'

const startMs = 60_000
const pollMs = 100

/**
 * A Chromium that reaches nothing but loopback addresses. In a run of `npm test` all files share one process,
 * started by the first; contexts are the caller's own, and closing the browser closes them alone.
 */
export async function openBrowser(executablePath: string): Promise<Browser> {
  const folder = process.env.SLIPWAY_TEST_RUN
  const address = folder === undefined ? undefined : await findServer(folder, executablePath)
  if (address !== undefined) return await chromium.connect(address)
  return await chromium.launch(launchOptions(executablePath))
}

export function launchOptions(executablePath: string): LaunchOptions {
  const rules = 'MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost , EXCLUDE *.localhost'
  return { executablePath, args: ['--no-sandbox', `--host-resolver-rules=${rules}`] }
}

/** Undefined when it does not start. */
async function findServer(folder: string, executablePath: string): Promise<string | undefined> {
  const path = join(folder, 'chromium-address')
  const isFirst = await mkdir(join(folder, 'chromium')).then(
    () => true,
    () => false,
  )
  if (isFirst) await startServer(path, executablePath)
  for (const end = Date.now() + startMs; Date.now() < end; await sleep(pollMs)) {
    const address = await readFile(path, 'utf8').catch(() => undefined)
    if (address !== undefined) return address === '' ? undefined : address
  }
  return undefined
}

/** Writes the address to a file, or nothing when the server ends without one. */
async function startServer(path: string, executablePath: string): Promise<void> {
  const program = join(import.meta.dirname, 'chromium-server.ts')
  const child = spawn(process.execPath, [program, executablePath], {
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const ended = once(child, 'exit').then(() => '')
  const address = await Promise.race([
    once(child.stdout, 'data').then(([line]) => String(line).trim()),
    ended,
  ])
  child.stdout.destroy()
  child.unref()
  await writeFile(`${path}.new`, address)
  await rename(`${path}.new`, path)
}
