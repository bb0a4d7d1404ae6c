import { access, constants, stat } from 'node:fs/promises'
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

/**
 * The absolute path of an installed Chromium or Chrome in the directories of `path` (a PATH variable) or the
 * usual places; undefined when there is none. Cheap: it only checks files.
 */
export async function findBrowser(path = ''): Promise<string | undefined> {
  const searched = [...path.split(delimiter).filter(isAbsolute), ...searchDirectories]
  const candidates = searched.flatMap((directory) => browserNames.map((name) => join(directory, name)))
  for (const candidate of [...new Set([...candidates, ...knownPaths])]) {
    if (await isExecutable(candidate)) return candidate
  }
  return undefined
}

/** Whether a path is an executable file. */
export async function isExecutable(path: string): Promise<boolean> {
  const isAllowed = access(path, constants.X_OK).then(() => stat(path))
  return await isAllowed.then((stats) => stats.isFile()).catch(() => false)
}
