import { expect } from 'vitest'
import { finish } from '../support/agent-driver.ts'
import { nowhere, openWire, prove, repositoryIn } from './wire-server.ts'

const wire = openWire()
const bytes = Uint8Array.from({ length: 2_000 }, (_, n) => (n * 31) % 256)

/** The spellings in which clients put an absolute path behind a slash. */
const spellings = (path: string) => [
  encodeURIComponent(path),
  path.split('/').map(encodeURIComponent).join('/'),
  path.slice(1).split('/').map(encodeURIComponent).join('/'),
]

prove(
  'POST /api/conversations/{id}/generate_title',
  'answers a title of the wanted length, and 404 for nobody',
  async () => {
    const { id } = await wire.played([finish(), { side: true, text: 'What was done here' }])
    const path = `/api/conversations/${id}/generate_title`
    for (const body of [{ max_length: 20 }, { max_length: 50, llm: null }, undefined]) {
      const { title } = await wire.must<{ title: string }>('POST', path, body === undefined ? {} : { body })
      expect(title.length).toBeGreaterThan(0)
      expect(title.length).toBeLessThanOrEqual(body?.max_length ?? 50)
    }
    expect(await wire.status('POST', `/api/conversations/${nowhere}/generate_title`, { body: {} })).toBe(404)
  },
)

prove('GET /api/git/changes/{path}', 'answers as with ?path=, in each spelling', async () => {
  const path = `${wire.directory}/a b/changes ü`
  await wire.bash(`${repositoryIn(path)} && echo two >> '${path}/tracked.txt'`)
  for (const spelling of spellings(path))
    expect([spelling, (await wire.ask('GET', `/api/git/changes/${spelling}`)).body]).toEqual([
      spelling,
      [{ status: 'UPDATED', path: 'tracked.txt' }],
    ])
})

prove('GET /api/git/diff/{path}', 'answers as with ?path=, in each spelling', async () => {
  const path = `${wire.directory}/a b/diff ü`
  await wire.bash(`${repositoryIn(path)} && echo two >> '${path}/tracked.txt'`)
  for (const spelling of spellings(`${path}/tracked.txt`))
    expect([spelling, (await wire.ask('GET', `/api/git/diff/${spelling}`)).body]).toEqual([
      spelling,
      { modified: 'one\ntwo\n', original: 'one\n' },
    ])
})

prove('POST /api/file/upload/{path}', 'stores the file, in each spelling', async () => {
  for (const [n, spelling] of spellings(`${wire.directory}/up ü/file`).entries()) {
    const body = new FormData()
    body.append('file', new Blob([bytes]), 'any')
    expect([spelling, await wire.status('POST', `/api/file/upload/${spelling}${n}`, { body })]).toEqual([
      spelling,
      200,
    ])
    expect(await wire.bash(`wc -c < '${wire.directory}/up ü/file${n}'`)).toBe('2000\n')
  }
})

prove('GET /api/file/download/{path}', 'answers the bytes, in each spelling', async () => {
  const path = `${wire.directory}/down ü/file.bin`
  await wire.upload(path, bytes)
  for (const spelling of spellings(path)) {
    const response = await fetch(`${wire.url}/api/file/download/${spelling}`, { headers: wire.headers })
    expect([spelling, response.status]).toEqual([spelling, 200])
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true)
  }
  expect(await wire.status('GET', `/api/file/download/${encodeURIComponent(`${path}.none`)}`)).toBe(404)
})
