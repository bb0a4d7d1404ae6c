import { createApp, listen } from '@slipway/http'
import { gitProviderRoutes } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import { expect, onTestFinished } from 'vitest'
import { gitTokens } from '../../accounts/git-providers.ts'
import { issueApiKey } from '../../auth/api-keys.ts'
import { Authenticator } from '../../auth/authenticator.ts'
import { openTestControlPlane } from '../../testing/fixtures.ts'
import { gitHandlers } from '../handlers.ts'
import type { ProviderFetch } from '../provider-api.ts'
import { connection, FakeProvider, fakeToken } from './fake-provider.ts'

type Tokens = Readonly<Record<string, { readonly token?: string; readonly host?: string }>>
const all = ['read', 'write', 'admin'] as const
const org = '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0caa'

/** A server of the git routes: `ann` is a user, `root` administers it, `bound` an organisation alone. */
export async function openGitServer(tokens: Tokens, fetch?: ProviderFetch, clock = systemClock) {
  const trial = await openTestControlPlane()
  const { users } = trial.controlPlane
  const now = () => Date.now() * 1000
  const limits = { daily_conversation_limit: null, created_at: 1 }
  await users.addOrg({ id: org, name: 'A', ...limits })
  const keys: Record<string, string> = {}
  for (const id of ['ann', 'root', 'bound']) {
    const isBound = id === 'bound'
    const more = { org: isBound ? org : null, is_admin: id !== 'ann', ...limits }
    await users.addUser({ id, name: id, email: null, ...more })
    if (isBound) await users.addMember(org, id)
    const request = { scopes: all, org_id: isBound ? org : undefined }
    keys[id] = (await issueApiKey(users, id, request, now())).key
  }
  const authenticator = new Authenticator({
    ...{ users, keys: [], now },
    sandboxes: { findByKey: async () => undefined },
  })
  const handlers = gitHandlers({
    gitProviders: { readTokens: async () => gitTokens(tokens) },
    clock,
    ...(fetch && { fetches: { public: fetch, any: fetch } }),
  })
  const logged: string[] = []
  const app = createApp(gitProviderRoutes, handlers, {
    identify: authenticator.authenticate.bind(authenticator),
    log: (...line) => void logged.push(JSON.stringify(line)),
  })
  const listening = await listen(app, { host: '127.0.0.1', port: 0, stopMs: 200 })
  onTestFinished(async () => {
    await listening.close()
    await trial[Symbol.asyncDispose]()
    expect(logged.join('\n')).not.toContain(fakeToken)
    expect(logged.filter((line) => line.startsWith('["error"'))).toEqual([])
  })
  const call = async (path: string, who = 'ann', sent?: unknown) => {
    const headers = { authorization: `Bearer ${keys[who] ?? 'none'}`, 'content-type': 'application/json' }
    const init = sent === undefined ? { headers } : { method: 'POST', headers, body: JSON.stringify(sent) }
    const response = await globalThis.fetch(`${listening.url}/api/v1/${path}`, init)
    const text = await response.text()
    expect(text).not.toContain(fakeToken)
    const retryAfter = response.headers.get('retry-after')
    return { status: response.status, body: JSON.parse(text), retryAfter }
  }
  /** All items, with another limit for each page. */
  const walk = async (path: string, limits: readonly number[]) => {
    const items: Record<string, unknown>[] = []
    let pageId: string | null = ''
    for (let page = 0; pageId !== null; page++) {
      // A walk ends.
      expect(page).toBeLessThan(300)
      const limit = limits[page % limits.length]
      const { status, body } = await call(`git/${path}&limit=${limit}&page_id=${pageId}`)
      expect([status, body.detail]).toEqual([200, undefined])
      expect(body.items.length).toBeLessThanOrEqual(limit ?? 0)
      items.push(...body.items)
      pageId = body.next_page_id
    }
    return items
  }
  return { call, walk }
}

export const range = (count: number) => Array.from({ length: count }, (_, index) => index + 1)
const ofAnn = { type: 'User', login: 'ann' }
export const repositories = range(250).map((id) => ({
  ...{ id, full_name: `ann/project-${id}`, private: id % 2 === 0, default_branch: 'main' },
  ...{ stargazers_count: id, pushed_at: '2026-01-02T03:04:05Z', owner: ofAnn },
}))
export const ofOrganization = range(3).map((id) => ({
  ...{
    id: 1000 + id,
    full_name: `acme/tool-${id}`,
    private: true,
    owner: { type: 'Organization', login: 'acme' },
  },
}))
export const branches = range(230).map((id) => ({
  name: `b-${id}`,
  commit: { sha: `sha-${id}` },
  protected: id === 1,
}))
const pull = (number: number, members: object) => ({
  ...{
    number,
    title: `PR ${number}`,
    mergeable: 'MERGEABLE',
    repository: { nameWithOwner: 'ann/project-1' },
  },
  ...{
    commits: { nodes: [{ commit: { statusCheckRollup: null } }] },
    reviews: { totalCount: 0 },
    ...members,
  },
})
const failing = { nodes: [{ commit: { statusCheckRollup: { state: 'FAILURE' } } }] }
const pulls = [
  pull(1, { mergeable: 'CONFLICTING', commits: failing }),
  pull(2, { commits: failing }),
  pull(3, {}),
  pull(4, { reviews: { totalCount: 2 } }),
]

export function fakeGithub() {
  return new FakeProvider(
    {
      '/user': [{ id: 7, login: 'ann', avatar_url: 'https://x/a.png', name: 'Ann', email: null }],
      '/user/emails': [
        { email: 'old@example.org', primary: false, verified: true },
        { email: 'ann@example.org', primary: true, verified: true },
      ],
      '/user/orgs': [{ login: 'acme' }, { login: 'other' }],
      '/user/repos': [...repositories, ...ofOrganization],
      '/user/installations': range(120).map((id) => ({ id })),
      '/user/installations/5/repositories': ofOrganization,
      '/search/repositories': [...repositories, ...ofOrganization],
      '/repos/ann/project-1': [repositories[0] ?? {}],
      '/repos/ann/project-1/branches': branches,
      '/issues': [
        { number: 9, title: 'Bug', repository: { full_name: 'acme/tool-1' } },
        { number: 1, title: 'PR 1', repository: { full_name: 'ann/project-1' }, pull_request: {} },
      ],
    },
    (query, { after, text }) => {
      if (query.includes('pullRequests'))
        return { data: { viewer: { pullRequests: connection(pulls, after, 3) } } }
      const found = branches.filter(({ name }) => name.includes(String(text)))
      const nodes = found.map(({ name, commit, protected: isProtected }) => ({
        ...{ name, refUpdateRule: isProtected ? { pattern: name } : null },
        target: { oid: commit.sha, committedDate: '2026-01-02T03:04:05Z' },
      }))
      return { data: { repository: { refs: connection(nodes, after, 100) } } }
    },
  )
}

export function fakeGitlab() {
  const request = { iid: '1', title: 'MR', project: { fullPath: 'group/sub/app' }, headPipeline: null }
  const requests = [
    { ...request, conflicts: true },
    { ...request, iid: '2', headPipeline: { status: 'FAILED' } },
    { ...request, iid: '3', headPipeline: { status: 'SUCCESS' } },
    { ...request, iid: '4', resolvableDiscussionsCount: 3, resolvedDiscussionsCount: 2 },
  ]
  const projects = range(130).map((id) => ({
    ...{ id, path_with_namespace: `group/sub/app-${id}`, visibility: 'public', namespace: { kind: 'group' } },
    ...{ star_count: 2, default_branch: 'main', last_activity_at: '2026-01-02T03:04:05Z' },
  }))
  return new FakeProvider(
    {
      '/user': [
        { id: 8, username: 'ann', avatar_url: null, organization: 'Acme', name: 'A', email: 'a@b.c' },
      ],
      '/projects': projects,
      '/projects/group%2Fsub%2Fapp-1': [projects[0] ?? {}],
      '/projects/group%2Fsub%2Fapp-1/repository/branches': range(40).map((id) => ({
        ...{ name: `feature-${id}`, commit: { id: `sha-${id}`, committed_date: '2026-01-02' } },
      })),
      '/issues': [{ iid: 5, title: 'Bug', references: { full: 'group/sub/app#5' } }],
    },
    (_, { after }) => ({ data: { currentUser: { authoredMergeRequests: connection(requests, after, 2) } } }),
  )
}

export const github = { github: { token: fakeToken } }
export const gitlab = { gitlab: { token: fakeToken, host: 'https://git.example.org/sub/' } }
