import { readdir, rename as renameFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { LogFunction } from '@slipway/protocol'
import { errorCode, exists, syncDirectory } from '@slipway/shared/fs'
import { errorText } from '@slipway/shared/text'
import type { Cipher } from '../crypto/cipher.ts'
import { documentEncoding, documentNames, profileFolder } from './document-names.ts'
import type { DocumentStore } from './document-store.ts'
import { FileDocumentStore } from './file-document-store.ts'
import { isSameDocument, reseal } from './reseal.ts'

interface DocumentFile {
  readonly name: string
  readonly path: string
  readonly bytes: Buffer
}

/**
 * The documents that a data directory has as files of earlier versions. Throws a Problem for what is no file;
 * a profile that cannot be read is logged and left out, as a list of profiles leaves it out.
 */
export async function* readDocumentFiles(
  directory: string,
  log: LogFunction = () => {},
): AsyncGenerator<DocumentFile> {
  const read = async (name: string) => {
    const path = join(directory, name)
    const file = new FileDocumentStore({ directory: dirname(path), encoding: documentEncoding(name) })
    const bytes = await file.get('', basename(path))
    return bytes === undefined ? [] : [{ name, path, bytes }]
  }
  for (const name of documentNames) yield* await read(name)
  for (const name of await listProfiles(directory))
    yield* await read(name).catch((error) => {
      log('warn', 'a profile of an earlier version is left out', { error: errorText(error) })
      return []
    })
}

interface ImportOptions {
  readonly directory: string
  readonly documents: DocumentStore
  /** Opens what the files have, and seals it again. */
  readonly cipher: Cipher
  /** Servers with other data directories open the documents too. */
  readonly isShared?: boolean
  readonly log: LogFunction
}

/**
 * Takes the files of earlier versions into the storage, sealed with the first key, and renames each to
 * `NAME.imported`. A document of the storage wins over a file, which becomes `NAME.not-imported`: it would
 * come back with the document removed. A file that no key opens stays for a start with its key where servers
 * share the documents, and else becomes a document that is refused by name. A call that was interrupted
 * continues with the next one. Throws a Problem for what is no file.
 */
export async function importDocumentFiles(options: ImportOptions): Promise<void> {
  for await (const file of readDocumentFiles(options.directory, options.log)) await importFile(file, options)
}

async function importFile(
  { name, path, bytes }: DocumentFile,
  { documents, cipher, isShared = false, log }: ImportOptions,
): Promise<void> {
  const opened = reseal(name, bytes, cipher)?.bytes ?? (isShared ? undefined : bytes)
  let before: Buffer | undefined
  await documents.update('', name, (old) => {
    before = old
    return old ?? opened
  })
  if (before === undefined && opened === undefined)
    log('warn', 'a file of an earlier version is sealed with another key, and is not imported', {
      file: path,
      next: 'Restart with its key: SLIPWAY_SECRET_KEY, or secret.key in the data directory.',
    })
  else if (before === undefined || isSameDocument(name, [before, bytes], cipher)) {
    await rename(path, 'imported', log)
    log('info', 'a file of an earlier version is in the storage now', { file: path })
  } else {
    const file = await rename(path, 'not-imported', log)
    log('warn', 'a file of an earlier version is not read: the storage has the document already', {
      file,
      next: `Remove the file, or replace the document: slipway documents put ${name} ${file}`,
    })
  }
}

/**
 * Takes the first name that is free, and returns the file's path. A file that keeps its name is met again.
 */
async function rename(path: string, ending: string, log: LogFunction): Promise<string> {
  let renamed = `${path}.${ending}`
  for (let number = 2; await exists(renamed); number++) renamed = `${path}.${ending}-${number}`
  try {
    await renameFile(path, renamed)
    await syncDirectory(dirname(path))
    return renamed
  } catch (error) {
    log('warn', 'a file of an earlier version cannot be renamed', { file: path, error: errorText(error) })
    return path
  }
}

async function listProfiles(directory: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(join(directory, profileFolder), { withFileTypes: true })
    return entries
      .filter((entry) => entry.name.endsWith('.json') && (entry.isFile() || entry.isSymbolicLink()))
      .map(({ name }) => `${profileFolder}/${name}`)
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return []
    throw error
  }
}
