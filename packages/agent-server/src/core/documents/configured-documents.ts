import { readdir, readFile, realpath, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { Problem } from '@slipway/protocol'
import { errorCode, isWithin } from '@slipway/shared/fs'
import { parseJson } from '@slipway/shared/json'
import { isReadable, toolUser } from '@slipway/shared/tool-files'
import type { Cipher, DocumentStore } from '@slipway/storage'

/**
 * Documents that an operator sets by files, as configuration management writes them.
 *
 * Problem: a document of the storage is changed by whoever has a key, and by any server on the database. An
 * operator who keeps settings in a repository wants them as they are there, on every start.
 *
 * Idea: a folder of readable JSON files is laid over the storage. A file has the name of its document, with
 * `.json` in place of `.sealed`, and its secrets in clear. It is read at the start and wins as a whole: there
 * is no second merge. Stores above see a document like any other, sealed in memory where they open it.
 *
 * Invariants: a document that a file sets is never written, and a change of it is refused with the path; the
 * storage keeps what it has, which counts again without the file.
 *
 * Decision page: docs/decisions/0048-documents.md
 */

/** Documents of a server. */
export interface ServerDocuments extends DocumentStore {
  /** The path of the file that sets a document, which cannot be changed then. */
  fileOf?(name: string): string | undefined
}

/** The documents that files may set, by their file. */
const namesByFile: ReadonlyMap<string, string> = new Map([
  ['agent-profiles.json', 'agent-profiles.sealed'],
  ['meta-profiles.json', 'meta-profiles.json'],
  ['provider-connections.json', 'provider-connections.sealed'],
  ['secrets.json', 'secrets.sealed'],
  ['settings.json', 'settings.sealed'],
  ['workspaces.json', 'workspaces.json'],
])
const profileFolder = 'profiles'

interface ConfiguredDocument {
  readonly path: string
  /** Always the same Buffer, as of an unchanged document. */
  readonly bytes: Buffer
}

/**
 * Lays the files of a folder over documents. Rejects with an Error for a file that sets no document, and for
 * files that others can read or that are in the data directory.
 */
export async function withConfiguredDocuments(
  documents: DocumentStore,
  {
    directory,
    dataDirectory,
    cipher,
  }: { readonly directory: string; readonly dataDirectory: string; readonly cipher: Cipher },
): Promise<ServerDocuments> {
  const configured = new Map<string, ConfiguredDocument>()
  if (isWithin(await realpath(dataDirectory), await realpath(directory)))
    throw new Error(
      `SLIPWAY_DOCUMENTS_DIRECTORY: ${directory} is in the data directory, whose backups without secrets would have its files in clear. Move it elsewhere.`,
    )
  for (const { name, path } of await listDocumentFiles(directory)) {
    if (name === undefined)
      throw new Error(
        `${path} sets no document: files of SLIPWAY_DOCUMENTS_DIRECTORY are ${[...namesByFile.keys()].join(', ')} and ${profileFolder}/NAME.json`,
      )
    await assertPrivate(path, resolve(directory))
    const text = await readFile(path, 'utf8')
    if (parseJson(text) === undefined) throw new Error(`${path} is not JSON: fix it, or move it away`)
    const bytes = name.endsWith('.sealed') ? cipher.seal(text) : Buffer.from(text)
    configured.set(name, { path, bytes })
  }
  const find = (owner: string, name: string) => (owner === '' ? configured.get(name) : undefined)
  return {
    fileOf: (name) => configured.get(name)?.path,
    get: async (owner, name) => find(owner, name)?.bytes ?? (await documents.get(owner, name)),
    async list(owner) {
      const names = await documents.list(owner)
      return owner === '' ? [...new Set([...names, ...configured.keys()])] : names
    },
    async update(owner, name, make) {
      const file = find(owner, name)
      if (file === undefined) return await documents.update(owner, name, make)
      if (make(file.bytes) !== file.bytes) throw readOnly(file.path)
    },
  }
}

/** Before the first step of a change that ends with one of this document. */
export function assertWritable(documents: ServerDocuments, name: string): void {
  const path = documents.fileOf?.(name)
  if (path !== undefined) throw readOnly(path)
}

function readOnly(path: string): Problem {
  const text = `This is set by ${path} and read-only here: change the file, and restart the server`
  return new Problem('conflict', text)
}

/** A folder that is closed to others protects its files, whatever their modes are. */
async function assertPrivate(path: string, directory: string): Promise<void> {
  // Windows has no such bits.
  const isOpen = async (place: string) =>
    process.platform !== 'win32' && ((await stat(place)).mode & 0o007) !== 0
  if ((await isOpen(path)) && (await isOpen(directory)))
    throw new Error(
      `SLIPWAY_DOCUMENTS_DIRECTORY: every user of this machine may read or write ${path}, which can have secrets in clear. Run "chmod 700 ${directory}", or "chmod 600" for its files (Kubernetes: defaultMode 0440).`,
    )
  if (toolUser() !== undefined && (await isReadable(path)))
    throw new Error(
      `SLIPWAY_DOCUMENTS_DIRECTORY: the user of SLIPWAY_TOOL_USER can read ${path}, which can have secrets in clear. Run "chmod 700 ${directory}".`,
    )
}

/**
 * The JSON files of a folder and of its folder of profiles, with the document that each sets, if any; those
 * that begin with a dot are left out.
 */
export async function listDocumentFiles(
  directory: string,
): Promise<readonly { readonly name: string | undefined; readonly path: string }[]> {
  const root = resolve(directory)
  const list = async (folder: string) =>
    (await readdir(folder)).filter((file) => !file.startsWith('.') && file.endsWith('.json')).sort()
  const profiles = await list(join(root, profileFolder)).catch((error) => {
    if (errorCode(error) === 'ENOENT') return []
    throw error
  })
  return [
    ...(await list(root)).map((file) => ({ name: namesByFile.get(file), path: join(root, file) })),
    ...profiles.map((file) => ({
      name: `${profileFolder}/${file}`,
      path: join(root, profileFolder, file),
    })),
  ]
}
