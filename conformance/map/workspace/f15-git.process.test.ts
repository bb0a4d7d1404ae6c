import { once } from 'node:events'
import { appendFile, cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect } from 'vitest'
import { endFamily, mapCase } from '../frame.ts'
import { finishReply, type Json, OwnMapServer, openMapServer, toolReply, unknownId } from '../map-server.ts'

const server = openMapServer()

/** A stand-in for the API of GitHub. */
class GitHub implements AsyncDisposable {
  readonly #server: Server
  private constructor(server: Server) {
    this.#server = server
  }

  static async open(answer: RequestListener): Promise<GitHub> {
    const server = createServer(answer).listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new GitHub(server)
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
const plain = { autotitle: false }

interface Change {
  readonly status: string
  readonly path: string
}

/** Runs git commands in a folder, one after another. */
async function git(folder: string, ...commands: readonly string[]): Promise<string> {
  const prefix = `git -C '${folder}' -c user.name=t -c user.email=t@localhost -c commit.gpgsign=false`
  return await server.runCommand(commands.map((command) => `${prefix} ${command}`).join(' && '))
}

/** Two commits, a changed file and an untracked one. */
async function makeRepository(): Promise<string> {
  const folder = await mkdtemp(join(server.directory, 'repo-'))
  await mkdir(join(folder, 'src'))
  await writeFile(join(folder, 'README.md'), 'one\n')
  await writeFile(join(folder, 'src/app.py'), 'app\n')
  await git(folder, 'init -qb main', 'add .', 'commit -qm Initial')
  await writeFile(join(folder, 'src/util.py'), 'util\n')
  await git(folder, 'add .', 'commit -qm Util')
  await writeFile(join(folder, 'README.md'), 'two\n')
  await writeFile(join(folder, 'notes.txt'), 'notes\n')
  return folder
}

const changes = (path: string, query: Record<string, string> = {}) =>
  server.requestOrThrow<Change[]>('GET', '/api/git/changes', { query: { path, ...query } })
const diff = (path: string, query: Record<string, string> = {}) =>
  server.request<Json>('GET', '/api/git/diff', { query: { path, ...query } })
const commits = (path: string, query: Record<string, string> = {}) =>
  server.requestOrThrow<{ commits: Json[]; has_more: boolean }>('GET', '/api/git/commits', {
    query: { path, ...query },
  })
const hash = async (folder: string, revision: string) => (await git(folder, `rev-parse ${revision}`)).trim()

const usual = [
  { status: 'UPDATED', path: 'README.md' },
  { status: 'ADDED', path: 'notes.txt' },
]

mapCase('F15.auth', 'the routes need a key', async () => {
  for (const route of ['changes', 'diff', 'commits', 'commits/abcdef0/changes', 'repositories/search'])
    expect(await server.requestStatus('GET', `/api/git/${route}`, { isAnonymous: true }), route).toBe(401)
})

mapCase('F15.changes', 'changed and untracked files, sorted', async () => {
  expect(await changes(await makeRepository())).toEqual(usual)
})

mapCase('F15.changes-statuses', 'removed, added and renamed files', async () => {
  const folder = await makeRepository()
  await writeFile(join(folder, 'staged.txt'), 'staged\n')
  await git(folder, 'rm -q src/util.py', 'mv src/app.py src/main.py', 'add staged.txt')
  expect(await changes(folder)).toEqual([
    ...usual,
    { status: 'DELETED', path: 'src/app.py' },
    { status: 'ADDED', path: 'src/main.py' },
    { status: 'DELETED', path: 'src/util.py' },
    { status: 'ADDED', path: 'staged.txt' },
  ])
})

mapCase('F15.changes-base', 'the base that is shown follows from branch and remote', async () => {
  const folder = await makeRepository()
  await writeFile(join(folder, 'feat.txt'), 'feat\n')
  await git(folder, 'checkout -qb feature', 'add feat.txt', 'commit -qm Feature')
  expect(await changes(folder)).toContainEqual({ status: 'ADDED', path: 'feat.txt' })
  const bare = await mkdtemp(join(server.directory, 'bare-'))
  await git(bare, 'init -q --bare -b main')
  await git(
    folder,
    'stash -qu',
    `remote add origin '${bare}'`,
    'push -q origin main',
    'push -qu origin feature',
    'remote set-head origin main',
  )
  expect(await changes(folder)).toEqual([{ status: 'ADDED', path: 'feat.txt' }])
  // A file that git does not follow leaves the base as it is.
  await writeFile(join(folder, 'untracked.txt'), 'any\n')
  expect(await changes(folder)).toEqual([
    { status: 'ADDED', path: 'feat.txt' },
    { status: 'ADDED', path: 'untracked.txt' },
  ])
  await rm(join(folder, 'untracked.txt'))
  await appendFile(join(folder, 'feat.txt'), 'dirty\n')
  expect(await changes(folder)).toEqual([{ status: 'UPDATED', path: 'feat.txt' }])
})

mapCase('F15.changes-ref', 'a given base; invalid ones are 400', async () => {
  const folder = await makeRepository()
  expect(await changes(folder, { ref: 'HEAD' })).toEqual(usual)
  expect(await changes(folder, { ref: 'HEAD~1' })).toContainEqual({ status: 'ADDED', path: 'src/util.py' })
  for (const ref of ['unknown', '--output=/tmp/x'])
    expect(await server.requestStatus('GET', '/api/git/changes', { query: { path: folder, ref } })).toBe(400)
  expect(await server.requestStatus('GET', '/api/git/changes')).toBe(422)
})

mapCase('F15.changes-nested-repo', 'a repository inside is listed with its folder', async () => {
  const folder = await makeRepository()
  const nested = join(folder, 'nested')
  await mkdir(nested)
  await writeFile(join(nested, 'inner.txt'), 'one\n')
  await git(nested, 'init -qb main', 'add .', 'commit -qm Inner')
  await writeFile(join(nested, 'inner.txt'), 'two\n')
  const found = await changes(folder)
  expect(found).toContainEqual({ status: 'UPDATED', path: 'nested/inner.txt' })
  expect(found.map(({ path }) => path)).not.toContain('nested')
  expect((await diff(join(nested, 'inner.txt'))).body).toEqual({ original: 'one', modified: 'two' })
})

mapCase(
  'F15.changes-repo-below-path',
  'the only repository of a folder is listed with its name',
  async () => {
    const folder = await mkdtemp(join(server.directory, 'above-'))
    await cp(await makeRepository(), join(folder, 'only'), { recursive: true })
    expect((await changes(folder)).map(({ path }) => path)).toEqual(['only/README.md', 'only/notes.txt'])
  },
)

mapCase(
  'F15.changes-special-names',
  'names with blanks and letters of other languages',
  async () => {
    const folder = await makeRepository()
    const names = ['a b.txt', 'é.txt']
    for (const name of names) await writeFile(join(folder, name), 'one\n')
    await git(folder, 'add .', 'commit -qm Names')
    for (const name of names) await appendFile(join(folder, name), 'two\n')
    expect((await changes(folder)).map(({ path }) => path)).toEqual(expect.arrayContaining(names))
  },
  { faultThere: '400, or quoted' },
)

mapCase('F15.changes-subdir-paths', 'paths of a folder inside of a repository have one base', async () => {
  const folder = await makeRepository()
  await appendFile(join(folder, 'src/app.py'), 'more\n')
  await writeFile(join(folder, 'src/new.py'), 'new\n')
  const paths = (await changes(join(folder, 'src'))).map(({ path }) => path)
  const prefix = paths.some((path) => path.startsWith('src/')) ? 'src/' : ''
  expect(paths).toEqual(expect.arrayContaining([`${prefix}app.py`, `${prefix}new.py`]))
})

mapCase('F15.non-repo', 'what is no repository is empty', async () => {
  const folder = await mkdtemp(join(server.directory, 'plain-'))
  await writeFile(join(folder, 'a.txt'), 'a\n')
  for (const path of [folder, join(folder, 'missing')]) {
    expect(await changes(path)).toEqual([])
    expect(await commits(path)).toEqual({ commits: [], has_more: false })
  }
  expect(await diff(join(folder, 'a.txt'))).toMatchObject({
    status: 200,
    body: { original: null, modified: null },
  })
  await git(folder, 'init -qb main')
  expect(await changes(folder)).toEqual([{ status: 'ADDED', path: 'a.txt' }])
  expect((await commits(folder)).commits).toEqual([])
})

mapCase('F15.diff', 'base and present text; a given base', async () => {
  const folder = await makeRepository()
  expect((await diff(join(folder, 'README.md'))).body).toEqual({ original: 'one', modified: 'two' })
  expect((await diff(join(folder, 'notes.txt'))).body).toEqual({ original: '', modified: 'notes' })
  expect((await diff(join(folder, 'src/util.py'), { ref: 'HEAD~1' })).body).toEqual({
    original: '',
    modified: 'util',
  })
})

mapCase('F15.diff-commit', 'a file as one commit changed it', async () => {
  const folder = await makeRepository()
  const second = await hash(folder, 'HEAD')
  const first = await hash(folder, 'HEAD~1')
  const path = join(folder, 'src/util.py')
  for (const commit of [second, second.slice(0, 7)])
    expect((await diff(path, { commit })).body).toEqual({ original: '', modified: 'util' })
  expect((await diff(join(folder, 'README.md'), { commit: first })).body).toEqual({
    original: '',
    modified: 'one',
  })
})

mapCase('F15.diff-errors', 'each error has its status', async () => {
  const folder = await makeRepository()
  const path = join(folder, 'README.md')
  expect(await diff(path, { ref: 'HEAD', commit: 'abcdef0' })).toMatchObject({
    status: 400,
    body: { detail: "'ref' and 'commit' are mutually exclusive" },
  })
  expect((await diff(path, { commit: 'no-hex' })).status).toBe(422)
  expect((await diff(path, { commit: 'abcdef0' })).status).toBe(400)
  expect((await diff(path, { ref: 'unknown' })).status).toBe(400)
  expect((await diff(join(folder, 'missing.txt'))).status).toBe(400)
  await writeFile(join(folder, 'large.txt'), 'x'.repeat(1_048_577))
  expect((await diff(join(folder, 'large.txt'))).status).toBe(400)
  expect(await server.requestStatus('GET', '/api/git/diff')).toBe(422)
})

mapCase('F15.diff-whitespace', 'blanks at both ends are kept', async () => {
  const folder = await makeRepository()
  await writeFile(join(folder, 'blanks.txt'), '  indented\ntext\n\n\n')
  await git(folder, 'add blanks.txt', 'commit -qm Blanks')
  const { body } = await diff(join(folder, 'blanks.txt'))
  expect(body.original).toBe(body.modified)
})

mapCase('F15.diff-deleted-file', 'a removed file has its former text', async () => {
  const folder = await makeRepository()
  await git(folder, 'rm -q src/util.py')
  expect((await diff(join(folder, 'src/util.py'))).body).toEqual({ original: 'util', modified: '' })
})

mapCase('F15.commits', 'the history, newest first', async () => {
  const folder = await makeRepository()
  const found = await commits(folder)
  expect(found).toMatchObject({ commits: [{ subject: 'Util' }, { subject: 'Initial' }], has_more: false })
  const [newest] = found.commits
  expect(newest).toMatchObject({ sha: await hash(folder, 'HEAD'), author: 't' })
  expect(String(newest?.sha).startsWith(String(newest?.short_sha))).toBe(true)
  expect(newest?.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$/)
  expect(await commits(folder, { limit: '1' })).toMatchObject({
    commits: [{ subject: 'Util' }],
    has_more: true,
  })
  for (const limit of ['0', '201'])
    expect(await server.requestStatus('GET', '/api/git/commits', { query: { path: folder, limit } })).toBe(
      422,
    )
})

mapCase('F15.commit-changes', 'the files of one commit', async () => {
  const folder = await makeRepository()
  const files = (sha: string) =>
    server.request('GET', `/api/git/commits/${sha}/changes`, { query: { path: folder } })
  const second = await hash(folder, 'HEAD')
  for (const sha of [second, second.slice(0, 7)])
    expect((await files(sha)).body).toEqual([{ status: 'ADDED', path: 'src/util.py' }])
  expect((await files(await hash(folder, 'HEAD~1'))).body).toEqual([
    { status: 'ADDED', path: 'README.md' },
    { status: 'ADDED', path: 'src/app.py' },
  ])
  expect((await files('abcdef0')).status).toBe(400)
  for (const sha of ['no-hex', 'abc']) expect((await files(sha)).status).toBe(422)
})

async function scopedConversation() {
  const working_dir = await makeRepository()
  const { id } = await server.createConversation(undefined, { ...plain, workspace: { working_dir } })
  return { id, working_dir, path: `/api/conversations/${id}/git` }
}

mapCase('F15.scoped', 'the routes of a conversation answer as the global ones', async () => {
  const { working_dir, path } = await scopedConversation()
  const query = { path: working_dir }
  expect(await server.requestOrThrow('GET', `${path}/changes`, { query })).toEqual(usual)
  expect(await server.requestOrThrow('GET', `${path}/commits`, { query })).toEqual(await commits(working_dir))
})

mapCase('F15.scoped-guard', 'paths outside of the workspace are 422', async () => {
  const { working_dir, path } = await scopedConversation()
  await symlink('/etc', join(working_dir, 'escape'))
  for (const outside of [server.directory, `${working_dir}/..`, join(working_dir, 'escape'), 'relative'])
    expect(await server.requestStatus('GET', `${path}/changes`, { query: { path: outside } })).toBe(422)
  const unknown = `/api/conversations/${unknownId}/git/changes`
  expect(await server.requestStatus('GET', unknown, { query: { path: working_dir } })).toBe(404)
})

mapCase(
  'F15.scoped-restart',
  'they work after a restart',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k' })
    const working_dir = await makeRepository()
    const { id } = await own.createConversation(undefined, { ...plain, workspace: { working_dir } })
    await own.restart()
    const found = await own.requestOrThrow('GET', `/api/conversations/${id}/git/changes`, {
      query: { path: working_dir },
    })
    expect(found).toEqual(usual)
  },
  { hasOwnServer: true },
)
mapCase('F15.ts-client', 'the TypeScript client reads changes and differences', async () => {
  Object.assign(globalThis, { require: createRequire(import.meta.url) })
  const { HttpClient, RemoteWorkspace } = await import('@openhands/typescript-client')
  const folder = await makeRepository()
  const options = { host: server.url, apiKey: String(server.key), workingDir: folder }
  const workspace = new RemoteWorkspace(options)
  expect(await workspace.gitChanges(folder)).toEqual(usual)
  const since = await workspace.gitChanges(folder, { ref: 'HEAD~1' })
  expect(since).toContainEqual({ status: 'ADDED', path: 'src/util.py' })
  // The published client has no workspaces of conversations: its transport asks for their routes.
  const { id } = await server.createConversation(undefined, { ...plain, workspace: { working_dir: folder } })
  const http = new HttpClient({ baseUrl: server.url, apiKey: String(server.key) })
  const changesOf = (path: string) => http.get(`/api/conversations/${id}/git/changes`, { params: { path } })
  expect((await changesOf(folder)).data).toEqual(usual)
  await expect(changesOf('/')).rejects.toMatchObject({ status: 422 })
  const [name] = usual.filter(({ status }) => status === 'UPDATED').map(({ path }) => path)
  const file = join(folder, String(name))
  expect(await workspace.gitDiff(file)).toEqual((await diff(file)).body)
  const missing = { items: [], next_page_id: null, missing_token: true }
  expect((await http.get(searchPath, { params: { provider: 'github' } })).data).toEqual(missing)
})

mapCase('F15.agent-changes', 'what the agent wrote is a change of its conversation', async () => {
  const working_dir = await makeRepository()
  const write = { command: 'create', path: join(working_dir, 'agent.txt'), file_text: 'agent\n' }
  const model = await server.openModel(toolReply('file_editor', write), finishReply())
  const agent = { kind: 'Agent', llm: model.llm('chat'), tools: [{ name: 'file_editor' }] }
  const { id } = await server.createConversation(model, { ...plain, agent, workspace: { working_dir } })
  await server.sendMessage(id, 'Begin.', true)
  await server.waitForStatus(id, 'finished')
  const found = await server.requestOrThrow('GET', `/api/conversations/${id}/git/changes`, {
    query: { path: working_dir },
  })
  expect(found).toContainEqual({ status: 'ADDED', path: 'agent.txt' })
})

const repositories = (query: Record<string, string>) =>
  server.request<Json>('GET', '/api/git/repositories/search', { query })

mapCase(
  'F15.repo-search-token',
  'without a token the page says so; with one page ids are checked',
  async () => {
    const without = { items: [], next_page_id: null, missing_token: true }
    expect(await repositories({ provider: 'github' })).toMatchObject({ status: 200, body: without })
    const body = { name: 'github_token', value: 'ghp_sentinel' }
    await server.requestOrThrow('PUT', '/api/settings/secrets', { body })
    expect(await repositories({ provider: 'github', page_id: 'malformed' })).toMatchObject({
      status: 400,
      body: { detail: 'Invalid repository page_id' },
    })
    await server.requestOrThrow('DELETE', '/api/settings/secrets/github_token')
    expect((await repositories({ provider: 'github' })).body).toEqual(without)
  },
)

mapCase('F15.repo-search-errors', 'unsupported and unknown providers, and limits', async () => {
  for (const provider of ['gitlab', 'bitbucket']) expect((await repositories({ provider })).status).toBe(400)
  expect((await repositories({ provider: 'unknown' })).status).toBe(422)
  expect((await repositories({})).status).toBe(422)
  for (const limit of ['0', '101'])
    expect((await repositories({ provider: 'github', limit })).status).toBe(422)
})

/** A server whose GitHub is elsewhere, with a token. */
async function withGitHub(apiUrl: string, isProcess = true): Promise<OwnMapServer> {
  const own = await OwnMapServer.open({ key: 'k', env: { SLIPWAY_GITHUB_API_URL: apiUrl }, isProcess })
  const body = { name: 'github_token', value: 'ghp_sentinel' }
  await own.requestOrThrow('PUT', '/api/settings/secrets', { body })
  return own
}
const ownServer = { hasOwnServer: true }
const searchPath = '/api/git/repositories/search'

mapCase(
  'F15.repo-search-unreachable',
  'a provider that cannot be reached is 502',
  async () => {
    await using own = await withGitHub('http://127.0.0.1:9')
    const found = await own.request<Json>('GET', searchPath, { query: { provider: 'github' } })
    expect(found).toMatchObject({
      status: 502,
      body: { detail: 'Internal Server Error', exception: '502: GitHub repository search failed' },
    })
    expect(JSON.stringify(found) + own.output()).not.toContain('ghp_sentinel')
  },
  ownServer,
)
mapCase(
  'F15.repo-search-timeout',
  'a provider that does not answer is 504',
  async () => {
    await using silent = await GitHub.open(() => {})
    await using own = await withGitHub(silent.url)
    const startedMs = performance.now()
    const found = await own.request<Json>('GET', searchPath, { query: { provider: 'github' } })
    expect(found).toMatchObject({
      status: 504,
      body: { detail: 'Internal Server Error', exception: '504: GitHub repository search timed out' },
    })
    expect(performance.now() - startedMs).toBeGreaterThan(14_000)
    expect(JSON.stringify(found) + own.output()).not.toContain('ghp_sentinel')
  },
  ownServer,
)
mapCase(
  'F15.repo-search-github',
  'repositories of a real token',
  async () => {
    const names = [
      'One/Alpha',
      'one/beta',
      'two/ALPHA-next',
      ...Array.from({ length: 99 }, (_, n) => `x/r${n}`),
    ]
    await using github = await GitHub.open((request, response) => {
      const page = Number(new URL(request.url ?? '', 'http://localhost').searchParams.get('page'))
      const items = names.slice(100 * (page - 1), 100 * page).map((full_name, id) => ({
        ...{ id, full_name, private: id % 2 === 1, stargazers_count: id, default_branch: 'main' },
        pushed_at: '2026-01-01T00:00:00Z',
      }))
      const isKnown = request.headers.authorization === 'Bearer ghp_sentinel'
      response.writeHead(isKnown ? 200 : 401, { 'content-type': 'application/json' })
      response.end(JSON.stringify(isKnown ? items : { message: 'Bad credentials' }))
    })
    await using own = await withGitHub(github.url, false)
    const search = (query: Record<string, string>) =>
      own.requestOrThrow<{ items: Json[]; next_page_id: string | null }>('GET', searchPath, {
        query: { provider: 'github', ...query },
      })
    const first = await search({ limit: '2' })
    expect(first).toMatchObject({ missing_token: false, next_page_id: '1:2' })
    expect(first.items[0]).toEqual({
      ...{ id: '0', full_name: 'One/Alpha', git_provider: 'github', is_public: true, stargazers_count: 0 },
      ...{ pushed_at: '2026-01-01T00:00:00Z', main_branch: 'main' },
    })
    const found: unknown[] = []
    for (let page_id: string | null = ''; page_id !== null; ) {
      const page: Awaited<ReturnType<typeof search>> = await search({ limit: '40', page_id })
      found.push(...page.items.map(({ full_name }) => full_name))
      page_id = page.next_page_id
    }
    expect(found).toEqual(names)
    const named = await search({ query: 'aLPha' })
    expect(named.items.map(({ full_name }) => full_name)).toEqual(['One/Alpha', 'two/ALPHA-next'])
    const body = { name: 'github_token', value: 'ghp_other' }
    await own.requestOrThrow('PUT', '/api/settings/secrets', { body })
    expect(await own.request<Json>('GET', searchPath, { query: { provider: 'github' } })).toMatchObject({
      status: 401,
      body: { detail: 'GitHub repository search failed' },
    })
  },
  ownServer,
)

// One more case of this family is in `clients/python-sdk-elsewhere.ts`.
endFamily('F15', 27)
