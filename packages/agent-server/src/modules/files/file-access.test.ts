import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exchangeWithLink } from '@slipway/shared/tool-files/testing'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { listDirectory, listHomeLocations, listSubdirectories } from './browse.ts'
import { contentDisposition, createDirectory, findFile, readFileBytes, saveFile } from './file-access.ts'

const limits = { dataDirectory: '/nonexistent/data' }

function temporaryDirectory() {
  const path = mkdtempSync(join(tmpdir(), 'slipway-files-'))
  return {
    path,
    at: (...names: string[]) => join(path, ...names),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  }
}

async function* chunksOf(...parts: (string | Error)[]): AsyncGenerator<Buffer> {
  for (const part of parts) {
    if (typeof part !== 'string') throw part
    yield Buffer.from(part)
  }
}

async function read(path: string): Promise<string> {
  const blocks: Buffer[] = []
  for await (const block of readFileBytes(await findFile(path))) blocks.push(block)
  return Buffer.concat(blocks).toString()
}

test('a file is saved with the directories on the way to it, and read again', async () => {
  using it = temporaryDirectory()
  const path = it.at('a', 'b', 'größe ✓.txt')
  await saveFile(path, chunksOf('one ', 'two'), limits)
  expect(readFileSync(path, 'utf8')).toBe('one two')
  expect(await read(path)).toBe('one two')
  await saveFile(it.at('empty'), chunksOf(), limits)
  expect(await read(it.at('empty'))).toBe('')
  expect(readdirSync(it.at('a', 'b'))).toHaveLength(1)
})

test('what breaks off leaves nothing: neither a draft, nor directories, nor another file', async () => {
  using it = temporaryDirectory()
  writeFileSync(it.at('old'), 'old')
  const cut = new Error('gone')
  for (const path of [it.at('old'), it.at('new'), it.at('x', 'y', 'new')])
    await expect(saveFile(path, chunksOf('half', cut), limits)).rejects.toBe(cut)
  expect(readdirSync(it.path)).toEqual(['old'])
  expect(readFileSync(it.at('old'), 'utf8')).toBe('old')
})

test('directories that somebody else uses by now stay when an upload breaks off', async () => {
  using it = temporaryDirectory()
  async function* bytes() {
    yield Buffer.from('x')
    writeFileSync(it.at('x', 'other'), '')
    throw new Error('gone')
  }
  await expect(saveFile(it.at('x', 'y', 'new'), bytes(), limits)).rejects.toThrow('gone')
  expect(readdirSync(it.path)).toEqual(['x'])
  expect(readdirSync(it.at('x'))).toEqual(['other'])
})

test('a replaced file keeps its mode, and a link leads to what it names', async () => {
  using it = temporaryDirectory()
  writeFileSync(it.at('script'), '')
  chmodSync(it.at('script'), 0o751)
  symlinkSync('script', it.at('link'))
  await saveFile(it.at('link'), chunksOf('new'), limits)
  expect(readFileSync(it.at('script'), 'utf8')).toBe('new')
  expect(statSync(it.at('script')).mode & 0o7777).toBe(0o751)
  expect(readdirSync(it.path).sort()).toEqual(['link', 'script'])
})

test('readers see the old file or the new one, never a part', async () => {
  using it = temporaryDirectory()
  const [a, b] = ['a'.repeat(300_000), 'b'.repeat(300_000)]
  writeFileSync(it.at('f'), a)
  const pieces = (text: string) => chunksOf(...(text.match(/.{1,30000}/g) ?? []))
  const seen = new Set<string>()
  let isOver = false
  const reading = (async () => {
    while (!isOver) seen.add(await read(it.at('f')))
  })()
  for (let n = 0; n < 20; n++) await saveFile(it.at('f'), pieces(n % 2 ? a : b), limits)
  isOver = true
  await reading
  expect([...seen].every((text) => text === a || text === b)).toBe(true)
})

test.each([
  ['relative', 'a/b', 'bad_request', 'Path must be absolute'],
  ['empty', '', 'bad_request', 'Path must be absolute'],
  ['with a NUL byte', '/tmp/a\0b', 'bad_request', 'NUL'],
  ['too long', `/tmp/${'x'.repeat(300)}`, 'bad_request', 'too long'],
  ['very long', `/tmp${'/x'.repeat(5_000)}`, 'bad_request', 'too long'],
])('a path that is %s is refused everywhere', async (_, path, code, text) => {
  const refused = { code, message: expect.stringContaining(text) }
  await expect(saveFile(path, chunksOf('x'), limits)).rejects.toMatchObject(refused)
  await expect(findFile(path)).rejects.toMatchObject(refused)
  await expect(createDirectory(path)).rejects.toMatchObject(refused)
  await expect(listSubdirectories(path, { limit: 5, includeHidden: false })).rejects.toMatchObject(refused)
})

test('what is no regular file is neither read nor replaced, and no one waits for it', async () => {
  using it = temporaryDirectory()
  execFileSync('mkfifo', [it.at('pipe')])
  mkdirSync(it.at('directory'))
  symlinkSync('loop', it.at('loop'))
  writeFileSync(it.at('file'), 'x')
  for (const path of [
    it.at('pipe'),
    it.at('directory'),
    '/dev/zero',
    '/dev/null',
    it.at('loop'),
    it.at('file', 'x'),
  ]) {
    await expect(findFile(path)).rejects.toMatchObject({ code: 'bad_request' })
    await expect(saveFile(path, chunksOf('x'), limits)).rejects.toMatchObject({ code: 'bad_request' })
    const reading = readFileBytes({ real: path, size: 0 }).next()
    await expect(reading).rejects.toMatchObject({ code: 'bad_request' })
  }
  expect(statSync('/dev/null').isCharacterDevice()).toBe(true)
  expect(statSync(it.at('pipe')).isFIFO()).toBe(true)
  await expect(findFile(it.at('missing'))).rejects.toMatchObject({ code: 'not_found' })
})

test('a file that becomes shorter while it is read is a failure, one that becomes longer is cut at what was announced', async () => {
  using it = temporaryDirectory()
  writeFileSync(it.at('f'), 'x'.repeat(1_000_000))
  const reading = readFileBytes({ real: it.at('f'), size: 1_000_000 })
  await reading.next()
  truncateSync(it.at('f'), 400_000)
  await expect(Array.fromAsync(reading)).rejects.toMatchObject({ code: 'conflict' })
  const blocks = await Array.fromAsync(readFileBytes({ real: it.at('f'), size: 100 }))
  expect(Buffer.concat(blocks)).toHaveLength(100)
})

test.skipIf(process.platform !== 'linux')(
  'a directory that is exchanged with a link in a loop leads no upload and no download out of the root',
  async () => {
    using it = temporaryDirectory()
    for (const name of ['root/folder', 'outside']) mkdirSync(it.at(name), { recursive: true })
    writeFileSync(it.at('root/folder/f'), 'x')
    writeFileSync(it.at('outside/f'), 'secret')
    const root = it.at('root')
    const path = join(root, 'folder/f')
    const done = { save: 0, make: 0, read: 0 }
    const count = async (name: keyof typeof done, work: Promise<unknown>) =>
      await work.then(
        () => done[name]++,
        () => undefined,
      )
    {
      await using _ = await exchangeWithLink(it.at('root/folder'), it.at('outside'))
      for (let time = 0; time < 500; time++) {
        const saving = count('save', saveFile(path, chunksOf('x'), { ...limits, root }))
        const making = count('make', createDirectory(join(root, `folder/${time}/a`), root))
        const found = await findFile(path, root).catch(() => undefined)
        const blocks = found && (await Array.fromAsync(readFileBytes(found)).catch(() => []))
        const text = Buffer.concat(blocks ?? []).toString()
        expect(text).not.toBe('secret')
        if (text === 'x') done.read++
        await Promise.all([saving, making])
      }
    }
    expect(Math.min(...Object.values(done)), JSON.stringify(done)).toBeGreaterThan(0)
    expect(readdirSync(it.at('outside'))).toEqual(['f'])
    expect(readFileSync(it.at('outside/f'), 'utf8')).toBe('secret')
  },
)

test('links within the root are followed, others refused', async () => {
  using it = temporaryDirectory()
  for (const name of ['root/folder', 'outside']) mkdirSync(it.at(name), { recursive: true })
  symlinkSync('folder', it.at('root/inside'))
  symlinkSync('../outside', it.at('root/out'))
  const root = it.at('root')
  await saveFile(join(root, 'inside/f'), chunksOf('x'), { ...limits, root })
  expect(readFileSync(it.at('root/folder/f'), 'utf8')).toBe('x')
  expect((await findFile(join(root, 'inside/f'), root)).real).toBe(realpathSync(it.at('root/folder/f')))
  writeFileSync(it.at('outside/f'), 'secret')
  const refused = { code: 'invalid' }
  await expect(findFile(join(root, 'out/f'), root)).rejects.toMatchObject(refused)
  await expect(saveFile(join(root, 'out/f'), chunksOf('x'), { ...limits, root })).rejects.toMatchObject(
    refused,
  )
  await expect(createDirectory(join(root, 'out/new'), root)).rejects.toMatchObject(refused)
})

test('files of the system that say they are empty are read', async () => {
  expect(await read('/proc/self/status')).toContain('Pid:')
})

test('a directory is made once and again, and not where a file is', async () => {
  using it = temporaryDirectory()
  for (let n = 0; n < 2; n++) await createDirectory(it.at('a', 'b'))
  expect(statSync(it.at('a', 'b')).isDirectory()).toBe(true)
  writeFileSync(it.at('f'), '')
  symlinkSync('f', it.at('link'))
  for (const path of [it.at('f'), it.at('link')])
    await expect(createDirectory(path)).rejects.toThrow('Path exists and is not a directory')
  await expect(createDirectory(it.at('f', 'x'))).rejects.toMatchObject({ code: 'bad_request' })
})

test('the name of a download survives in a header, whatever it is', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', minLength: 1 }), (name) => {
      const value = contentDisposition(`/tmp/${name.replaceAll('/', '')}`)
      const [, plain, encoded] =
        /^attachment; filename="([ !#-[\]-~]*)"(?:; filename\*=UTF-8''([\w!#$&+.^`|~%-]*))?$/.exec(value) ??
        []
      const found = encoded === undefined ? plain : decodeURIComponent(encoded)
      expect(found).toBe(name.replaceAll('/', '').toWellFormed())
    }),
  )
})

test('directories are listed in pages that come to the whole, whatever their names', async () => {
  using it = temporaryDirectory()
  const names = ['a', 'A', 'a b', 'B', 'b', 'ab', 'ÄÖ', 'z%', '.hidden', '😀', 'a.b']
  for (const name of names) mkdirSync(it.at(name))
  writeFileSync(it.at('file'), '')
  symlinkSync('a', it.at('link'))
  symlinkSync('file', it.at('link-to-file'))
  symlinkSync('nowhere', it.at('dangling'))
  for (const includeHidden of [true, false]) {
    const wanted = names.filter((name) => includeHidden || !name.startsWith('.'))
    for (let limit = 1; limit <= 12; limit++) {
      const found: string[] = []
      let pageId: string | undefined
      do {
        const page = await listSubdirectories(it.path, { limit, includeHidden, pageId })
        found.push(...page.items.map(({ name }) => name))
        pageId = page.next_page_id ?? undefined
      } while (pageId !== undefined)
      expect(found.toSorted()).toEqual(wanted.toSorted())
      const lower = found.map((name) => name.toLowerCase())
      expect(lower).toEqual(lower.toSorted())
    }
  }
})

test('a home directory without rights or not there has no favorites', async () => {
  using it = temporaryDirectory()
  mkdirSync(it.at('src'))
  expect(await listHomeLocations(it.path, false)).toMatchObject({
    favorites: [{ label: 'src', path: it.at('src') }],
  })
  expect(await listHomeLocations(it.at('missing'), false)).toMatchObject({
    home: it.at('missing'),
    favorites: [],
  })
  expect(existsSync(it.at('missing'))).toBe(false)
})

test('lists what is in a directory page by page, directories first, links by name alone', async () => {
  using root = temporaryDirectory()
  for (const name of ['src', 'Docs', '.git']) mkdirSync(root.at(name))
  for (const name of ['b.txt', 'A.txt', 'a.txt', '.env']) writeFileSync(root.at(name), name)
  symlinkSync('/etc/passwd', root.at('link'))
  const names = async (options: { limit: number; includeHidden: boolean; pageId?: string }) => {
    const { items, next_page_id } = await listDirectory(root.path, options)
    return { names: items.map(({ name }) => name), next_page_id }
  }
  const all = ['Docs', 'src', 'A.txt', 'a.txt', 'b.txt', 'link']
  expect(await names({ limit: 100, includeHidden: false })).toEqual({ names: all, next_page_id: null })
  expect((await names({ limit: 100, includeHidden: true })).names).toEqual(
    expect.arrayContaining(['.git', '.env']),
  )
  const read: string[] = []
  for (let pageId: string | undefined; ; ) {
    const page = await names({ limit: 1, includeHidden: false, ...(pageId !== undefined && { pageId }) })
    read.push(...page.names)
    if (page.next_page_id === null) break
    pageId = page.next_page_id
  }
  expect(read).toEqual(all)
  const { items } = await listDirectory(root.path, { limit: 100, includeHidden: false })
  expect(items.find(({ name }) => name === 'a.txt')).toMatchObject({
    path: root.at('a.txt'),
    kind: 'file',
    size_bytes: 5,
    modified_at: statSync(root.at('a.txt')).mtime.toISOString(),
  })
  expect(items.find(({ name }) => name === 'link')).toMatchObject({ kind: 'link', size_bytes: null })
  await expect(listDirectory(root.at('a.txt'), { limit: 1, includeHidden: false })).rejects.toThrow(
    'Path is not a directory',
  )
})
