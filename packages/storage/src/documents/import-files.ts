import { readdir, rename } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { LogFunction } from '@slipway/protocol'
import { errorCode, syncDirectory } from '@slipway/shared/fs'
import type { DocumentStore } from './document-store.ts'
import { FileDocumentStore } from './file-document-store.ts'

/** Documents of an agent server that earlier versions kept as files of these names. */
const fileNames: readonly string[] = [
  'agent-profiles.sealed',
  'credential-bindings.json',
  'meta-profiles.json',
  'provider-connections.sealed',
  'repository-consents.sealed',
  'secrets.sealed',
  'settings.sealed',
  'subscription.sealed',
  'workspaces.json',
]
/** Its files ended in `.json`, each a document. */
const profileFolder = 'profiles'

/** The document as its file has it: a line of base64 where it is sealed, else UTF-8 text. */
export function documentEncoding(name: string): 'base64' | 'utf8' {
  return name.endsWith('.sealed') ? 'base64' : 'utf8'
}

interface DocumentFile {
  readonly name: string
  readonly path: string
  readonly bytes: Buffer
}

/** The documents that a data directory has as files of earlier versions. Throws a Problem for what is no file. */
export async function* readDocumentFiles(directory: string): AsyncGenerator<DocumentFile> {
  for (const name of [...fileNames, ...(await listProfiles(directory))]) {
    const path = join(directory, name)
    const file = new FileDocumentStore({ directory: dirname(path), encoding: documentEncoding(name) })
    const bytes = await file.get('', basename(path))
    if (bytes !== undefined) yield { name, path, bytes }
  }
}

/**
 * Takes the files of earlier versions into the storage, and renames each to `NAME.imported`. A document of
 * the storage wins over a file, which stays: several servers on one database may have files. A call that was
 * interrupted continues with the next one. Throws a Problem for what is no file.
 */
export async function importDocumentFiles({
  directory,
  documents,
  log,
}: {
  readonly directory: string
  readonly documents: DocumentStore
  readonly log: LogFunction
}): Promise<void> {
  for await (const { name, path, bytes } of readDocumentFiles(directory)) {
    let stored: Buffer = bytes
    await documents.update('', name, (old) => {
      stored = old ?? bytes
      return stored
    })
    if (stored.equals(bytes)) {
      await rename(path, `${path}.imported`)
      await syncDirectory(dirname(path))
      log('info', 'a file of an earlier version is in the storage now', { file: path })
    } else
      log('warn', 'a file is not read, because the storage has the document already', {
        file: path,
        next: `Move the file away, or replace the document: slipway documents put ${name} ${path}`,
      })
  }
}

async function listProfiles(directory: string): Promise<readonly string[]> {
  try {
    const names = await readdir(join(directory, profileFolder))
    return names.filter((name) => name.endsWith('.json')).map((name) => `${profileFolder}/${name}`)
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return []
    throw error
  }
}
