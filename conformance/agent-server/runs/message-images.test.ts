import { randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import sharp from 'sharp'
import { expect, test } from 'vitest'
import WebSocket from 'ws'
import { openAgentFixture } from '../../support/agent-fixture.ts'

/** Images that are too large for an event, on every way by which a message arrives. */
const { server, api, directory } = await openAgentFixture()
const raw = { width: 1_100, height: 800, channels: 3 } as const
const png = await sharp(randomBytes(1_100 * 800 * 3), { raw })
  .png()
  .toBuffer()
const largeImageUrl = `data:image/png;base64,${png.toString('base64')}`
const brokenImageUrl = largeImageUrl.slice(0, 1_600_000)

const imageMessage = (url: string) => ({ role: 'user', content: [{ type: 'image', image_urls: [url] }] })

async function create(message?: object) {
  const id = randomUUID()
  const answer = await api.sendJson('POST', '/api/conversations', {
    conversation_id: id,
    agent: { llm: { model: 'scripted/images', script: [{ text: 'Seen.' }] }, tools: [] },
    workspace: { working_dir: join(directory, id) },
    autotitle: false,
    ...(message === undefined ? {} : { initial_message: { ...message, run: false } }),
  })
  return { id, answer }
}

/** The images of the user's messages; each message has one. */
async function storedImages(id: string): Promise<string[]> {
  const { items } = await api.search(id, { kind: 'MessageEvent', source: 'user', limit: '100' })
  return items.map((event) => {
    expect(Buffer.byteLength(JSON.stringify(event))).toBeLessThan(1024 * 1024)
    const { content } = event.llm_message as { content: { image_urls?: string[] }[] }
    return content.flatMap(({ image_urls = [] }) => image_urls).join()
  })
}

async function expectSmaller(url: string | undefined) {
  expect(url).toMatch(/^data:image\/jpeg;base64,/)
  const { width, height } = await sharp(Buffer.from((url ?? '').split(',')[1] ?? '', 'base64')).metadata()
  expect((width ?? 0) / (height ?? 1)).toBeCloseTo(1_100 / 800, 1)
}

test('a large image is shrunk to fit an event: in a new conversation, over REST and over the socket', {
  timeout: 60_000,
}, async () => {
  const { id, answer } = await create(imageMessage(largeImageUrl))
  expect(answer.status).toBe(201)
  const sent = await api.sendJson('POST', `/api/conversations/${id}/events`, imageMessage(largeImageUrl))
  expect(sent.status).toBe(200)
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}/sockets/events/${id}?resend_mode=all`, {
    headers: server.headers,
    maxPayload: 1024 * 1024,
  })
  const frames: { kind: string; detail?: string }[] = []
  const closed = new Promise((resolve) => socket.once('close', resolve))
  const failed = new Promise<never>((_, reject) => socket.once('error', reject))
  const enough = new Promise<void>((resolve) => {
    socket.on('message', (data) => {
      frames.push(JSON.parse(String(data)))
      const messages = frames.filter(
        ({ kind, source }: { kind: string; source?: string }) => kind === 'MessageEvent' && source === 'user',
      )
      if (messages.length === 3 && frames.some(({ kind }) => kind === 'ConversationErrorEvent')) resolve()
    })
  })
  await Promise.race([new Promise((resolve) => socket.once('open', resolve)), failed])
  socket.send(JSON.stringify(imageMessage(largeImageUrl)))
  socket.send(JSON.stringify(imageMessage(brokenImageUrl)))
  await Promise.race([enough, failed])
  expect(frames.find(({ kind }) => kind === 'ConversationErrorEvent')?.detail).toBe('The image is broken')
  socket.close()
  await closed
  const images = await storedImages(id)
  expect(images).toHaveLength(3)
  for (const url of images) await expectSmaller(url)
})

test('an unreadable image is refused with its location, and no conversation is created for it', async () => {
  const { id, answer } = await create(imageMessage(brokenImageUrl))
  const fault = { msg: 'The image is broken', type: 'value_error' }
  const place = ['content', 0, 'image_urls', 0]
  expect([answer.status, answer.body]).toEqual([
    422,
    { detail: [{ loc: ['body', 'initial_message', ...place], ...fault }] },
  ])
  expect((await api.requestJson(`/api/conversations/${id}`)).status).toBe(404)
  const made = await create()
  const sent = await api.sendJson(
    'POST',
    `/api/conversations/${made.id}/events`,
    imageMessage(brokenImageUrl),
  )
  expect([sent.status, sent.body]).toEqual([422, { detail: [{ loc: ['body', ...place], ...fault }] }])
  expect(await storedImages(made.id)).toEqual([])
})
