import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { fileHandlers } from './handlers.ts'

type Handlers = ReturnType<typeof fileHandlers>

// The sandbox server downloads files of sandboxes for keys with the scope `read`, which see no secrets.
test('keys and databases in the data directory are not served or replaced, also by a link', async () => {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'files-')))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const [data, work] = [join(directory, 'real-data'), join(directory, 'work')]
  for (const folder of [data, work, join(data, 'worktrees')]) mkdirSync(folder)
  for (const name of [
    'secret.key',
    'session.key',
    'log.db',
    'log.db-wal',
    'worktrees/a.txt',
    '../work/a.txt',
  ])
    writeFileSync(join(data, name), 'x')
  symlinkSync(data, join(directory, 'data'))
  symlinkSync('../data/secret.key', join(work, 'PLAN.md'))
  const handlers = fileHandlers({
    dataDirectory: join(directory, 'data'),
    homeDirectory: work,
    environment: {},
  } as unknown as Parameters<typeof fileHandlers>[0])
  const download = async (path: string) => {
    const request = { query: { path } } as Parameters<Handlers['downloadFile']>[0]
    const sameFile = { params: { path } } as Parameters<Handlers['downloadFileFrom']>[0]
    const replies = [handlers.downloadFile(request), handlers.downloadFileFrom(sameFile)]
    return await Promise.allSettled(replies)
  }
  const upload = async (path: string) => {
    const bytes = Readable.from([Buffer.from('x')])
    const upload = async () => ({ bytes })
    return await handlers.uploadFile({ query: { path }, upload } as unknown as Parameters<
      Handlers['uploadFile']
    >[0])
  }
  const refused = { status: 'rejected', reason: { code: 'forbidden' } }
  for (const name of ['secret.key', 'session.key', 'log.db', 'log.db-wal'])
    for (const folder of [data, join(directory, 'data'), join(data, 'worktrees/..')])
      expect(await download(`${folder}/${name}`), name).toMatchObject([refused, refused])
  for (const path of [join(data, 'session.key'), join(data, 'console.sessions'), join(work, 'PLAN.md')])
    await expect(upload(path)).rejects.toMatchObject({ code: 'forbidden' })
  for (const path of [join(work, 'b.txt'), join(data, 'worktrees/b.txt')])
    expect(await upload(path)).toEqual({ json: { success: true, file_size: 1 } })
  for (const path of [join(work, 'PLAN.md'), `/proc/${process.pid}/environ`, '/proc/thread-self/environ'])
    expect(await download(path)).toMatchObject([refused, refused])
  for (const path of [join(work, 'a.txt'), join(data, 'worktrees/a.txt')])
    expect(await download(path)).toMatchObject([{ status: 'fulfilled' }, { status: 'fulfilled' }])
})
