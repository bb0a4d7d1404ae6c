import { spawn } from 'node:child_process'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { makeDirectory, writeFileAtomic } from '@slipway/shared/fs'

/**
 * Opens a link in the user's browser. Other users see the arguments of programs, so the browser gets a file
 * of the data directory that only this user reads, and that leads to the link. False when no browser could be
 * started.
 */
export async function openBrowser(link: string, dataDirectory: string): Promise<boolean> {
  const directory = resolve(dataDirectory)
  await makeDirectory(directory, 0o700)
  const path = join(directory, 'open-console.html')
  await writeFileAtomic(
    path,
    `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">` +
      `<meta http-equiv="refresh" content="0; url=${link.replaceAll('&', '&amp;').replaceAll('"', '&quot;')}">\n`,
  )
  const [program = '', ...args] = opener(pathToFileURL(path).href)
  const child = spawn(program, args, { stdio: 'ignore', detached: true })
  child.unref()
  return await new Promise((done) => {
    child.once('error', () => done(false))
    child.once('spawn', () => done(true))
  })
}

function opener(url: string): string[] {
  if (process.platform === 'darwin') return ['open', url]
  return process.platform === 'win32' ? ['explorer.exe', url] : ['xdg-open', url]
}
