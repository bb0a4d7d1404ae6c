import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseSource, publicSource, subfolderSource } from './source.ts'

const createSource = (source: string, more: { ref?: string; repo_path?: string } = {}) => ({
  source,
  ref: more.ref,
  repo_path: more.repo_path,
})
const parseTestSource = (source: string, more?: { ref?: string; repo_path?: string }) =>
  parseSource(createSource(source, more))

test.each([
  ['github:o/r', 'https://github.com/o/r.git', undefined, undefined],
  ['github:o/r.git', 'https://github.com/o/r.git', undefined, undefined],
  ['github:o/r/skills/x', 'https://github.com/o/r.git', undefined, 'skills/x'],
  ['github:o/r/skills/x@v1.0', 'https://github.com/o/r.git', 'v1.0', 'skills/x'],
  ['https://github.com/o/r/tree/main/skills/x', 'https://github.com/o/r.git', 'main', 'skills/x'],
  ['https://git.test/o/r.git', 'https://git.test/o/r.git', undefined, undefined],
  ['https://git.test/o/r.git#skills/x', 'https://git.test/o/r.git', undefined, 'skills/x'],
  ['https://git.test/o/r.git#skills/x@v2', 'https://git.test/o/r.git', 'v2', 'skills/x'],
  ['ssh://git@git.test:22/o/r.git', 'ssh://git@git.test:22/o/r.git', undefined, undefined],
  ['git@git.test:o/r.git', 'git@git.test:o/r.git', undefined, undefined],
  ['file:///srv/r.git', 'file:///srv/r.git', undefined, undefined],
])('%s is a repository of git', (source, url, ref, folder) => {
  expect(parseTestSource(source)).toEqual({ kind: 'git', url, credentials: undefined, ref, folder })
})

test('an absolute directory is one, and with a ref it is a repository', () => {
  expect(parseTestSource('/srv/x/../skill')).toEqual({
    kind: 'directory',
    path: '/srv/skill',
    folder: undefined,
  })
  expect(parseTestSource('/srv/skill', { repo_path: './a//b/' })).toMatchObject({ folder: 'a/b' })
  expect(parseTestSource('/srv/a b', { ref: 'main' })).toMatchObject({
    kind: 'git',
    url: 'file:///srv/a%20b',
    ref: 'main',
  })
})

test('the folder of the source and repo_path join, and the member ref goes before one in the source', () => {
  expect(parseTestSource('github:o/r/a@v1', { repo_path: 'b', ref: 'v2' })).toMatchObject({
    folder: 'a/b',
    ref: 'v2',
  })
})

test.each([
  ['ext::sh -c id', 'source'],
  ['ext::sh%20-c%20id', 'source'],
  ['fd::17', 'source'],
  ['http://git.test/x', 'source'],
  ['git://git.test/x', 'source'],
  ['ftp://git.test/x', 'source'],
  ['https:/user:pass@git.test/x', 'source'],
  ['https:///user:pass@git.test/x', 'source'],
  ['https:user:pass@git.test/x', 'source'],
  ['ssh:git@git.test/x', 'source'],
  ['-oProxyCommand=id', 'source'],
  ['--upload-pack=id', 'source'],
  ['ssh://-oProxyCommand=id/x', 'source'],
  ['ssh://-oProxyCommand=id@git.test/x', 'source'],
  ['ssh://git:pass@git.test/x', 'source'],
  ['-x@git.test:y', 'source'],
  ['git@git.test:-x', 'source'],
  ['git@-git.test:x', 'source'],
  ['file://host/srv/x', 'source'],
  ['https://git.test/x?access_token=1', 'source'],
  ['https://git.test/x#../y', 'source'],
  ['github:-o/r', 'source'],
  ['github:../r', 'source'],
  ['github:o/..', 'source'],
  ['github:o', 'source'],
  ['relative/path', 'source'],
  ['./x', 'source'],
  ['~/x', 'source'],
  ['/a\0b', 'source'],
  ['/a\nb', 'source'],
  ['C:\\x', 'source'],
  ['', 'source'],
])('%j is refused', (source, member) => {
  expect(parseTestSource(source)).toMatchObject({ member, issue: expect.stringMatching(/^[A-Z]/) })
})

test.each(['-x', '--upload-pack=id', 'a..b', 'a@{1}', 'a b', 'a:b', 'a\nb', '+a:b', '.x'])(
  'the ref %j is refused',
  (ref) => {
    expect(parseTestSource('/x', { ref })).toMatchObject({ member: 'ref' })
  },
)

test.each(['..', 'a/../b', '/abs', '.git', 'a/.GIT/hooks', 'a\\b', 'a\0', '.git ./x'])(
  'the path %j is refused',
  (repo_path) => {
    expect(parseTestSource('/x', { repo_path })).toMatchObject({ member: 'repo_path' })
  },
)

test('credentials of an address are for git alone', () => {
  const source = 'https://me:s3cr%40t-value@git.test/o/r.git'
  expect(parseTestSource(source)).toMatchObject({
    url: 'https://git.test/o/r.git',
    credentials: 'me:s3cr@t-value',
  })
  expect(publicSource({ ...createSource(source), token: 's3cret' })).toEqual(
    createSource('https://git.test/o/r.git'),
  )
  expect(publicSource(createSource('https://tokenvalue@git.test/x#a/b@v1'))).toEqual(
    createSource('https://git.test/x#a/b@v1'),
  )
})

test('of a source that cannot be understood no credentials are shown', () => {
  for (const source of [
    'https://me:s3cret-value@git.test/x?y',
    'ssh://me:s3cret-value@git.test/x',
    'http://me:s3cret-value@git.test/x',
  ])
    expect(publicSource(createSource(source)).source).not.toContain('s3cret')
  expect(publicSource(createSource('https://@git.test/x'))).toEqual(createSource('https://git.test/x'))
  for (const source of ['github:o/r/x@v1', 'https://github.com/o/r/tree/main/x', 'git@git.test:x', '/a@b'])
    expect(publicSource(createSource(source))).toEqual(createSource(source))
})

test('a folder of a source is named by one text that leads to it', () => {
  for (const [source, more] of [
    ['github:o/r', {}],
    ['https://git.test/r.git#a', { ref: 'v1' }],
    ['git@git.test:o/r.git', { repo_path: 'x/' }],
  ] as const) {
    const whole = parseTestSource(source, more)
    const text = subfolderSource(createSource(source, more), 'skills/one')
    const found = parseTestSource(text)
    if (!('kind' in whole) || !('kind' in found)) throw new Error('refused')
    const { folder, ...rest } = found
    const { folder: before, ...expected } = whole
    expect(rest).toEqual(expected)
    expect(folder).toBe([before, 'skills/one'].filter((part) => part !== undefined).join('/'))
  }
})

test('whatever the text is, it is understood or refused, and nothing that git would take for an option comes out', () => {
  const piece = fc.constantFrom(
    'github:',
    'https://',
    'ssh://',
    'file://',
    'git@',
    '-',
    '..',
    '/',
    'a',
    ':',
    '#',
    '@',
    '%2e',
    '.git',
    ' ',
  )
  const text = fc.oneof(
    fc.string(),
    fc.array(piece, { maxLength: 10 }).map((parts) => parts.join('')),
  )
  fc.assert(
    fc.property(
      text,
      fc.option(text, { nil: undefined }),
      fc.option(text, { nil: undefined }),
      (source, ref, path) => {
        const found = parseSource({ source, ref, repo_path: path })
        if ('issue' in found) return
        expect(found.folder ?? '').not.toMatch(/(^|\/)\.\.?(\/|$)|^\//)
        if (found.kind === 'directory') {
          expect(found.path).toMatch(/^\//)
          return
        }
        expect(found.url).toMatch(/^(https:\/\/|ssh:\/\/|file:\/\/\/|[\w.-]+@)/)
        expect(found.url).not.toMatch(/^-|^[a-z]+:\/\/-|^[^/]*@-/)
        expect(found.ref ?? 'x').not.toMatch(/^-/)
        expect(publicSource({ source, ref, repo_path: path }).source).not.toMatch(/^https:\/\/[^/?#]*@/)
      },
    ),
    { numRuns: 2_000 },
  )
})
