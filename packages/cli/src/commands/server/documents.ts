import { readFile } from 'node:fs/promises'
import {
  documentEncoding,
  documentNames,
  isDocumentName,
  openDocuments,
  parseDocument,
} from '@slipway/agent-server/maintenance'
import { formatBytes } from '@slipway/shared/text'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printResult, table } from '../../output/terminal.ts'

/** Prints the names and sizes of the documents of a server. */
export async function listDocumentsCommand(place: string, isJson: boolean): Promise<void> {
  await using opened = await openDocuments(place)
  const { documents } = opened
  const names = [...(await documents.list(''))].sort()
  const rows = await Promise.all(
    names.map(async (name) => ({ name, bytes: (await documents.get('', name))?.length ?? 0 })),
  )
  const lines = rows.map(({ name, bytes }) => [formatBytes(bytes), sanitizeLine(name)])
  await printResult(isJson, { documents: rows }, table(lines, [12, 60], ['SIZE', 'DOCUMENT']))
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
  { name, file, isJson }: { readonly name: string; readonly file: string; readonly isJson: boolean },
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
  await using opened = await openDocuments(place)
  await opened.documents.update('', name, () => bytes)
  await printResult(isJson, { name, bytes: bytes.length }, `${name} is stored.`)
}

/** Removes a document: the server continues as if it never had one. */
export async function removeDocumentCommand(place: string, name: string, isJson: boolean): Promise<void> {
  await using opened = await openDocuments(place)
  let existed = false
  await opened.documents.update('', name, (old) => {
    existed = old !== undefined
    return undefined
  })
  if (!existed) throw new Error(`There is no document ${name}`)
  await printResult(isJson, { name }, `${name} is removed.`)
}
