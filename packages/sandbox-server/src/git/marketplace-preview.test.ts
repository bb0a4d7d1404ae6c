import { expect, test } from 'vitest'
import { repositoryAddress } from './marketplace-preview.ts'
import { FakeProvider, fakeToken } from './testing/fake-provider.ts'
import { openGitServer } from './testing/git-server.ts'

const file = (content: unknown) => {
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  return [{ type: 'file', encoding: 'base64', content: Buffer.from(text).toString('base64') }]
}
const tree = (...paths: readonly string[]) => [{ tree: paths.map((path) => ({ type: 'blob', path })) }]
const manifest = {
  name: 'tools',
  plugins: [{ name: 'deploy', description: 'Deploys', source: './deploy' }, { name: 'bare' }, { broken: 1 }],
  skills: [{ name: 'review', source: './skills/review' }],
}

function fakeRepositories() {
  return new FakeProvider({
    '/repos/acme/tools/contents/.plugin/marketplace.json': file(manifest),
    '/repos/acme/tools/contents/team/a/marketplace.json': file({ plugins: [{ name: 'inner' }] }),
    '/repos/acme/broken/contents/.claude-plugin/marketplace.json': file('no JSON'),
    '/repos/acme/loose/git/trees/HEAD': tree(
      ...['skills/write.md', 'skills/plan/SKILL.md', 'skills/plan/notes.md', 'skills/README.md'],
      ...['.skills/extra.md', 'other/x.md'],
    ),
    '/projects/group%2Fsub%2Ftools/repository/files/.claude-plugin%2Fmarketplace.json': file(manifest),
    '/projects/group%2Fsub%2Floose': [{ id: 1 }],
    '/projects/group%2Fsub%2Floose/repository/tree': [{ type: 'blob', path: 'skills/one.md' }],
  })
}

const named = (name: string, source: string, more = {}) => ({ name, source, ...more })

test('plugins and skills of manifests are listed, and loose skills where there is none', async () => {
  const fake = fakeRepositories()
  fake.authorization = null
  const { call } = await openGitServer({}, fake.fetch)
  const body = [
    named('tools', 'github:acme/tools'),
    named('inner', 'https://github.com/acme/tools.git', { repo_path: 'team/a' }),
    named('loose', 'acme/loose'),
    named('broken', 'git@github.com:acme/broken.git'),
    named('none', 'github:acme/none'),
    named('odd', 'no-repository'),
    named('far', 'https://git.example.org/group/tools'),
  ]
  const { status, body: preview } = await call('skills/marketplace-skills', 'ann', body)
  expect(status).toBe(200)
  const tools = { source: 'github:acme/tools', marketplace: 'tools' }
  expect(preview).toEqual({
    plugins: [
      { name: 'deploy', description: 'Deploys', ...tools },
      { name: 'bare', description: null, ...tools },
      ...[{ name: 'inner', description: null, source: body[1]?.source, marketplace: 'inner' }],
    ],
    skills: ['tools/review', 'loose/write', 'loose/plan', 'loose/extra'].map((path) => {
      const [marketplace, name] = path.split('/')
      return { name, type: 'knowledge', source: `marketplace:${marketplace}`, triggers: null }
    }),
    marketplace_skills: { tools: ['review'], inner: [], loose: ['write', 'plan', 'extra'] },
    errors: [
      'broken: invalid marketplace manifest',
      'none: Resource not found on github API',
      'odd: Invalid repository path: no-repository',
      'far: Unknown Git host for https://git.example.org/group/tools; store a token together with its host',
    ],
  })
})

test('a marketplace at the host of a stored token is read with it, at a branch', async () => {
  const fake = fakeRepositories()
  const { call } = await openGitServer(
    { gitlab: { token: fakeToken, host: 'https://git.example.org' } },
    fake.fetch,
  )
  const { body } = await call('skills/marketplace-skills', 'ann', [
    named('tools', 'git@git.example.org:group/sub/tools.git', { ref: 'next' }),
    named('loose', 'https://git.example.org/group/sub/loose'),
    named('none', 'https://git.example.org/group/sub/none'),
  ])
  expect(body).toMatchObject({
    plugins: [{ name: 'deploy' }, { name: 'bare' }],
    marketplace_skills: { tools: ['review'], loose: ['one'] },
    errors: ['none: Resource not found on gitlab API'],
  })
  const refs = fake.requests.map(({ url }) => url.searchParams.get('ref'))
  expect(refs).toContain('next')
  expect(new Set(fake.requests.map(({ url }) => url.origin))).toEqual(new Set(['https://git.example.org']))
})

test('what is no list of marketplaces is refused, also a source with a user', async () => {
  const { call } = await openGitServer({}, fakeRepositories().fetch)
  const bad = [{}, [{ name: 'a' }], [named('a', 'https://u:p@github.com/a/b')], [named('a b', 'github:a/b')]]
  for (const body of [...bad, Array.from({ length: 21 }, () => named('a', 'github:a/b'))])
    expect((await call('skills/marketplace-skills', 'ann', body)).status).toBe(422)
})

test.each([
  ['github:a/b', 'https://github.com/a/b'],
  ['git@github.com:a/b.git', 'https://github.com/a/b.git'],
  ['ssh://git.example.org/a/b', 'https://git.example.org/a/b'],
  ['a/b', 'https://github.com/a/b'],
])('the source %s is the repository %s', (source, address) => {
  expect(repositoryAddress(source)).toBe(address)
})
