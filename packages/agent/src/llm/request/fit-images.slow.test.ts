import { randomBytes } from 'node:crypto'
import type { ImageContent, Message } from '@slipway/protocol'
import sharp from 'sharp'
import { expect, test } from 'vitest'
import { fitRequestImages } from './fit-images.ts'

const dataUrl = (bytes: Buffer, type = 'png') => `data:image/${type};base64,${bytes.toString('base64')}`
const plain = (width: number, height: number) =>
  sharp({ create: { width, height, channels: 3, background: 'red' } })
const png = await plain(40, 30).png().toBuffer()
const limits = { images: 'any', maxImages: 100 } as const

function picture(...image_urls: string[]): ImageContent {
  return { type: 'image', image_urls, cache_prompt: false }
}

function user(...content: Message['content']): Message {
  return { role: 'user', content, thinking_blocks: [] }
}

async function fit(urls: readonly string[], more: Partial<typeof limits> | { maxImages: number } = {}) {
  const [message] = await fitRequestImages([user(...urls.map((url) => picture(url)))], { ...limits, ...more })
  return (message?.content ?? []).map((part) =>
    part.type === 'text' ? part.text : (part.image_urls[0] ?? ''),
  )
}

async function facts(url = '') {
  const { format, width, height } = await sharp(
    Buffer.from(url.slice(url.indexOf(',') + 1), 'base64'),
  ).metadata()
  return { format, width, height }
}

test('an image that all providers take is the same object, and one of the network stays', async () => {
  const messages = [user(picture(dataUrl(png), 'https://h/a.png'))]
  const fitted = await fitRequestImages(messages, limits)
  expect(fitted[0]?.content[0]).toBe(messages[0]?.content[0])
})

test('edges, types and bytes become what all providers take', async () => {
  const noise = await sharp(randomBytes(1_800 * 1_800 * 3), {
    raw: { width: 1_800, height: 1_800, channels: 3 },
  })
    .png()
    .toBuffer()
  const sources = [
    await plain(2_560, 1_440).png().toBuffer(),
    await plain(1_280, 9_000).jpeg().toBuffer(),
    noise,
  ]
  const [wide, tall, large, named] = await fit([
    ...sources.map((bytes) => dataUrl(bytes)),
    dataUrl(png, 'jpeg'),
  ])
  expect(await facts(wide)).toMatchObject({ width: 2_000, height: 1_125 })
  expect(await facts(tall)).toMatchObject({ height: 2_000 })
  expect(large?.length).toBeLessThanOrEqual(5 * 1024 * 1024)
  expect(named).toBe(dataUrl(png))
})

test('what no provider takes becomes a text that says why', async () => {
  const cut = await sharp(randomBytes(300 * 300 * 3), { raw: { width: 300, height: 300, channels: 3 } })
    .png()
    .toBuffer()
  expect(
    await fit([
      dataUrl(cut.subarray(0, 100_000)),
      'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg"/>',
      'data:image/png;base64,AAAA',
      'data:image/png',
    ]),
  ).toEqual([
    '[An image was left out. The image is broken.]',
    '[An image was left out. The image is not PNG, JPEG, GIF or WebP.]',
    '[An image was left out. The image is not PNG, JPEG, GIF or WebP.]',
    '[An image was left out. The image cannot be read.]',
  ])
})

test('of too many the oldest are left out, some at a time', async () => {
  const urls = Array.from({ length: 12 }, () => dataUrl(png))
  const omitted = async (count: number) =>
    (await fit(urls.slice(0, count), { maxImages: 8 })).map((text) => text.startsWith('[An older image'))
  expect(await omitted(8)).not.toContain(true)
  expect((await omitted(9)).lastIndexOf(true)).toBe(1)
  expect((await omitted(10)).lastIndexOf(true)).toBe(1)
  expect((await omitted(11)).lastIndexOf(true)).toBe(3)
})

test('of too large ones the oldest are left out', async () => {
  const noise = await sharp(randomBytes(1_100 * 1_100 * 3), {
    raw: { width: 1_100, height: 1_100, channels: 3 },
  })
    .png()
    .toBuffer()
  const fitted = await fit([dataUrl(png), ...Array.from({ length: 4 }, () => dataUrl(noise))], {
    maxImages: 4,
  })
  expect(fitted.map((text) => text.startsWith('[An older image'))).toEqual([true, true, false, false, false])
})
