import { expect } from 'vitest'
import { finishStep } from '../support/agent-driver.ts'
import { makeRepositoryCommand, openWireServer, unknownId, wireCase } from './wire-server.ts'

const wire = openWireServer()
const bytes = Uint8Array.from({ length: 2_000 }, (_, n) => (n * 31) % 256)

/** The spellings in which clients append an absolute path to a route. */
const spellings = (path: string) => [
  encodeURIComponent(path),
  path.split('/').map(encodeURIComponent).join('/'),
  path.slice(1).split('/').map(encodeURIComponent).join('/'),
]

wireCase(
  'POST /api/conversations/{id}/generate_title',
  'returns a title of the requested length, and 404 for an unknown conversation',
  async () => {
    const { id } = await wire.createFinished([finishStep(), { side: true, text: 'What was done here' }])
    const path = `/api/conversations/${id}/generate_title`
    for (const body of [{ max_length: 20 }, { max_length: 50, llm: null }, undefined]) {
      const { title } = await wire.requestOrThrow<{ title: string }>(
        'POST',
        path,
        body === undefined ? {} : { body },
      )
      expect(title.length).toBeGreaterThan(0)
      expect(title.length).toBeLessThanOrEqual(body?.max_length ?? 50)
    }
    expect(
      await wire.requestStatus('POST', `/api/conversations/${unknownId}/generate_title`, { body: {} }),
    ).toBe(404)
  },
)

wireCase('GET /api/git/changes/{path}', 'replies as with ?path=, in each spelling', async () => {
  const path = `${wire.directory}/a b/changes ü`
  await wire.runCommand(`${makeRepositoryCommand(path)} && echo two >> '${path}/tracked.txt'`)
  for (const spelling of spellings(path))
    expect([spelling, (await wire.request('GET', `/api/git/changes/${spelling}`)).body]).toEqual([
      spelling,
      [{ status: 'UPDATED', path: 'tracked.txt' }],
    ])
})

wireCase('GET /api/git/diff/{path}', 'replies as with ?path=, in each spelling', async () => {
  const path = `${wire.directory}/a b/diff ü`
  await wire.runCommand(`${makeRepositoryCommand(path)} && echo two >> '${path}/tracked.txt'`)
  for (const spelling of spellings(`${path}/tracked.txt`))
    expect([spelling, (await wire.request('GET', `/api/git/diff/${spelling}`)).body]).toEqual([
      spelling,
      { modified: 'one\ntwo', original: 'one' },
    ])
})

wireCase('POST /api/file/upload/{path}', 'stores the file, in each spelling', async () => {
  for (const [n, spelling] of spellings(`${wire.directory}/up ü/file`).entries()) {
    const body = new FormData()
    body.append('file', new Blob([bytes]), 'any')
    expect([
      spelling,
      await wire.requestStatus('POST', `/api/file/upload/${spelling}${n}`, { body }),
    ]).toEqual([spelling, 200])
    expect(await wire.runCommand(`wc -c < '${wire.directory}/up ü/file${n}'`)).toBe('2000\n')
  }
})

wireCase('GET /api/file/download/{path}', 'returns the bytes, in each spelling', async () => {
  const path = `${wire.directory}/down ü/file.bin`
  await wire.upload(path, bytes)
  for (const spelling of spellings(path)) {
    const response = await fetch(`${wire.url}/api/file/download/${spelling}`, { headers: wire.headers })
    expect([spelling, response.status]).toEqual([spelling, 200])
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true)
  }
  expect(await wire.requestStatus('GET', `/api/file/download/${encodeURIComponent(`${path}.none`)}`)).toBe(
    404,
  )
})
