import { chmod, mkdir, mkdtemp, readdir, readlink, rm, symlink } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { removeSocketLinks, shortSocketPath } from './short-socket.ts'

async function makeFolders() {
  const root = await mkdtemp(join(tmpdir(), 's-'))
  onTestFinished(() => rm(root, { recursive: true }))
  const deep = join(root, 'd'.repeat(150))
  const near = join(root, '.s')
  await mkdir(deep)
  return { root, deep, near }
}

test('a socket in a deep folder is reached by a short path, and its links go', async () => {
  const { root, deep, near } = await makeFolders()
  expect(await shortSocketPath(root, 'a')).toBe(join(root, 'a'))
  for (const links of [[near], []]) {
    const short = (await shortSocketPath(deep, 'a.sock', links)) ?? ''
    expect(Buffer.byteLength(short)).toBeLessThanOrEqual(103)
    expect(short.startsWith(near)).toBe(links.length === 1)
    expect(await shortSocketPath(deep, 'a.sock', links)).toBe(short)
    const server = createServer().listen(short)
    await new Promise((done) => server.once('listening', done))
    expect(await readdir(deep)).toEqual(['a.sock'])
    await new Promise((done) => server.close(done))
    await removeSocketLinks(deep, links)
    await expect(readlink(dirname(short))).rejects.toThrow('ENOENT')
  }
})

test('with the links of a folder, those next to it go whose folder is gone', async () => {
  const { root, deep, near } = await makeFolders()
  const short = (await shortSocketPath(deep, 'a', [near])) ?? ''
  const gone = join(root, 'gone')
  await symlink(gone, join(near, 'old'))
  await removeSocketLinks(gone, [near])
  expect(await readdir(near)).toEqual([basename(dirname(short))])
})

test('links are in no folder that other users may write, and none leads elsewhere', async () => {
  const { root, deep, near } = await makeFolders()
  await mkdir(near)
  await chmod(near, 0o777)
  expect((await shortSocketPath(deep, 'a', [near]))?.startsWith(near)).toBe(false)
  await chmod(near, 0o700)
  const short = (await shortSocketPath(deep, 'a', [near])) ?? ''
  expect(short.startsWith(near)).toBe(true)
  await rm(dirname(short))
  await symlink('/', dirname(short))
  expect(await shortSocketPath(deep, 'a', [near])).toBe(short)
  expect(await readlink(dirname(short))).toBe(deep)
  await rm(dirname(short))
  await mkdir(dirname(short))
  await expect(shortSocketPath(deep, 'a', [near])).rejects.toMatchObject({ code: 'ERR_FS_EISDIR' })
  await symlink(near, join(root, 'link'))
  expect((await shortSocketPath(deep, 'a', [join(root, 'link')]))?.startsWith(join(root, 'link'))).toBe(false)
  await removeSocketLinks(deep)
})
