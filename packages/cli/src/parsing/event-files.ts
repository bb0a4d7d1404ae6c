import { createReadStream } from 'node:fs'
import { open, readdir, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { Problem } from '@slipway/protocol/client'
import { isRecord, parseJson } from '@slipway/shared/json'
import { errorText } from '@slipway/shared/text'
import { type Entry, openPromise, type ZipFile } from 'yauzl'

/**
 * A conversation as files, one for each event: a folder of OpenHands (`base_state.json`, `events/`), the
 * archive of a trajectory, ours too, or the download of a sandbox server. They become lines in the order of
 * the numbers in the names. Nothing is unpacked, so no name of an archive is a path here.
 */
export interface EventFiles {
  /** Id, title and tags, where a file has them. */
  readonly meta: Readonly<Record<string, unknown>>
  /** The events as lines. */
  readonly chunks: AsyncIterable<Buffer>
  close(): void
}

/** Of one event: more than a server takes in a line is not read. */
const maxFileBytes = 64 * 1024 * 1024
const maxFiles = 1_000_000
/** Names as OpenHands, and its sandbox server, write them. */
const eventName = /^(.*?)(?:events\/event-|event_)(\d{1,9})[-_][^/]*\.json$/
const stateNames = ['meta.json', 'base_state.json']

interface EventFile {
  readonly name: string
  /** Its content; rejects when it is longer than an event may be. */
  read(): Promise<Buffer>
}

/** The events of a folder. A Problem when it is not that of one conversation. */
export async function openEventFolder(directory: string): Promise<EventFiles> {
  // People name the folder of a conversation, or its events.
  const isEvents = basename(resolve(directory)) === 'events'
  const folder = isEvents ? dirname(resolve(directory)) : directory
  const names: string[] = []
  // A link could name any file of this machine.
  for (const part of ['', 'events/'])
    for (const entry of await readdir(join(folder, part), { withFileTypes: true }).catch(() => []))
      if (entry.isFile()) names.push(`${part}${entry.name}`)
  const files = names.map((name) => ({ name, read: () => readFileWithin(join(folder, name)) }))
  return await toEventFiles(files, directory, () => {})
}

/** The events of a zip file. A Problem when it is not that of one conversation. */
export async function openEventArchive(file: string): Promise<EventFiles> {
  const zip = await openPromise(file, { lazyEntries: true, autoClose: false }).catch((error) => {
    throw new Problem('bad_request', `Cannot read ${file}: ${error.message}`)
  })
  try {
    const files: EventFile[] = []
    if (zip.entryCount > maxFiles) throw new Problem('bad_request', `Cannot read ${file}: too many files`)
    for await (const entry of entriesOf(zip, file))
      files.push({ name: entry.fileName, read: () => readEntry(zip, entry) })
    return await toEventFiles(files, file, () => zip.close())
  } catch (error) {
    zip.close()
    throw error
  }
}

/** The first bytes of a zip file. */
export async function isZip(file: string): Promise<boolean> {
  if (!(await stat(file)).isFile()) return false
  const chunks = createReadStream(file, { end: 3 })
  for await (const chunk of chunks) return Buffer.from(chunk).equals(Buffer.from('PK\u0003\u0004'))
  return false
}

async function toEventFiles(
  files: readonly EventFile[],
  place: string,
  close: () => void,
): Promise<EventFiles> {
  const events = new Map<number, EventFile>()
  const folders = new Set<string>()
  for (const file of files) {
    const [, folder = '', number] = eventName.exec(file.name) ?? []
    if (number === undefined) continue
    folders.add(folder)
    if (events.has(Number(number)))
      throw new Problem('bad_request', `Cannot read ${place}: two files have the number ${number}`)
    events.set(Number(number), file)
  }
  const states = files.filter(({ name }) => stateNames.includes(basename(name)))
  // One without events has the other files alone.
  if (events.size === 0)
    for (const { name } of states) folders.add(name.slice(0, name.length - basename(name).length))
  const [folder, another] = folders
  if (folder === undefined)
    throw new Problem(
      'bad_request',
      `Cannot read ${place}: it has no events/event-NUMBER-ID.json, as the folder of a conversation has`,
    )
  if (another !== undefined)
    throw new Problem('bad_request', `Cannot read ${place}: it holds several conversations`)
  const own = stateNames.flatMap((name) => states.find((file) => file.name === `${folder}${name}`) ?? [])
  const ordered = [...events].sort(([one], [other]) => one - other)
  return { meta: await readMeta(own), chunks: readLines(ordered.map(([, file]) => file)), close }
}

async function* readLines(files: readonly EventFile[]): AsyncGenerator<Buffer> {
  for (const file of files) {
    const bytes = await file.read()
    // Outside of strings, where JSON has no LF, a space means the same.
    const line = bytes.at(-1) === 10 ? bytes.subarray(0, -1) : bytes
    for (let at = line.indexOf(10); at !== -1; at = line.indexOf(10, at)) line[at] = 32
    yield Buffer.concat([line, Buffer.from('\n')])
  }
}

/** What the first of the files that has a member says. */
async function readMeta(files: readonly EventFile[]): Promise<Readonly<Record<string, unknown>>> {
  const meta: Record<string, unknown> = {}
  for (const file of files) {
    const value = parseJson((await file.read()).toString())
    if (!isRecord(value)) continue
    const { id, title, tags } = value
    if (typeof id === 'string' && /^[\da-f-]{32,36}$/i.test(id)) meta.conversation_id ??= id
    if (typeof title === 'string' && title !== '') meta.title ??= title
    if (isRecord(tags) && Object.keys(tags).length > 0) meta.tags ??= tags
  }
  return meta
}

async function readFileWithin(path: string): Promise<Buffer> {
  const file = await open(path)
  try {
    if ((await file.stat()).size > maxFileBytes) throw tooLong(path)
    return await file.readFile()
  } finally {
    await file.close()
  }
}

async function* entriesOf(zip: ZipFile, file: string): AsyncGenerator<Entry> {
  try {
    for await (const entry of zip.eachEntry()) yield entry
  } catch (error) {
    throw new Problem('bad_request', `Cannot read ${file}: ${Error.prototype.toString.call(error)}`)
  }
}

/** The length that the archive names is checked against what is there. */
async function readEntry(zip: ZipFile, entry: Entry): Promise<Buffer> {
  if (entry.uncompressedSize > maxFileBytes) throw tooLong(entry.fileName)
  const chunks: Buffer[] = []
  try {
    for await (const chunk of await zip.openReadStreamPromise(entry)) chunks.push(chunk)
  } catch (error) {
    throw new Problem('bad_request', `Cannot read ${entry.fileName}: ${errorText(error)}`)
  }
  return Buffer.concat(chunks)
}

function tooLong(name: string): Problem {
  return new Problem('bad_request', `Cannot read ${name}: longer than an event may be`)
}
