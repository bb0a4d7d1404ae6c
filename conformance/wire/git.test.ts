import { expect } from 'vitest'
import { makeRepositoryCommand, openWireServer, wireCase } from './wire-server.ts'

const wire = openWireServer()
let number = 0

/** A repository with one commit, changed by the shell commands `more`. */
async function createRepository(more = 'true'): Promise<string> {
  number += 1
  const path = `${wire.directory}/repository ${number}`
  await wire.runCommand(`${makeRepositoryCommand(path)} && cd '${path}' && ${more}`)
  return path
}
const commitCommand = (message: string) =>
  `git add -A && git -c user.name=t -c user.email=t@localhost -c commit.gpgsign=false commit -qm '${message}'`
const getChanges = (path: string, query: Record<string, string> = {}) =>
  wire.requestOrThrow<{ status: string; path: string }[]>('GET', '/api/git/changes', {
    query: { path, ...query },
  })
const getDiff = (path: string, query: Record<string, string> = {}) =>
  wire.requestOrThrow('GET', '/api/git/diff', { query: { path, ...query } })

wireCase(
  'GET /api/git/changes',
  'lists added, updated and deleted files, sorted, with any names',
  async () => {
    const path = await createRepository(
      `printf 'x' > gone.txt && printf 'y' > 'ä b.txt' && ${commitCommand('more')} && printf 'two\\n' >> tracked.txt && rm gone.txt && echo n > 'new ü.txt'`,
    )
    expect(await getChanges(path, { ref: 'HEAD' })).toEqual([
      { status: 'DELETED', path: 'gone.txt' },
      { status: 'ADDED', path: 'new ü.txt' },
      { status: 'UPDATED', path: 'tracked.txt' },
    ])
    expect(await getChanges(path)).toEqual(await getChanges(path, { ref: 'HEAD' }))
  },
)

wireCase('GET /api/git/changes', 'is [] without a repository, and 400 for an invalid ref', async () => {
  const plain = `${wire.directory}/plain`
  await wire.runCommand(`mkdir -p '${plain}'`)
  expect(await getChanges(plain)).toEqual([])
  expect(
    await wire.requestStatus('GET', '/api/git/changes', {
      query: { path: await createRepository(), ref: 'no-such' },
    }),
  ).toBe(400)
  const unborn = `${wire.directory}/unborn`
  await wire.runCommand(`git init -q '${unborn}' && echo x > '${unborn}/first.txt'`)
  expect(await getChanges(unborn)).toEqual([{ status: 'ADDED', path: 'first.txt' }])
  expect(await wire.requestStatus('GET', '/api/git/changes')).toBe(422)
})

wireCase('GET /api/git/diff', 'returns both sides: changed, new, deleted', async () => {
  const path = await createRepository(`printf 'two\\n' >> tracked.txt && echo n > new.txt`)
  for (const query of [{}, { ref: 'HEAD' }])
    expect(await getDiff(`${path}/tracked.txt`, query)).toEqual({ modified: 'one\ntwo', original: 'one' })
  const fresh = await wire.requestOrThrow<{ modified: string; original: string | null }>(
    'GET',
    '/api/git/diff',
    {
      query: { path: `${path}/new.txt` },
    },
  )
  expect([fresh.modified, fresh.original ?? '']).toEqual(['n', ''])
})

wireCase(
  'GET /api/git/diff',
  'is null on both sides without a repository, 400 for an invalid path',
  async () => {
    const plain = `${wire.directory}/no repository`
    await wire.runCommand(`mkdir -p '${plain}' && echo x > '${plain}/file.txt'`)
    expect(await getDiff(`${plain}/file.txt`)).toEqual({ modified: null, original: null })
    const path = await createRepository()
    const bad = [
      { path: `${path}/missing.txt` },
      { path: `${path}/tracked.txt`, ref: 'HEAD', commit: 'abcd' },
      { path: `${path}/tracked.txt`, commit: 'x' },
    ]
    for (const query of bad)
      expect([400, 422]).toContain(await wire.requestStatus('GET', '/api/git/diff', { query }))
  },
)

wireCase('GET /api/git/commits', 'lists the newest first, up to a limit', async () => {
  const path = await createRepository(
    `echo 2 > b && ${commitCommand('second')} && echo 3 > c && ${commitCommand('third')}`,
  )
  const { commits, has_more } = await wire.requestOrThrow<{
    commits: { sha: string; subject: string }[]
    has_more: boolean
  }>('GET', '/api/git/commits', { query: { path, limit: '2' } })
  expect(commits.map(({ subject }) => subject)).toEqual(['third', 'second'])
  expect(commits[0]).toMatchObject({
    sha: expect.stringMatching(/^[0-9a-f]{40}$/),
    short_sha: expect.stringMatching(/^[0-9a-f]{4,}$/),
    author: expect.stringContaining('t'),
    timestamp: expect.anything(),
  })
  expect(has_more).toBe(true)
  for (const limit of ['0', '201'])
    expect(await wire.requestStatus('GET', '/api/git/commits', { query: { path, limit } })).toBe(422)
})

wireCase('GET /api/git/commits/{sha}/changes', 'are the changes of one commit', async () => {
  const path = await createRepository(`echo 2 > b && rm tracked.txt && ${commitCommand('second')}`)
  const sha = (await wire.runCommand(`git -C '${path}' rev-parse HEAD`)).trim()
  expect(await wire.requestOrThrow('GET', `/api/git/commits/${sha}/changes`, { query: { path } })).toEqual([
    { status: 'ADDED', path: 'b' },
    { status: 'DELETED', path: 'tracked.txt' },
  ])
  const none = await wire.requestStatus('GET', `/api/git/commits/${'0'.repeat(40)}/changes`, {
    query: { path },
  })
  expect([400, 404]).toContain(none)
})
