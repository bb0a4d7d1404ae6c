import { readFile } from 'node:fs/promises'
import {
  documentEncoding,
  documentNames,
  isDocumentName,
  openDocuments,
  parseDocument,
  readDocumentFiles,
} from '@slipway/agent-server/maintenance'
import { formatBytes } from '@slipway/shared/text'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote, printResult, table } from '../../output/terminal.ts'

type Env = Parameters<typeof readDocumentFiles>[0]

/**
 * Prints the names and sizes of the documents of a server, and the files that set them for these settings.
 */
export async function listDocumentsCommand(place: string, env: Env, isJson: boolean): Promise<void> {
  await using opened = await openDocuments(place)
  const { documents } = opened
  const files = await readDocumentFiles(env)
  const names = [...new Set([...(await documents.list('')), ...files.keys()])].sort()
  const rows = await Promise.all(
    names.map(async (name) => ({
      name,
      bytes: (await documents.get('', name))?.length ?? 0,
      ...(files.has(name) ? { read_only_file: files.get(name) } : {}),
    })),
  )
  const lines = rows.map(({ name, bytes, read_only_file: file }) => [
    formatBytes(bytes),
    sanitizeLine(name),
    ...(file === undefined ? [] : [sanitizeLine(file)]),
  ])
  const headings = ['SIZE', 'DOCUMENT', ...(files.size > 0 ? ['SET BY, READ-ONLY'] : [])]
  await printResult(isJson, { documents: rows }, table(lines, [12, 60, 200], headings))
}

/** Prints a document as its file would have it: sealed ones as base64. */
export async function getDocumentCommand(place: string, name: string): Promise<void> {
  await using opened = await openDocuments(place)
  const bytes = await opened.documents.get('', name)
  if (bytes === undefined) throw new Error(`There is no document ${name}`)
  const text = bytes.toString(documentEncoding(name))
  await print(text.endsWith('\n') ? text : `${text}\n`)
}

/** Replaces a document by a file of the form that `get` prints. */
export async function putDocumentCommand(
  place: string,
  {
    name,
    file,
    env,
    isJson,
  }: { readonly name: string; readonly file: string; readonly env: Env; readonly isJson: boolean },
): Promise<void> {
  if (!isDocumentName(name))
    throw new Error(
      `${name} is no document: their names are ${documentNames.join(', ')} and profiles/NAME.json`,
    )
  const bytes = parseDocument(name, await readFile(file, 'utf8'))
  if (bytes === undefined)
    throw new Error(
      `${file} is not a document as "slipway documents get ${name}" prints it: nothing was stored`,
    )
  const setBy = (await readDocumentFiles(env)).get(name)
  await using opened = await openDocuments(place)
  await opened.documents.update('', name, () => bytes)
  noteFile(name, setBy)
  await printResult(isJson, { name, bytes: bytes.length }, `${name} is stored.`)
}

/** Removes a document: the server continues as if it never had one. */
export async function removeDocumentCommand(
  place: string,
  { name, env, isJson }: { readonly name: string; readonly env: Env; readonly isJson: boolean },
): Promise<void> {
  const setBy = (await readDocumentFiles(env)).get(name)
  await using opened = await openDocuments(place)
  let existed = false
  await opened.documents.update('', name, (old) => {
    existed = old !== undefined
    return undefined
  })
  if (!existed) throw new Error(`There is no document ${name}`)
  noteFile(name, setBy)
  await printResult(isJson, { name }, `${name} is removed.`)
}

/** What is stored does not count while a file sets the document. */
function noteFile(name: string, file: string | undefined): void {
  if (file !== undefined)
    printNote(`Servers read ${name} from ${sanitizeLine(file)}, which wins: change that file`)
}
