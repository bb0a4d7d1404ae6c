import { homedir, hostname } from 'node:os'
import { resolve } from 'node:path'
import { isWithin } from '@slipway/shared/fs'
import type { ShellCall } from './script.ts'
import { searchedPaths } from './searched-paths.ts'
import { unknownText } from './words.ts'

/** What belongs to the agent server itself. */
export interface ServerPlace {
  /** Where it listens; undefined when it does not listen on a port. */
  readonly port: number | undefined
  /** Its data directories, absolute. */
  readonly directories: readonly string[]
  /** Where commands run. */
  readonly workspace: string
  /** Programs do not see the directories. */
  readonly isHidden?: boolean
  /** Whether a path belongs to the server and not to the conversation. */
  isReserved(path: string): boolean
}

/** Names of this machine in any notation that is readable without a calculation. */
const localHost = new RegExp(
  String.raw`localhost|127\.|0\.0\.0\.0|::1?\]|0x7f|2130706433|(?<![\w.])0:|ip6-|\/dev\/tcp\/|hostname|(?<![\w.-])${RegExp.escape(hostname())}(?![\w-])`,
  'i',
)
const maxHosts = 100
const maxFolders = 8
const pathEnd = /[\s'"`;|&()<>,:=]/

/** Whether a text names the server's port on this machine, in any program. */
export function namesServer(text: string, { port }: ServerPlace): boolean {
  if (port === undefined) return false
  const plain = text.replace(/['"\\]/g, '')
  if (!new RegExp(`(?<![\\w.])${port}(?!\\w)`).test(plain)) return false
  // The host is a variable, a result, or left out.
  if (localHost.test(plain) || new RegExp(`(?:^|[\\s=/@$)}\`]|\\$\\w+):${port}(?!\\w)`).test(plain))
    return true
  const hosts = plain.matchAll(new RegExp(`([\\w.-]{1,100}):${port}(?!\\w)`, 'g'))
  return [...hosts.take(maxHosts)].some(([, host]) => isLoopback(host ?? ''))
}

/** Whether a text or one of its calls names a file of the server. */
export function namesServerData(text: string, calls: readonly ShellCall[], place: ServerPlace): boolean {
  return place.directories.some((directory) => hasPath(text, directory, place)) || hasWord(calls, place)
}

function isLoopback(host: string): boolean {
  const url = `http://${host}`
  return URL.canParse(url) && /^(?:127\..*|0\.0\.0\.0)$/.test(new URL(url).hostname)
}

/** The directory, also as it is written with the home directory's short names. */
function hasPath(text: string, directory: string, place: ServerPlace): boolean {
  const home = homedir()
  const names = directory.startsWith(`${home}/`)
    ? ['~', '$HOME', `\${HOME}`].map((name) => name + directory.slice(home.length))
    : []
  return [directory, ...names].some((name) => {
    for (let at = text.indexOf(name); at !== -1; at = text.indexOf(name, at + name.length)) {
      const rest = text.slice(at + name.length, at + name.length + 4096)
      const [tail = ''] = rest.split(pathEnd, 1)
      if (/^[\w.-]/.test(tail)) continue
      if (place.isReserved(resolve(directory + tail))) return true
    }
    return false
  })
}

function hasWord(calls: readonly ShellCall[], place: ServerPlace): boolean {
  const isInside = place.directories.some((directory) => directory.startsWith(`${place.workspace}/`))
  const folders = workingDirectories(calls, place)
  const isCandidate = (word: string) => isInside || folders.length > 1 || /^[/~]|^\.\.|\/\.\./.test(word)
  return calls.some(({ args, reads, writes, assignments }) =>
    [...args, ...reads, ...writes, ...assignments.values()]
      .filter((word) => word.length <= 4096 && !word.includes(unknownText))
      .flatMap((word) => [word, ...word.split(/[=:,@]/).slice(1)])
      .some(
        (word) => word !== '' && isCandidate(word) && folders.some((folder) => mayMatch(word, folder, place)),
      ),
  )
}

/** Where calls may run: the workspace, and what each `cd` leads to. */
function workingDirectories(calls: readonly ShellCall[], { workspace }: ServerPlace): readonly string[] {
  const folders = [workspace]
  for (const { name, args } of calls) {
    const target = /^(?:cd|pushd)$/.test(name) ? (args.find((arg) => !arg.startsWith('-')) ?? '~') : undefined
    if (target === undefined || target.includes(unknownText) || folders.length > maxFolders) continue
    folders.push(resolve(folders.at(-1) ?? workspace, withHome(target)))
  }
  return folders
}

function withHome(word: string): string {
  return word.replace(/^~(?=\/|$)/, homedir())
}

/** Whether a call reads everything below a folder with data of the server, which programs see. */
export function searchesServerData(calls: readonly ShellCall[], place: ServerPlace): boolean {
  if (place.isHidden === true) return false
  const folders = workingDirectories(calls, place)
  return calls.some((call) =>
    searchedPaths(call)
      .filter((path) => path.length <= 4096 && !path.includes(unknownText))
      .flatMap((path) => folders.map((folder) => resolve(folder, withHome(path))))
      .some((path) => place.directories.some((directory) => isWithin(path, directory))),
  )
}

/** Whether a word, which may be a file pattern, names something in a reserved directory. */
function mayMatch(word: string, folder: string, place: ServerPlace): boolean {
  const path = resolve(folder, withHome(word))
  if (!/[*?[]/.test(word)) return place.isReserved(path)
  const parts = path.split('/')
  return place.directories.some((directory) => {
    const names = directory.split('/')
    if (names.length > parts.length || !names.every((name, at) => matchesPart(name, parts[at] ?? '')))
      return false
    return place.isReserved([...names, ...parts.slice(names.length)].join('/'))
  })
}

function matchesPart(name: string, pattern: string): boolean {
  const wild = pattern.search(/[*?[]/)
  if (wild === -1) return name === pattern
  // A pattern at the start of a name does not match a dot.
  return name.startsWith(pattern.slice(0, wild)) && !(wild === 0 && name.startsWith('.'))
}
