import { expect, test } from 'vitest'
import type { ProviderFetch } from './provider-api.ts'
import { FakeProvider, fakeToken } from './testing/fake-provider.ts'
import {
  branches,
  fakeGithub,
  fakeGitlab,
  github,
  gitlab,
  ofOrganization,
  openGitServer,
  range,
  repositories,
} from './testing/git-server.ts'

test('without a stored token no provider is asked', async () => {
  const fake = fakeGithub()
  const { call } = await openGitServer({ github: { host: 'github.com' } }, fake.fetch)
  const paths = [
    ...['installations/search?provider=github', 'repositories/search?provider=gitlab'],
    ...['branches/search?provider=github&repository=a/b&query=', 'suggested-tasks/search'],
  ]
  for (const path of paths) {
    const detail = 'Git provider token required (such as GitHub).'
    expect([path, await call(`git/${path}`)]).toMatchObject([path, { status: 403, body: { detail } }])
    expect((await call(`git/${path}`, 'stranger')).status).toBe(401)
  }
  expect(await call('users/git-info')).toMatchObject({
    status: 403,
    body: { detail: 'Git provider not connected' },
  })
  expect(fake.requests).toEqual([])
})

test('repositories are walked in pages of any size, each of them once', async () => {
  const fake = fakeGithub()
  const { walk, call } = await openGitServer(github, fake.fetch)
  for (const limits of [[100], [30], [7, 100, 41]]) {
    const items = await walk('repositories/search?provider=github', limits)
    expect(items.map(({ id }) => Number(id))).toEqual(
      [...repositories, ...ofOrganization].map(({ id }) => id),
    )
  }
  const [first] = (await call('git/repositories/search?provider=github&limit=1')).body.items
  expect(first).toEqual({
    ...{ id: '1', full_name: 'ann/project-1', git_provider: 'github', is_public: true, stargazers_count: 1 },
    ...{ pushed_at: '2026-01-02T03:04:05Z', owner_type: 'user', main_branch: 'main' },
    link_header: expect.stringContaining('rel="next"'),
  })
  const installed = await walk('repositories/search?provider=github&installation_id=5', [2])
  expect(installed).toMatchObject(
    ofOrganization.map(({ full_name }) => ({ full_name, owner_type: 'organization' })),
  )
  expect(new Set(fake.requests.map(({ url }) => url.origin))).toEqual(new Set(['https://api.github.com']))
  const odd = await call('git/repositories/search?provider=github&installation_id=..')
  expect(odd.status).toBe(400)
  for (const pageId of ['bm9uZQ', Buffer.from('1:0:').toString('base64url')]) {
    const unknown = await call(`git/repositories/search?provider=github&page_id=${pageId}`)
    expect(unknown).toMatchObject({ status: 422, body: { detail: [{ loc: ['query', 'page_id'] }] } })
  }
})

test('a search finds repositories of the user and of organisations, by name, owner or address', async () => {
  const fake = fakeGithub()
  const { call, walk } = await openGitServer({ ...github, ...gitlab }, fake.fetch)
  const find = async (query: string, provider = 'github') => {
    const items = await walk(
      `repositories/search?provider=${provider}&query=${encodeURIComponent(query)}`,
      [3],
    )
    return items.map(({ full_name }) => full_name)
  }
  expect(await find('project-1')).toEqual(
    repositories.map(({ full_name }) => full_name).filter((name) => name.includes('project-1')),
  )
  expect(await find('tool')).toEqual(['acme/tool-1', 'acme/tool-2', 'acme/tool-3'])
  // Two of an organisation of the name, which are not named twice in a page.
  expect(await find('Acme')).toEqual(['acme/tool-1', 'acme/tool-2'])
  expect(await find('acme/tool-2')).toEqual(['acme/tool-2'])
  expect(await find('https://github.com/ann/project-1.git')).toEqual(['ann/project-1'])
  expect(await find('https://github.com/ann/project-1/tree/main/docs')).toEqual(['ann/project-1'])
  expect(await find('https://github.com/ann/none')).toEqual([])
  fake.failures = { '/user/orgs': () => new Response('', { status: 403 }) }
  expect(await find('tool')).toEqual(['acme/tool-1', 'acme/tool-2', 'acme/tool-3'])
  await call('git/repositories/search?provider=github&query=x&sort_order=forks-asc')
  const { searchParams } = fake.requests.at(-1)?.url ?? new URL('x:')
  expect([searchParams.get('sort'), searchParams.get('order')]).toEqual(['forks', 'asc'])
  const refused = await call('git/repositories/search?provider=github&sort_order=stars-desc')
  const detail = 'sort_order is not supported when listing user repositories.'
  expect(refused).toMatchObject({ status: 400, body: { detail } })
})

test('branches are listed and found in pages', async () => {
  const fake = fakeGithub()
  const { walk, call } = await openGitServer(github, fake.fetch)
  const path = 'branches/search?provider=github&repository=ann/project-1&query='
  const names = branches.map(({ name }) => name)
  expect((await walk(path, [30, 100])).map(({ name }) => name)).toEqual(names)
  expect((await walk(`${path}b-1`, [30, 7])).map(({ name }) => name)).toEqual(
    names.filter((name) => name.includes('b-1')),
  )
  expect((await call(`git/${path}b-1`)).body.items.slice(0, 2)).toEqual([
    { name: 'b-1', commit_sha: 'sha-1', protected: true, last_push_date: '2026-01-02T03:04:05Z' },
    { name: 'b-10', commit_sha: 'sha-10', protected: false, last_push_date: '2026-01-02T03:04:05Z' },
  ])
  expect((await call(`git/${path}`)).body.items).toHaveLength(30)
  const wrong = await call('git/branches/search?provider=github&repository=project&query=')
  expect(wrong).toMatchObject({ status: 422, body: { detail: [{ loc: ['query', 'repository'] }] } })
  const none = await call('git/branches/search?provider=github&repository=ann/none&query=')
  expect(none).toMatchObject({ status: 404, body: { detail: 'Resource not found on github API' } })
})

test('GitLab on its own host: projects of groups, branches, and no installations', async () => {
  const fake = fakeGitlab()
  const { walk, call } = await openGitServer(gitlab, fake.fetch)
  const projects = await walk('repositories/search?provider=gitlab', [100])
  expect(projects).toHaveLength(130)
  expect(projects.at(-1)).toMatchObject({
    ...{ id: '130', full_name: 'group/sub/app-130', git_provider: 'gitlab', is_public: true },
    ...{ owner_type: 'organization', main_branch: 'main', stargazers_count: 2 },
  })
  const found = await walk('repositories/search?provider=gitlab&query=app-12&sort_order=stars-asc', [4])
  expect(found).toHaveLength(11)
  const { searchParams } = fake.requests.at(-1)?.url ?? new URL('x:')
  expect([searchParams.get('order_by'), searchParams.get('sort')]).toEqual(['star_count', 'asc'])
  const address = encodeURIComponent('https://git.example.org/sub/group/sub/app-1/-/tree/main')
  expect(await walk(`repositories/search?provider=gitlab&query=${address}`, [1])).toMatchObject([{ id: '1' }])
  const path = 'branches/search?provider=gitlab&repository=group/sub/app-1&query='
  expect(await walk(path, [30])).toHaveLength(40)
  expect(await walk(`${path}feature-4`, [30])).toMatchObject([
    { name: 'feature-4', commit_sha: 'sha-4', protected: false, last_push_date: '2026-01-02' },
    { name: 'feature-40' },
  ])
  const bases = fake.requests.map(({ url }) => url.href.startsWith('https://git.example.org/sub/api/v4/'))
  expect(new Set(bases)).toEqual(new Set([true]))
  expect(await call('git/installations/search?provider=gitlab')).toMatchObject({
    status: 400,
    body: { detail: "Provider gitlab doesn't support installations" },
  })
})

test('Forgejo: repositories, and branches that are found by this server', async () => {
  const items = range(120).map((id) => ({
    ...{ id, full_name: `ann/site-${id}`, private: true, stars_count: 1, default_branch: 'main' },
    updated_at: '2026-01-02T03:04:05Z',
  }))
  const fake = new FakeProvider({
    '/user': [{ id: 9, login: 'ann', avatar_url: 'a', full_name: 'Ann', email: 'a@b.c' }],
    '/user/repos': items,
    '/repos/search': items,
    '/repos/ann/site-1/branches': range(230).map((id) => ({
      ...{ name: `B-${id}`, protected: true, commit: { id: `sha-${id}`, timestamp: '2026-01-02' } },
    })),
  })
  fake.authorization = `token ${fakeToken}`
  const { walk, call } = await openGitServer({ forgejo: { token: fakeToken } }, fake.fetch)
  const found = await walk('repositories/search?provider=forgejo', [100])
  expect(found.map(({ id }) => Number(id))).toEqual(items.map(({ id }) => id))
  expect(found[0]).toMatchObject({ git_provider: 'forgejo', is_public: false, owner_type: null })
  expect(await walk('repositories/search?provider=forgejo&query=site-12', [5])).toHaveLength(2)
  const path = 'branches/search?provider=forgejo&repository=ann/site-1&query='
  expect(await walk(path, [100, 30])).toHaveLength(230)
  const names = (await walk(`${path}b-22`, [2])).map(({ name }) => name)
  expect(names).toEqual(['B-22', ...range(10).map((id) => `B-${id + 219}`)])
  expect((await call('users/git-info')).body).toMatchObject({ id: '9', name: 'Ann', company: null })
  expect(fake.requests[0]?.url.origin).toBe('https://codeberg.org')
})

test('Bitbucket: the repositories of all workspaces or of one', async () => {
  const items = (workspace: string, count: number) =>
    range(count).map((id) => ({
      ...{ uuid: `{${workspace}-${id}}`, full_name: `${workspace}/app-${id}`, is_private: false },
      ...{ updated_on: '2026-01-02', mainbranch: { name: 'main' } },
    }))
  const fake = new FakeProvider({
    '/user': [{ account_id: '1:2', username: 'ann', display_name: 'Ann', links: { avatar: { href: 'a' } } }],
    '/user/emails': [{ values: [{ email: 'a@b.c', is_primary: true, is_confirmed: true }] }],
    '/user/workspaces': ['one', 'two'].map((slug) => ({ workspace: { slug } })),
    '/repositories/one': items('one', 110),
    '/repositories/two': items('two', 3),
    '/repositories/one/app-1/refs/branches': range(40).map((id) => ({
      ...{ name: `b-${id}`, target: { hash: `sha-${id}`, date: '2026-01-02' } },
    })),
  })
  fake.authorization = `Basic ${Buffer.from(`ann:${fakeToken}`).toString('base64')}`
  const { walk, call } = await openGitServer({ bitbucket: { token: `ann:${fakeToken}` } }, fake.fetch)
  expect(await walk('installations/search?provider=bitbucket', [1])).toEqual(['one', 'two'])
  const path = 'repositories/search?provider=bitbucket'
  const everywhere = await walk(path, [100, 3])
  expect(everywhere.map(({ full_name }) => full_name)).toEqual(
    [...items('one', 110), ...items('two', 3)].map(({ full_name }) => full_name),
  )
  expect(await walk(`${path}&installation_id=two`, [2])).toHaveLength(3)
  expect(await walk(`${path}&query=app-3`, [100])).toHaveLength(12)
  expect(await walk(`${path}&query=two/app-3`, [100])).toMatchObject([{ id: '{two-3}' }])
  const branches = 'branches/search?provider=bitbucket&repository=one/app-1&query='
  expect(await walk(branches, [30])).toHaveLength(40)
  expect(await walk(`${branches}b-4`, [30])).toMatchObject([{ name: 'b-4', commit_sha: 'sha-4' }, {}])
  expect((await call('users/git-info')).body).toMatchObject({ id: '1:2', login: 'ann', email: 'a@b.c' })
  expect(new Set(fake.requests.map(({ url }) => url.origin))).toEqual(new Set(['https://api.bitbucket.org']))
})

test('installations are listed in pages', async () => {
  const { walk } = await openGitServer(github, fakeGithub().fetch)
  expect(await walk('installations/search?provider=github', [50])).toEqual(range(120).map(String))
})

test('suggested tasks of all providers are those that need work', async () => {
  const hosts: Readonly<Record<string, FakeProvider>> = {
    'api.github.com': fakeGithub(),
    'git.example.org': fakeGitlab(),
  }
  const route: ProviderFetch = (url, init) => hosts[new URL(url).host]?.fetch(url, init) ?? Promise.reject()
  const { walk, call } = await openGitServer({ ...github, forgejo: { token: fakeToken }, ...gitlab }, route)
  const tasks = await walk('suggested-tasks/search?', [2])
  const row = ({ git_provider, task_type, repo, issue_number, title }: Record<string, unknown>) =>
    [git_provider, task_type, repo, issue_number, title].join(' ')
  expect(tasks.map(row)).toEqual([
    'github MERGE_CONFLICTS ann/project-1 1 PR 1',
    'github FAILING_CHECKS ann/project-1 2 PR 2',
    'github UNRESOLVED_COMMENTS ann/project-1 4 PR 4',
    'github OPEN_ISSUE acme/tool-1 9 Bug',
    'gitlab MERGE_CONFLICTS group/sub/app 1 MR',
    'gitlab FAILING_CHECKS group/sub/app 2 MR',
    'gitlab UNRESOLVED_COMMENTS group/sub/app 4 MR',
    'gitlab OPEN_ISSUE group/sub/app 5 Bug',
  ])
  const fake = hosts['git.example.org']
  if (fake !== undefined) fake.failures = { '/issues': () => new Response('', { status: 503 }) }
  // A part is never shown for the whole.
  expect((await call('git/suggested-tasks/search')).status).toBe(502)
})

test('git-info is the user of the first provider that answers', async () => {
  const fake = fakeGithub()
  const answers = await openGitServer({ gitlab: { token: 'other-token' }, ...github }, fake.fetch)
  expect((await answers.call('users/git-info')).body).toEqual({
    ...{ id: '7', login: 'ann', avatar_url: 'https://x/a.png', company: null, name: 'Ann' },
    email: 'ann@example.org',
  })
  fake.failures = { '/user/emails': () => new Response('', { status: 403 }) }
  expect((await answers.call('users/git-info')).body).toMatchObject({ login: 'ann', email: null })
  fake.failures = { 'github.com': () => new Response('', { status: 401 }) }
  const refused = { status: 401, body: { detail: 'Need valid provider token' } }
  expect(await answers.call('users/git-info')).toMatchObject(refused)
  fake.failures = { 'github.com': () => new Response('', { status: 500 }) }
  expect((await answers.call('users/git-info')).status).toBe(502)
  const other = await openGitServer(gitlab, fakeGitlab().fetch)
  expect((await other.call('users/git-info')).body).toEqual({
    ...{ id: '8', login: 'ann', avatar_url: '', company: 'Acme', name: 'A', email: 'a@b.c' },
  })
})
