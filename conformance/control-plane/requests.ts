/** A request that both servers get, in the order of the list: later ones see what earlier ones wrote. */
export interface ComparedRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** As the reference's OpenAPI document has it. */
  readonly route: string
  /** Values of its parameters; `{conversation_id}` and others that are not named get `unknownIds`. */
  readonly params?: Readonly<Record<string, string>>
  readonly query?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** Compares members and types alone: the servers know different models, files or machines. */
  readonly isShape?: true
}

type Rest = Omit<ComparedRequest, 'method' | 'route'>
const api = (route: string) => `/api/v1${route}`
const get = (route: string, query?: string, rest: Rest = {}): ComparedRequest => ({
  ...rest,
  ...(query === undefined ? {} : { query }),
  method: 'GET',
  route: route.startsWith('/-') ? route.slice(2) : api(route),
})
const send =
  (method: ComparedRequest['method']) =>
  (route: string, body?: unknown, rest: Rest = {}): ComparedRequest => ({
    ...rest,
    ...(body === undefined ? {} : { body }),
    method,
    route: api(route),
  })
const [post, put, patch, remove] = [send('POST'), send('PUT'), send('PATCH'), send('DELETE')]

const unknownId = '6ba7b810-9dad-11d1-80b4-00c04fd430c8'
export const unknownIds: Readonly<Record<string, string>> = {
  conversation_id: unknownId,
  sandbox_id: 'unknown-sandbox',
  id: 'unknown-sandbox',
  secret_name: 'UNKNOWN',
  secret_id: 'UNKNOWN',
  name: 'unknown',
}
const bad = { params: { conversation_id: 'no-uuid' } }
const conversation = '/app-conversations/{conversation_id}'
const message = { role: 'user', content: [{ type: 'text', text: 'Hello' }] }
const llm = { model: 'openai/gpt-4o', api_key: 'sk-of-the-comparison', temperature: 0.5 }
const named = (name: string): Rest => ({ params: { name } })
const secret = (secret_id: string): Rest => ({ params: { secret_id } })

const settings: readonly ComparedRequest[] = [
  post('/settings', { language: 'en' }),
  get('/settings'),
  get('/users/me'),
  post('/settings', {
    ...{ language: 'de', git_user_name: 'Ann', git_user_email: 'ann@example.org', disabled_skills: ['x'] },
    ...{ enable_sound_notifications: true, max_budget_per_task: 2.5, search_api_key: 'tvly-1' },
    ...{ user_consents_to_analytics: false, sandbox_grouping_strategy: 'ADD_TO_ANY' },
    agent_settings_diff: { llm },
    conversation_settings_diff: { max_iterations: 30, confirmation_mode: true },
  }),
  get('/settings'),
  get('/users/me'),
  get('/users/me', 'expose_secrets=true'),
  get('/users/me', 'expose_secrets=true', { headers: { 'X-Session-API-Key': 'wrong' } }),
  get('/users/me', 'expose_secrets=perhaps'),
  post('/settings', { agent_settings_diff: { llm: { temperature: 0.7 } }, search_api_key: null }),
  post('/settings', {
    registered_marketplaces: [{ name: 'team', source: 'github:example/skills', auto_load: true }],
  }),
  get('/settings'),
  post('/settings', { registered_marketplaces: [{ name: 'team' }] }),
  post('/settings', { agent_settings: { llm } }),
  post('/settings', { agent_settings_diff: { llm: { temperature: 'hot' } } }),
  post('/settings', { conversation_settings_diff: { max_iterations: 0 } }),
  post('/settings', []),
  get('/settings/agent-schema', undefined, { isShape: true }),
  get('/settings/conversation-schema', undefined, { isShape: true }),
]

const profiles: readonly ComparedRequest[] = [
  get('/settings/profiles'),
  post('/settings/profiles/{name}', undefined, named('first')),
  post('/settings/profiles/{name}', { llm: { model: 'openai/o3', api_key: 'sk-2' } }, named('second')),
  post('/settings/profiles/{name}', { llm: { model: 'openai/o3', unknown_member: 1 } }, named('third')),
  post('/settings/profiles/{name}', {}, named('bad name')),
  get('/settings/profiles'),
  get('/settings/profiles/{name}', undefined, named('second')),
  get('/settings/profiles/{name}'),
  post('/settings/profiles/{name}/activate', undefined, named('second')),
  post('/settings/profiles/{name}/activate'),
  post('/settings/profiles/{name}/rename', { new_name: 'renamed' }, named('second')),
  post('/settings/profiles/{name}/rename', { new_name: 'first' }, named('renamed')),
  post('/settings/profiles/{name}/rename', { new_name: 'other' }),
  post('/settings/profiles/{name}/rename', {}, named('first')),
  get('/settings/profiles'),
  get('/users/me'),
  remove('/settings/profiles/{name}', undefined, named('renamed')),
  remove('/settings/profiles/{name}'),
]

const secrets: readonly ComparedRequest[] = [
  get('/secrets/search'),
  post('/secrets', { name: 'FIRST', value: 'v1', description: 'The first' }),
  post('/secrets', { name: 'SECOND', value: 'v2' }),
  post('/secrets', { name: 'FIRST', value: 'v3' }),
  post('/secrets', { name: 'THIRD' }),
  get('/secrets/search'),
  get('/secrets/search', 'limit=1'),
  get('/secrets/search', 'limit=1&page_id=FIRST'),
  get('/secrets/search', 'name__contains=sec'),
  get('/secrets/search', 'limit=0'),
  get('/secrets/search', 'limit=101'),
  put('/secrets/{secret_id}', { name: 'RENAMED', description: 'Another' }, secret('SECOND')),
  put('/secrets/{secret_id}', { name: 'FIRST' }, secret('RENAMED')),
  put('/secrets/{secret_id}', { name: 'OTHER' }),
  put('/secrets/{secret_id}', {}, secret('FIRST')),
  get('/secrets/search'),
  remove('/secrets/{secret_id}', undefined, secret('FIRST')),
  remove('/secrets/{secret_id}'),
  post('/secrets/git-providers', { provider_tokens: { github: { host: 'github.example.org' } } }),
  post('/secrets/git-providers', { provider_tokens: { nowhere: { token: 'x' } } }),
  get('/settings'),
  remove('/secrets/git-providers'),
]

const sandboxes: readonly ComparedRequest[] = [
  get('/sandbox-specs/search', undefined, { isShape: true }),
  get('/sandbox-specs/search', 'limit=0'),
  get('/sandbox-specs', 'id=unknown'),
  get('/sandbox-specs'),
  get('/sandboxes/search'),
  get('/sandboxes/search', 'limit=1000'),
  get('/sandboxes', 'id=unknown&id=other'),
  get('/sandboxes'),
  get('/sandboxes', Array.from({ length: 101 }, (_, index) => `id=s${index}`).join('&')),
  post('/sandboxes', undefined, { query: 'sandbox_spec_id=unknown' }),
  post('/sandboxes/{sandbox_id}/pause'),
  post('/sandboxes/{sandbox_id}/resume'),
  remove('/sandboxes/{id}', undefined, { query: 'sandbox_id=unknown-sandbox' }),
  get('/sandboxes/{sandbox_id}/settings/secrets'),
  get('/sandboxes/{sandbox_id}/settings/secrets', undefined, { headers: { 'X-Session-API-Key': 'wrong' } }),
  get('/sandboxes/{sandbox_id}/settings/secrets/{secret_name}'),
]

const conversations: readonly ComparedRequest[] = [
  get('/app-conversations/search'),
  get('/app-conversations/search', 'limit=0'),
  get('/app-conversations/search', 'created_at__gte=yesterday'),
  get('/app-conversations/search', 'page_id=nonsense'),
  get('/app-conversations/count'),
  get('/app-conversations/count', 'title__contains=x'),
  get('/app-conversations', `ids=${unknownId}`),
  get('/app-conversations', 'ids=no-uuid'),
  get('/app-conversations', Array.from({ length: 101 }, () => `ids=${unknownId}`).join('&')),
  get('/app-conversations/start-tasks/search'),
  get('/app-conversations/start-tasks/search', 'sort_order=UPDATED_AT'),
  get('/app-conversations/start-tasks/search', 'sort_order=NONE'),
  get('/app-conversations/start-tasks/count'),
  get('/app-conversations/start-tasks', `ids=${unknownId}`),
  get('/app-conversations/start-tasks', 'ids=no-uuid'),
  post('/app-conversations', { initial_message: { content: 7 } }),
  post('/app-conversations', { selected_repository: 'a;b' }),
  post('/app-conversations', { trigger: 'nobody' }),
  post('/app-conversations/stream-start', { agent_type: 'nobody' }),
  patch(conversation, { title: 'New' }),
  patch(conversation, { title: 'New' }, bad),
  patch(conversation, { public: 'perhaps' }),
  patch(conversation, { selected_repository: 'a/b/c' }),
  remove(conversation),
  remove(conversation, undefined, bad),
  post(`${conversation}/send-message`, message),
  post(`${conversation}/send-message`, { content: [] }),
  post(`${conversation}/switch_profile`, { profile_name: 'first' }),
  post(`${conversation}/switch_profile`, { profile_name: '' }),
  post(`${conversation}/switch_acp_model`, { model: 'm' }),
  post(`${conversation}/switch_acp_model`, { model: '' }),
  post(`${conversation}/switch_acp_model`, { model: 'm' }, bad),
  get(`${conversation}/file`),
  get(`${conversation}/file`, undefined, bad),
  get(`${conversation}/git/changes`, 'path=/workspace'),
  get(`${conversation}/git/changes`),
  get(`${conversation}/git/diff`, 'path=/workspace/a'),
  get(`${conversation}/git/diff`),
  get(`${conversation}/skills`),
  get(`${conversation}/hooks`),
  get(`${conversation}/download`),
  get(`${conversation}/download`, undefined, bad),
  post('/conversations/{conversation_id}/pending-messages', message),
  post('/conversations/{conversation_id}/pending-messages', { content: [] }),
  get('/conversation/{conversation_id}/events/search'),
  get('/conversation/{conversation_id}/events/search', 'kind__eq=MessageEvent&sort_order=TIMESTAMP_DESC'),
  get('/conversation/{conversation_id}/events/search', 'limit=0'),
  get('/conversation/{conversation_id}/events/search', 'sort_order=NONE'),
  get('/conversation/{conversation_id}/events/search', 'kind__eq=NoEvent'),
  get('/conversation/{conversation_id}/events/search', 'timestamp__gte=yesterday'),
  get('/conversation/{conversation_id}/events/search', undefined, bad),
  get('/conversation/{conversation_id}/events/count'),
  get('/conversation/{conversation_id}/events', `id=${unknownId}`),
  get('/conversation/{conversation_id}/events', 'id=no-uuid'),
  get('/conversation/{conversation_id}/events'),
]

const others: readonly ComparedRequest[] = [
  post('/webhooks/conversations', {}),
  post('/webhooks/conversations', {}, { headers: { 'X-Session-API-Key': 'wrong' } }),
  post('/webhooks/events/{conversation_id}', []),
  post('/webhooks/events/{conversation_id}', [], { headers: { 'X-Session-API-Key': 'wrong' } }),
  get('/webhooks/secrets'),
  get('/webhooks/secrets', undefined, { headers: { 'X-Access-Token': 'wrong' } }),
  get('/skills/search', undefined, { isShape: true }),
  get('/skills/search', 'limit=0'),
  post('/skills/marketplace-skills', []),
  post('/skills/marketplace-skills', [{ name: 'a', source: 'no-repository' }]),
  post('/skills/marketplace-skills', [{ name: 'a' }]),
  post('/skills/marketplace-skills', {}),
  get('/web-client/config'),
  get('/users/git-info'),
  get('/git/installations/search', 'provider=github'),
  get('/git/installations/search'),
  get('/git/repositories/search', 'provider=github'),
  get('/git/repositories/search', 'provider=nowhere'),
  get('/git/branches/search', 'provider=github&repository=a/b&query=m'),
  get('/git/branches/search', 'provider=github'),
  get('/git/suggested-tasks/search'),
  get('/config/models/search', undefined, { isShape: true }),
  get('/config/models/search', 'limit=1', { isShape: true }),
  get('/config/models/search', 'query=no-such-model'),
  get('/config/models/search', 'provider__eq=anthropic&verified__eq=true', { isShape: true }),
  get('/config/models/search', 'limit=0'),
  get('/config/providers/search', 'limit=2', { isShape: true }),
  get('/config/providers/search', 'query=anthropic'),
  get('/config/providers/search', 'verified__eq=perhaps'),
  get('/no-such-route'),
  put('/settings', {}),
  get('/-/alive'),
  get('/-/health'),
  get('/-/ready'),
  get('/-/server_info', undefined, { isShape: true }),
]

export const comparedRequests: readonly ComparedRequest[] = [
  ...settings,
  ...profiles,
  ...secrets,
  ...sandboxes,
  ...conversations,
  ...others,
]
