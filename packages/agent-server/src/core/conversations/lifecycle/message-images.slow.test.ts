import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sendMessageRequest } from '@slipway/protocol'
import { openStorage } from '@slipway/storage'
import sharp from 'sharp'
import { expect, test } from 'vitest'
import { openRegistry, temporaryDirectory } from '../../../testing/fixtures.ts'
import { maxLegacyFrameBytes, plainFrames } from '../../streams/event-frames.ts'
import { shrinkImages } from './message-images.ts'
import { sendMessage } from './send-message.ts'

async function noiseImage(width: number, height: number): Promise<Buffer> {
  return await sharp(randomBytes(width * height * 3), { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer()
}

const dataUrl = (bytes: Buffer) => `data:image/png;base64,${bytes.toString('base64')}`
const imageBlock = (...image_urls: string[]) => ({ type: 'image', image_urls })
const createMessage = (...content: unknown[]) => sendMessageRequest.parse({ content })

test('a message with images that are too large for an event is stored with smaller ones, the originals beside the log', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  await using registry = await openRegistry(storage, directory.path)
  const id = randomUUID()
  await storage.conversations.create({ id })
  const [first, second] = [await noiseImage(900, 800), await noiseImage(1_000, 900)]
  const small = dataUrl(await noiseImage(50, 50))
  const link = 'https://images.example/a.png'
  const message = createMessage(
    { type: 'text', text: 'Look:' },
    imageBlock(dataUrl(first), small, link),
    imageBlock(dataUrl(second)),
  )
  const given = structuredClone(message)
  await sendMessage({ storage, registry }, id, { message, key: 'k' })
  await sendMessage({ storage, registry }, id, { message, key: 'k' })
  expect(message).toEqual(given)
  const [event, ...others] = await storage.log.read(id, 0, 10)
  expect(others).toEqual([])
  const bytes = event?.bytes ?? Buffer.alloc(0)
  expect(bytes.length).toBeGreaterThan(300_000)
  expect(bytes.length).toBeLessThan(1_000_000)
  const { content } = JSON.parse(bytes.toString()).llm_message
  expect(content[0].text).toBe('Look:')
  expect(content[1].image_urls.slice(1)).toEqual([small, link])
  for (const url of [content[1].image_urls[0], content[2].image_urls[0]]) {
    expect(url).toMatch(/^data:image\/jpeg;base64,/)
    expect((await sharp(Buffer.from(url.slice(url.indexOf(',')), 'base64')).metadata()).format).toBe('jpeg')
  }
  const imageDirectory = join(registry.conversationDirectory(id), 'images')
  const nameOf = (bytes: Buffer) => `${createHash('sha256').update(bytes).digest('hex')}.png`
  expect(readdirSync(imageDirectory).sort()).toEqual([first, second].map(nameOf).sort())
  for (const bytes of [first, second])
    expect(readFileSync(join(imageDirectory, nameOf(bytes)))).toEqual(bytes)
}, 60_000)

test('a message that is small enough is the same, whatever its images are', async () => {
  using directory = temporaryDirectory()
  const options = { directory: directory.path, loc: [] }
  const messages = [
    createMessage({ type: 'text', text: 'x'.repeat(2_000_000) }),
    createMessage(imageBlock('data:image/png;base64,broken', 'data:', 'file:///x', '')),
    createMessage(imageBlock(`https://images.example/${'x'.repeat(2_000_000)}`)),
    createMessage(imageBlock(dataUrl(Buffer.alloc(700_000)))),
  ]
  for (const message of messages) expect(await shrinkImages(message, options)).toBe(message)
  expect(readdirSync(directory.path)).toEqual([])
})

test('an unreadable image that must shrink is refused with its place, and nothing is stored', async () => {
  using directory = temporaryDirectory()
  const options = { directory: join(directory.path, 'c'), loc: ['body'] }
  const good = dataUrl(await noiseImage(900, 800))
  const bad = [
    [dataUrl(Buffer.alloc(1_500_000)), 'The image is not PNG, JPEG, GIF or WebP'],
    [good.slice(0, 1_500_000), 'The image is broken'],
    [`data:image/png,${'x'.repeat(1_500_000)}`, 'The image is no data URL in base64'],
    [`data:image/svg+xml;base64,${'PHN2'.repeat(400_000)}`, 'The image is not PNG, JPEG, GIF or WebP'],
  ] as const
  for (const [url, msg] of bad) {
    const message = createMessage(
      { type: 'text', text: 'x' },
      imageBlock('https://images.example/', good, url),
    )
    await expect(shrinkImages(message, options)).rejects.toMatchObject({
      code: 'invalid',
      issues: [{ loc: ['body', 'content', 1, 'image_urls', 2], msg }],
    })
  }
  expect(existsSync(options.directory)).toBe(false)
}, 60_000)

test('an image beside a text that fills an event is still sent, small', async () => {
  using directory = temporaryDirectory()
  const image = dataUrl(await noiseImage(600, 600))
  const message = createMessage({ type: 'text', text: 'ü'.repeat(700_000) }, imageBlock(image))
  const { content } = await shrinkImages(message, { directory: directory.path, loc: [] })
  expect(content[0]).toEqual(message.content[0])
  const [url = ''] = content[1]?.type === 'image' ? content[1].image_urls : []
  expect(url.length).toBeGreaterThan(10_000)
  expect(url.length).toBeLessThanOrEqual(128 * 1024)
}, 60_000)

test('a text of several MiB is stored whole; only frames of the plain socket are cut', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  await using registry = await openRegistry(storage, directory.path)
  const id = randomUUID()
  await storage.conversations.create({ id })
  const text = 'größe ✓ '.repeat(400_000)
  await sendMessage({ storage, registry }, id, { message: createMessage({ type: 'text', text }) })
  const events = await storage.log.read(id, 0, 10)
  expect(JSON.parse(events[0]?.bytes.toString() ?? '').llm_message.content[0].text).toBe(text)
  const [frame] = plainFrames(events)
  expect(frame?.size).toBeLessThan(maxLegacyFrameBytes)
  expect(frame?.size).toBeGreaterThan(maxLegacyFrameBytes / 2)
})
