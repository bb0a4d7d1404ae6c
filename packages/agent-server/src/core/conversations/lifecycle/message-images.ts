import { hash } from 'node:crypto'
import { join } from 'node:path'
import { detectImageType, fitImages } from '@slipway/agent'
import { invalidInput, rethrowStorageFailure, type SendMessageRequest } from '@slipway/protocol'
import { KeyedMutex } from '@slipway/shared/async'
import { writeFileAtomic } from '@slipway/shared/fs'
import * as toolFiles from '@slipway/shared/tool-files'

/** Its event has more members and must stay below the largest frame of clients. */
const maxMessageBytes = 960 * 1024
/** Bytes for images even when the text leaves no room: sockets send a shortened form of such an event. */
const minImageBytes = 128 * 1024

type MessageContent = SendMessageRequest['content']

/**
 * The message with smaller images, the largest first, when its event would be too large for a socket.
 * Originals are first stored as `images/<SHA-256>.<type>`. An unreadable large image is a Problem `invalid`.
 */
export async function shrinkImages<M extends { readonly content: MessageContent }>(
  message: M,
  options: { readonly directory: string; readonly loc: readonly (string | number)[] },
): Promise<M> {
  const images = findDataUrls(message.content)
  if (images.length === 0) return message
  const urls = images.map(({ url }) => url)
  const imageBytes = urls.reduce((sum, { length }) => sum + length, 0)
  const textBytes = Buffer.byteLength(JSON.stringify(message.content)) - imageBytes
  const fitted = await fitImages(urls, Math.max(minImageBytes, maxMessageBytes - textBytes))
  if (fitted.every(({ kind }) => kind === 'same')) return message
  const results = images.map((original, index) => ({ ...original, fitted: fitted[index] }))
  for (const { block, at, fitted } of results) {
    if (fitted?.kind === 'failure')
      throw invalidInput([...options.loc, 'content', block, 'image_urls', at], fitted.failure)
  }
  const content = structuredClone(message.content)
  for (const { block, at, fitted } of results) {
    if (fitted?.kind !== 'shrunk') continue
    await storeOriginal(join(options.directory, 'images'), fitted.original)
    const imageBlock = content[block]
    if (imageBlock?.type === 'image') imageBlock.image_urls[at] = fitted.url
  }
  return { ...message, content }
}

/** The data URLs of a content with their places. */
function findDataUrls(
  content: MessageContent,
): { readonly block: number; readonly at: number; readonly url: string }[] {
  return content.flatMap((block, index) =>
    block.type === 'image'
      ? block.image_urls.flatMap((url, at) => (/^data:/i.test(url) ? [{ block: index, at, url }] : []))
      : [],
  )
}

/** One write of a file at a time: two messages may have the same image. */
const writes = new KeyedMutex()

/** Stores the bytes durably unless they are stored already. */
async function storeOriginal(directory: string, bytes: Buffer): Promise<void> {
  const name = `${hash('sha256', bytes)}.${detectImageType(bytes) ?? 'bin'}`
  const path = join(directory, name)
  await writes.runExclusive(path, async () => {
    const stats = await toolFiles.stat(path).catch(() => undefined)
    if (stats?.size === bytes.length) return
    try {
      await toolFiles.makeDirectory(directory, 0o700)
      await writeFileAtomic(path, bytes, toolFiles)
    } catch (error) {
      rethrowStorageFailure(error)
    }
  })
}
