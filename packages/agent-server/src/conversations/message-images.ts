import { createHash } from 'node:crypto'
import { mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fitImages, imageType } from '@slipway/agent'
import { invalid, Problem, type SendMessageRequest } from '@slipway/protocol'
import { codeOf, syncDirectory } from '@slipway/storage'

/** A message whose event stays below the largest frame that clients take; the event has more members than the message. */
const maxMessageBytes = 960 * 1024
/** What images may take even beside a text that leaves them no room: of that event, clients get a part over the socket anyhow. */
const leastImageBytes = 128 * 1024

type Content = SendMessageRequest['content']

/**
 * The message with its images made smaller, where together they would make an event too large for a socket: the largest ones first, each
 * as little as needed. What the sender gave is kept as a file of the conversation, `images/<SHA-256>.<type>`, before this resolves. A
 * message that is small enough is answered as it is. An image that would have to be smaller and cannot be read is a Problem `invalid`
 * with its place below `loc`.
 */
export async function withFittingImages<M extends { readonly content: Content }>(
  message: M,
  options: { readonly directory: string; readonly loc: readonly (string | number)[] },
): Promise<M> {
  const pictures = picturesOf(message.content)
  if (pictures.length === 0) return message
  const urls = pictures.map(({ url }) => url)
  const imageBytes = urls.reduce((sum, { length }) => sum + length, 0)
  const textBytes = Buffer.byteLength(JSON.stringify(message.content)) - imageBytes
  const fitted = await fitImages(urls, Math.max(leastImageBytes, maxMessageBytes - textBytes))
  if (fitted.every(({ kind }) => kind === 'same')) return message
  const results = pictures.map((picture, index) => ({ ...picture, fitted: fitted[index] }))
  for (const { block, at, fitted } of results) {
    if (fitted?.kind === 'fault')
      throw invalid([...options.loc, 'content', block, 'image_urls', at], fitted.fault)
  }
  const content = structuredClone(message.content)
  for (const { block, at, fitted } of results) {
    if (fitted?.kind !== 'shrunk') continue
    await keep(join(options.directory, 'images'), fitted.original)
    const image = content[block]
    if (image?.type === 'image') image.image_urls[at] = fitted.url
  }
  return { ...message, content }
}

/** The data URLs of a content, and where they are. */
function picturesOf(
  content: Content,
): { readonly block: number; readonly at: number; readonly url: string }[] {
  return content.flatMap((block, index) =>
    block.type === 'image'
      ? block.image_urls.flatMap((url, at) => (/^data:/i.test(url) ? [{ block: index, at, url }] : []))
      : [],
  )
}

/** Puts it there durably, once. */
async function keep(directory: string, bytes: Buffer): Promise<void> {
  const name = `${createHash('sha256').update(bytes).digest('hex')}.${imageType(bytes) ?? 'bin'}`
  const path = join(directory, name)
  const isThere = await stat(path).then(
    ({ size }) => size === bytes.length,
    () => false,
  )
  if (isThere) return
  const draft = join(directory, `.${name}.${process.pid}.${Math.random().toString(36).slice(2)}`)
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 })
    await write(draft, bytes)
    await rename(draft, path)
    await syncDirectory(directory)
  } catch (error) {
    await rm(draft, { force: true }).catch(() => {})
    if (codeOf(error) === 'ENOSPC' || codeOf(error) === 'EDQUOT')
      throw new Problem('storage_full', 'The disk is full')
    throw error
  }
}

async function write(path: string, bytes: Buffer): Promise<void> {
  await using file = await open(path, 'wx', 0o600)
  await file.writeFile(bytes)
  await file.sync()
}
