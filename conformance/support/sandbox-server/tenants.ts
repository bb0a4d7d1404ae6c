import { randomUUID } from 'node:crypto'
import document from '../../../openapi/sandbox-server.json' with { type: 'json' }
import type { SandboxInfo, SandboxServer } from './server.ts'
import {
  administrator,
  createUser,
  createUserKey,
  type ListPage,
  openSandboxServer,
  textModel,
  type User,
  waitFor,
} from './user.ts'

/** Tenants of a sandbox server with an object of each kind, and every route to try on them. */

export interface Operation {
  readonly method: string
  readonly path: string
  readonly tag: string
  readonly query: readonly string[]
  readonly hasBody?: boolean
}

export const publicPaths = [
  '/alive',
  '/health',
  '/ready',
  '/server_info',
  '/api/v1/web-client/config',
  '/console/session',
]
export const sandboxTags = ['webhooks', 'sandbox secrets', 'sandbox budgets']
export const operations: readonly Operation[] = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(
    ([method, about]: [string, { tags: string[]; parameters?: Parameter[]; requestBody?: object }]) => ({
      method: method.toUpperCase(),
      path,
      tag: String(about.tags[0]),
      query: (about.parameters ?? []).filter((one) => one.in === 'query').map(({ name }) => name),
      hasBody: about.requestBody !== undefined,
    }),
  ),
)
interface Parameter {
  readonly in: string
  readonly name: string
}

/** Requests whose only possible error is an id. */
export interface OwnedResources {
  readonly sandbox: string
  readonly conversation: string
  readonly task: string
  readonly event: string
  readonly key: string
  readonly secret: string
  readonly profile: string
  readonly user: string
  readonly org: string
}

export const message = { content: [{ type: 'text', text: 'Of somebody else.' }] }
export const bodies: Readonly<Record<string, object>> = {
  'POST /api/v1/sandboxes/{sandbox_id}/exec': { command: 'true' },
  'PATCH /api/v1/app-conversations/{conversation_id}': { title: 'Taken over' },
  'POST /api/v1/app-conversations/{conversation_id}/send-message': message,
  'POST /api/v1/app-conversations/{conversation_id}/fork': {},
  'POST /api/v1/app-conversations/{conversation_id}/switch_profile': { profile_name: 'of-nobody' },
  'POST /api/v1/app-conversations/{conversation_id}/switch_acp_model': { model: 'of-nobody' },
  'POST /api/v1/conversations/{target}/pending-messages': message,
  'PUT /api/v1/secrets/{name}': { name: 'TAKEN_OVER' },
  'POST /api/v1/settings/profiles/{name}/rename': { new_name: 'taken-over' },
  'POST /api/v1/settings/profiles/{name}': { llm: textModel },
  'POST /api/organizations/{org_id}/profiles/{name}/rename': { new_name: 'taken-over' },
  'POST /api/organizations/{org_id}/profiles/{name}': { llm: textModel },
  'PUT /api/admin/quota/orgs/{org_id}/quota': { daily_conversation_limit: 1 },
  'PUT /api/admin/quota/users/{user_id}/quota': { daily_conversation_limit: 1 },
  'PATCH /api/admin/users/{user_id}': { name: 'Taken over' },
  'PATCH /api/admin/organizations/{org_id}': { name: 'Taken over' },
  'PUT /api/admin/budgets/{scope}/{target_id}': { monthly_limit: 1 },
  'POST /api/admin/budget-requests/{request_id}/grant': {},
  'POST /api/admin/budget-requests/{request_id}/deny': {},
  'PUT /api/v1/sandboxes/{sandbox_id}/budget/{reservation_id}': {
    ...{ model: 'm', input_tokens: 1, max_output_tokens: 1 },
    ...{ input_cost_micros: 1, output_cost_micros: 1 },
  },
  'POST /api/v1/sandboxes/{sandbox_id}/budget/{reservation_id}/settle': {
    ...{ input_tokens: 1, output_tokens: 1, cost_micros: 1 },
  },
  'PUT /api/admin/organizations/{org_id}/members/{user_id}': {},
  'PUT /api/admin/organizations/{org_id}/profiles/{name}': { llm: textModel },
  'PUT /api/admin/organizations/{org_id}/mcp-servers/{name}': { url: 'http://127.0.0.1:9/mcp' },
  'POST /api/keys/{key_id}/rotate': {},
  'POST /api/admin/users/{user_id}/keys/{key_id}/rotate': {},
  'PUT /api/v1/repository-consents/{consent_id}': { decision: 'allow' },
  'POST /api/service/users/{user_id}/orgs/{org_id}/api-keys': { name: 'of-nobody' },
}
/** Routes whose query names an object. */
export const identifyingQueries: Readonly<Record<string, (things: OwnedResources) => string>> = {
  'GET /api/v1/sandboxes': ({ sandbox }) => `id=${sandbox}`,
  'GET /api/v1/sandboxes/use': ({ sandbox }) => `id=${sandbox}`,
  'GET /api/v1/app-conversations': ({ conversation }) => `ids=${conversation}`,
  'GET /api/v1/app-conversations/start-tasks': ({ task }) => `ids=${task}`,
  'GET /api/v1/app-conversations/search': ({ sandbox }) => `sandbox_id__eq=${sandbox}`,
  'GET /api/v1/app-conversations/search_text': ({ sandbox }) => `body=a&sandbox_id__eq=${sandbox}`,
  'GET /api/v1/conversation/{conversation_id}/events/range': () => 'first=1',
  'GET /api/v1/app-conversations/count': ({ sandbox }) => `sandbox_id__eq=${sandbox}`,
  'GET /api/v1/app-conversations/start-tasks/search': ({ conversation }) =>
    `conversation_id__eq=${conversation}`,
  'GET /api/v1/app-conversations/start-tasks/count': ({ conversation }) =>
    `conversation_id__eq=${conversation}`,
  'GET /api/v1/conversation/{conversation_id}/events': ({ event }) => `id=${event}`,
  'GET /api/admin/sandboxes': ({ user }) => `user_id=${user}`,
  // Specs are public.
  'GET /api/v1/sandbox-specs': () => 'id=process',
  'GET /api/v1/app-conversations/{conversation_id}/files': () => 'path=.',
  'GET /api/v1/app-conversations/{conversation_id}/git/changes': () => 'path=.',
  'GET /api/v1/app-conversations/{conversation_id}/git/diff': () => 'path=a',
}
/** Queries that name no object of a user. */
export const harmlessQueryNames =
  /^(?:page_id|limit|sort_order|file_path|path|ref|(?:kind|source)(?:__eq)?|body|gzip|meta|(?:title|name)__contains|(?:timestamp|created_at|updated_at)__(?:gte|lt)|include_sub_conversations|expose_secrets|sandbox_spec_id|query|(?:verified|provider)__eq|provider|repository|installation_id|status)$/
/** Whether an answer refuses the key, not the want of a stored token of a Git provider. */
export function refusesKey(answer: { readonly status: number; readonly body: unknown }): boolean {
  const { status, body } = answer
  const lacksProvider = /Git provider (?:token required|not connected)/.test(JSON.stringify(body))
  return (status === 401 || status === 403) && !lacksProvider
}
/** A user may create a profile of any name. */
export const creatingRoutes = ['POST /api/v1/settings/profiles/{name}']

/** Creates one object of each kind. */
export async function createResources(server: SandboxServer, user: User): Promise<OwnedResources> {
  await user.setModel(textModel)
  const profile = `of-${user.id}`
  const secret = `OF_${user.id.replaceAll('-', '')}`
  const task = (await user.startConversation({ title: 'Mine', initial_message: { content: 'Of mine.' } })).at(
    -1,
  )
  if (task?.status !== 'READY') throw new Error(`the start ended with ${JSON.stringify(task)}`)
  const conversation = String(task?.app_conversation_id)
  await waitFor('the run is over', async () => {
    const path = `/api/v1/conversation/${conversation}/events/search?sort_order=TIMESTAMP_DESC&limit=1`
    const { items } = await user.get<ListPage<{ value?: string }>>(path)
    return items[0]?.value === 'finished' ? true : undefined
  })
  const page = await user.get<ListPage<{ id: string }>>(`/api/v1/conversation/${conversation}/events/search`)
  await user.requestOrThrow('POST', '/api/v1/secrets', { name: secret, value: 'value-of-mine' })
  await user.requestOrThrow('POST', `/api/v1/settings/profiles/${profile}`, { llm: textModel })
  const [key] = await user.get<{ id: string }[]>('/api/keys')
  const { id: org } = await administrator(server).requestOrThrow<{ id: string }>(
    'POST',
    '/api/admin/organizations',
    {
      name: 'An organisation',
    },
  )
  return {
    sandbox: String(task?.sandbox_id),
    conversation,
    task: String(task?.id),
    event: String(page.items[0]?.id),
    key: String(key?.id),
    secret,
    profile,
    user: user.id,
    org,
  }
}

export function unknownResources(): OwnedResources {
  return {
    sandbox: 'sb-000000000000000000000000',
    conversation: randomUUID().replaceAll('-', ''),
    task: randomUUID().replaceAll('-', ''),
    event: randomUUID(),
    key: randomUUID(),
    secret: 'NOT_THERE',
    profile: 'not-there',
    user: randomUUID(),
    org: randomUUID(),
  }
}

export function fillPath({ path, method }: Operation, resources: OwnedResources): string {
  const values: Readonly<Record<string, string>> = {
    sandbox_id: resources.sandbox,
    conversation_id: resources.conversation,
    target: resources.conversation,
    key_id: resources.key,
    user_id: resources.user,
    org_id: resources.org,
    scope: 'user',
    target_id: resources.user,
    // There is no request for more, and no model was called.
    request_id: randomUUID(),
    reservation_id: randomUUID(),
    // Consents come from repositories with scripts, which no start here names.
    consent_id: '0'.repeat(32),
    name: path.includes('profiles') ? resources.profile : resources.secret,
  }
  const query = identifyingQueries[`${method} ${path}`]?.(resources)
  const route = path.replaceAll(/\{(\w+)\}/g, (_, name) => values[name] ?? `no-value-for-${name}`)
  return query === undefined ? route : `${route}?${query}`
}

export const identifyingOperations = operations.filter(
  ({ method, path, tag, query }) =>
    !publicPaths.includes(path) &&
    !sandboxTags.includes(tag) &&
    (path.includes('{') ||
      `${method} ${path}` in identifyingQueries ||
      query.some((name) => !harmlessQueryNames.test(name))),
)

/** A reply without the ids of its request. */
export function withoutIds(value: unknown, resources: OwnedResources): string {
  return Object.values(resources).reduce((text, id) => text.replaceAll(id, '*'), JSON.stringify(value))
}

/** All objects of a user, without what reports may still change. */
export async function readAllResources(user: User, resources: OwnedResources): Promise<unknown> {
  const { sandbox, conversation, task } = resources
  const [keys, info] = [await user.get<object[]>('/api/keys'), await user.getConversation(conversation)]
  return {
    keys: keys.map((key) => ({ ...key, last_used_at: null })),
    // A report of its agent server may still be under way.
    info: { ...info, execution_status: null, metrics: null, updated_at: null },
    sandboxes: await user.listAll('/api/v1/sandboxes/search', 100),
    sandbox: await user.getSandbox(sandbox),
    tasks: await user.listAll('/api/v1/app-conversations/start-tasks/search', 100),
    task: await user.get(`/api/v1/app-conversations/start-tasks?ids=${task}`),
    events: await user.listAll(`/api/v1/conversation/${conversation}/events/search`, 100),
    secrets: await user.listAll('/api/v1/secrets/search', 100),
    profiles: await user.get('/api/v1/settings/profiles'),
    settings: await user.get('/api/v1/settings'),
    me: await user.get('/api/v1/users/me'),
    quota: await user.get('/api/quota/status'),
  }
}

/** A user with resources, the session key of their sandbox, and keys of several kinds. */
export interface Tenant {
  readonly user: User
  readonly resources: OwnedResources
  readonly sandbox: SandboxInfo
  /** Keys with few rights. */
  readonly reader: User
  readonly writer: User
  /** Bound to an organisation in which nothing of the resources is. */
  readonly bound: User
  /** Texts that no reply to others contains. */
  readonly secrets: readonly string[]
}

/** A server with two tenants and its administrator. */
export async function openSandboxFixture() {
  const fixture = await openSandboxServer()
  try {
    const { server } = fixture
    const tenants = [await createTenant(server, 'Ann'), await createTenant(server, 'Bea')] as const
    return { ...fixture, tenants, admin: administrator(server) }
  } catch (error) {
    await fixture[Symbol.asyncDispose]()
    throw error
  }
}

async function createTenant(server: SandboxServer, name: string): Promise<Tenant> {
  const user = await createUser(server, { name })
  const resources = await createResources(server, user)
  const sandbox = await user.waitForSandbox(resources.sandbox, 'RUNNING')
  await administrator(server).requestOrThrow(
    'PUT',
    `/api/admin/organizations/${resources.org}/members/${user.id}`,
  )
  const [reader, writer, bound] = [
    await createUserKey(server, user.id, { scopes: ['read'] }),
    await createUserKey(server, user.id, { scopes: ['write'] }),
    await createUserKey(server, user.id, { org_id: resources.org }),
  ]
  const secrets = [String(sandbox.session_api_key), user.key, 'value-of-mine']
  return { user, resources, sandbox, reader, writer, bound, secrets }
}
