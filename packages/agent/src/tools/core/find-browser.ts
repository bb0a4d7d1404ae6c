import { access, constants, readdir, stat } from 'node:fs/promises'
import { delimiter, isAbsolute, join } from 'node:path'

const browserNames = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome']
const searchDirectories = ['/usr/bin', '/usr/local/bin', '/snap/bin']
const knownPaths = [
  '/opt/google/chrome/chrome',
  '/opt/chromium/chrome',
  '/opt/chrome/chrome',
  '/usr/lib/chromium/chromium',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
]

/** Below the folder `chromium-REVISION` of an installation by Playwright. */
const playwrightNames = [
  'chrome-linux/chrome',
  'chrome-linux64/chrome',
  'chrome-mac/Chromium.app/Contents/MacOS/Chromium',
]

/** Where to look for a browser besides the usual places. */
export interface BrowserSearch {
  /** No browser is used, though there may be one. */
  readonly isOff?: boolean
  /** A PATH variable. */
  readonly path?: string | undefined
  /** Where Playwright installs browsers. */
  readonly playwrightDirectory?: string | undefined
}

/**
 * The absolute path of an installed Chromium or Chrome; undefined when there is none. Cheap: it only checks
 * files.
 */
export async function findBrowser(search: BrowserSearch = {}): Promise<string | undefined> {
  const { isOff = false, path = '', playwrightDirectory } = search
  if (isOff) return undefined
  const searched = [...path.split(delimiter).filter(isAbsolute), ...searchDirectories]
  const candidates = searched.flatMap((directory) => browserNames.map((name) => join(directory, name)))
  const installed = playwrightDirectory === undefined ? [] : await findInPlaywright(playwrightDirectory)
  for (const candidate of [...new Set([...candidates, ...knownPaths, ...installed])]) {
    if (await isExecutable(candidate)) return candidate
  }
  return undefined
}

/** The newest revision first. */
async function findInPlaywright(directory: string): Promise<string[]> {
  const entries = isAbsolute(directory) ? await readdir(directory).catch(() => []) : []
  const revisions = entries.flatMap((name) => /^chromium-(\d+)$/.exec(name)?.[1] ?? [])
  return revisions
    .sort((a, b) => Number(b) - Number(a))
    .flatMap((revision) => playwrightNames.map((name) => join(directory, `chromium-${revision}`, name)))
}

/** Whether a path is an executable file. */
export async function isExecutable(path: string): Promise<boolean> {
  const isAllowed = access(path, constants.X_OK).then(() => stat(path))
  return await isAllowed.then((stats) => stats.isFile()).catch(() => false)
}
