import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import sharp from 'sharp'
import { expect, test } from 'vitest'
import { detectImageType, fitImages, shrinkImage } from './fit-images.ts'

/** Noise, which nothing compresses. */
function noiseImage(width: number, height: number, channels: 3 | 4 = 3) {
  return sharp(randomBytes(width * height * channels), { raw: { width, height, channels } })
}

const dataUrl = (bytes: Buffer, type = 'png') => `data:image/${type};base64,${bytes.toString('base64')}`

async function decodeDataUrl(url: string) {
  const bytes = Buffer.from(url.slice(url.indexOf(',') + 1), 'base64')
  const { format, width, height } = await sharp(bytes).metadata()
  return { format, width, height }
}

test('an image of any format that models take becomes small enough, and what shows through still does', async () => {
  const sources = {
    png: await noiseImage(1_200, 600).png().toBuffer(),
    jpeg: await noiseImage(1_200, 600).jpeg({ quality: 100 }).toBuffer(),
    webp: await noiseImage(1_200, 600).webp({ quality: 100 }).toBuffer(),
    gif: await noiseImage(1_200, 600).gif().toBuffer(),
    clear: await noiseImage(1_200, 600, 4).png().toBuffer(),
  }
  for (const [name, bytes] of Object.entries(sources)) {
    const shrunk = await shrinkImage(bytes, 60_000)
    if (shrunk.kind === 'failure') throw new Error(`${name}: ${shrunk.failure}`)
    expect(shrunk.bytes.length).toBeLessThanOrEqual(60_000)
    const { format, hasAlpha, width = 0, height = 0 } = await sharp(shrunk.bytes).metadata()
    expect([name, format, hasAlpha]).toEqual([name, shrunk.type, shrunk.type === 'webp'])
    expect(width / height).toBeCloseTo(2, 1)
    expect(detectImageType(shrunk.bytes)).toBe(shrunk.type)
  }
  expect((await shrinkImage(sources.clear, 60_000)).kind === 'image').toBe(true)
  const again = [await shrinkImage(sources.png, 60_000), await shrinkImage(sources.png, 60_000)]
  expect(again[0]).toEqual(again[1])
}, 60_000)

test('an image is rotated as its metadata says', async () => {
  const bytes = await noiseImage(600, 300).jpeg({ quality: 100 }).withMetadata({ orientation: 6 }).toBuffer()
  const shrunk = await shrinkImage(bytes, 20_000)
  if (shrunk.kind === 'failure') throw new Error(shrunk.failure)
  const { width = 0, height = 0 } = await sharp(shrunk.bytes).metadata()
  expect(height).toBeGreaterThan(width)
})

test('what is no image, is broken, or has too many pixels is a fault', async () => {
  const png = await noiseImage(400, 400).png().toBuffer()
  const fault = async (bytes: Buffer, maxBytes = 1_000) => {
    const shrunk = await shrinkImage(bytes, maxBytes)
    return shrunk.kind === 'failure' ? shrunk.failure : 'none'
  }
  expect(await fault(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'))).toMatch(/not PNG/)
  expect(await fault(Buffer.alloc(0))).toMatch(/not PNG/)
  expect(await fault(png.subarray(0, 200_000))).toBe('The image is broken')
  expect(await fault(png.subarray(0, 12))).toBe('The image is broken')
  expect(await fault(png, 10)).toMatch(/small enough/)
  const bomb = Buffer.from(png)
  bomb.writeUInt32BE(60_000, 16)
  bomb.writeUInt32BE(60_000, 20)
  expect(await fault(bomb)).toMatch(/broken|million pixels/)
  const wide = await sharp({ create: { width: 20_000, height: 6_000, channels: 3, background: 'red' } })
    .png()
    .toBuffer()
  expect(await fault(wide)).toBe('The image has more than 100 million pixels')
  expect(await fault(png, 100_000)).toBe('none')
}, 60_000)

test('no bytes behind the first ones of an image make it fail otherwise', async () => {
  const start = fc.constantFrom('\x89PNG\r\n\x1a\n', '\xff\xd8\xff', 'GIF89a', 'RIFF\0\0\0\0WEBP')
  await fc.assert(
    fc.asyncProperty(start, fc.uint8Array({ maxLength: 300 }), async (start, bytes) => {
      const { kind } = await shrinkImage(Buffer.concat([Buffer.from(start, 'latin1'), bytes]), 5_000)
      expect(['failure', 'image']).toContain(kind)
    }),
    { numRuns: 100 },
  )
}, 60_000)

test('of several images the largest are made smaller until all fit, and the others stay as they are', async () => {
  const large = dataUrl(await noiseImage(900, 900).png().toBuffer())
  const larger = dataUrl(await noiseImage(1_200, 900).png().toBuffer())
  const small = dataUrl(await noiseImage(60, 60).png().toBuffer())
  const room = 700_000
  const fitted = await fitImages([larger, small, large, small], room)
  expect(fitted.map(({ kind }) => kind)).toEqual(['shrunk', 'same', 'shrunk', 'same'])
  const urls = fitted.map((one) => (one.kind === 'failure' ? '' : one.url))
  expect(urls.reduce((sum, { length }) => sum + length, 0)).toBeLessThanOrEqual(room)
  expect([urls[1], urls[3]]).toEqual([small, small])
  expect(fitted[0]).toMatchObject({ original: Buffer.from(larger.slice(larger.indexOf(',') + 1), 'base64') })
  expect((await decodeDataUrl(urls[2] ?? '')).format).toBe('jpeg')
  expect(await fitImages([small, small], room)).toEqual([
    { kind: 'same', url: small },
    { kind: 'same', url: small },
  ])
  const broken = `data:image/png;base64,${'A'.repeat(800_000)}`
  const failures = await fitImages([broken, `data:text/plain,${'x'.repeat(800_000)}`, small], room)
  expect(failures.map(({ kind }) => kind)).toEqual(['failure', 'failure', 'same'])
}, 60_000)
