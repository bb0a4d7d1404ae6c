/**
 * The requirements of existing clients on an agent server, row by row: section, priority, method, path,
 * promise. The method of sockets is WS, that of promises about several operations is ALL. P0: without it the
 * main path of a client breaks; P1: one of its features breaks. `requirements.test.ts` compares the cases
 * with this list, `print.ts` prints it with the results.
 */
const requirementTable = [
  ['health', 'P0', 'GET', '/alive', 'the process lives; no key'],
  ['health', 'P0', 'GET', '/health', 'every client polls it until 200; no key'],
  ['health', 'P0', 'GET', '/ready', 'whether it serves; no key'],
  ['health', 'P0', 'GET', '/server_info', 'version gate, tools, idle time; no key'],
  ['health', 'P1', 'GET', '/', 'server info, or the page when a site is served'],
  ['health', 'P1', 'GET', '/docs', 'page of the API'],
  ['health', 'P1', 'GET', '/redoc', 'page of the API, by its other name'],
  ['health', 'P1', 'GET', '/openapi.json', 'OpenAPI 3.1'],
  ['health', 'P0', 'ALL', 'authentication', '401 without the key, by header, on all of /api'],
  ['health', 'P0', 'ALL', 'CORS', 'loopback origins, preflight without a key, headers on errors too'],
  ['health', 'P0', 'ALL', 'errors', 'detail in every error, loc, msg and type in every 422'],

  [
    'conversations',
    'P0',
    'POST',
    '/api/conversations',
    'create: 201, known id 200, every member of the request',
  ],
  ['conversations', 'P0', 'GET', '/api/conversations/{id}', 'the whole info'],
  ['conversations', 'P0', 'GET', '/api/conversations', 'several by id, null for unknown ones'],
  ['conversations', 'P0', 'GET', '/api/conversations/search', 'pages, status, order'],
  ['conversations', 'P0', 'GET', '/api/conversations/count', 'a bare number'],
  ['conversations', 'P1', 'GET', '/api/conversations/{id}/runtime', 'available'],
  ['conversations', 'P0', 'PATCH', '/api/conversations/{id}', 'title and tags'],
  ['conversations', 'P0', 'DELETE', '/api/conversations/{id}', 'gone, its workspace stays'],
  ['conversations', 'P0', 'POST', '/api/conversations/{id}/run', '200 at once, 409 while running'],
  ['conversations', 'P0', 'POST', '/api/conversations/{id}/pause', 'after the current step'],
  ['conversations', 'P0', 'POST', '/api/conversations/{id}/interrupt', 'at once, every call answered'],
  ['conversations', 'P0', 'POST', '/api/conversations/{id}/secrets', 'strings, {value}, sources; not echoed'],
  ['conversations', 'P0', 'POST', '/api/conversations/{id}/confirmation_policy', 'shows in the info'],
  ['conversations', 'P0', 'POST', '/api/conversations/{id}/security_analyzer', 'an object or null'],
  ['conversations', 'P0', 'POST', '/api/conversations/{id}/ask_agent', 'a reply without events'],
  [
    'conversations',
    'P0',
    'POST',
    '/api/conversations/{id}/condense',
    'condenses the middle part, 4xx without a condenser',
  ],
  [
    'conversations',
    'P0',
    'GET',
    '/api/conversations/{id}/agent_final_response',
    'last finish or answer, or empty',
  ],
  ['conversations', 'P0', 'POST', '/api/conversations/{id}/fork', 'a copy, whole or up to an event'],
  [
    'conversations',
    'P0',
    'POST',
    '/api/conversations/{id}/navigate',
    'moves the leaf, null is the beginning',
  ],
  ['conversations', 'P0', 'POST', '/api/conversations/{id}/load_plugin', '404 for an unknown plugin'],
  [
    'conversations',
    'P1',
    'POST',
    '/api/conversations/{id}/switch_profile',
    'the model of a profile, 404 unknown',
  ],
  ['conversations', 'P1', 'POST', '/api/conversations/{id}/switch_llm', 'another model, history preserved'],
  ['conversations', 'P1', 'POST', '/api/conversations/{id}/switch_acp_model', '400 for an ordinary agent'],
  ['conversations', 'P1', 'POST', '/api/conversations/{id}/goal', 'runs until the judge is satisfied'],
  ['conversations', 'P1', 'POST', '/api/conversations/{id}/goal/stop', 'succeeds also without a goal'],
  [
    'conversations',
    'P1',
    'POST',
    '/api/conversations/{id}/goal/resume',
    '400 when there is nothing to resume',
  ],
  ['conversations', 'P0', 'GET', '/api/tools/', 'names of tools, with and without the slash'],
  ['conversations', 'P0', 'ALL', 'states', 'what each verb does in each state of a conversation'],
  ['conversations', 'P1', 'ALL', 'titles', 'written by a model after the first message, unless declined'],

  ['events', 'P0', 'GET', '/api/conversations/{id}/events/search', 'pages, filters, order, bounds'],
  ['events', 'P0', 'GET', '/api/conversations/{id}/events/count', 'a bare number with the same filters'],
  ['events', 'P0', 'GET', '/api/conversations/{id}/events/{event_id}', 'one event, 404 unknown'],
  ['events', 'P1', 'GET', '/api/conversations/{id}/events', 'several by id in the body or the query'],
  ['events', 'P0', 'POST', '/api/conversations/{id}/events', 'a message, run or not'],
  [
    'events',
    'P0',
    'POST',
    '/api/conversations/{id}/events/respond_to_confirmation',
    'accept or reject what waits',
  ],
  ['events', 'P0', 'ALL', 'events of a run', 'kinds, order and members that clients read'],

  ['socket', 'P0', 'WS', '/sockets/events/{id}', 'a snapshot first, then every event'],
  ['socket', 'P0', 'WS', '/sockets/events/{id} authentication', 'query, header, first frame; 4001'],
  ['socket', 'P0', 'WS', '/sockets/events/{id} resend', 'all, since a moment, none; in order and once'],
  ['socket', 'P0', 'WS', '/sockets/events/{id} refusals', '4004, bad id, bad mode'],
  [
    'socket',
    'P0',
    'WS',
    '/sockets/events/{id} messages',
    'a message in runs, an invalid frame is reported and harmless',
  ],
  ['socket', 'P0', 'WS', '/sockets/events/{id} end of a run', 'a snapshot after each run'],
  ['socket', 'P0', 'WS', '/sockets/events/{id} frames', 'below 1 MiB, whole over REST'],
  ['socket', 'P1', 'WS', '/sockets/events/{id} deltas', 'pieces of an answer when the model streams'],
  ['socket', 'P1', 'WS', '/sockets/bash-events', 'commands and their output, both ways'],

  ['bash', 'P0', 'POST', '/api/bash/start_bash_command', 'answers at once'],
  ['bash', 'P1', 'POST', '/api/bash/bash_commands/{command_id}/stop', 'ends a command'],
  ['bash', 'P0', 'GET', '/api/bash/bash_events/search', 'what is new since an order'],
  ['bash', 'P1', 'POST', '/api/bash/execute_bash_command', 'all of the output'],
  ['bash', 'P1', 'GET', '/api/bash/bash_events/{event_id}', 'one, 404 unknown'],
  ['bash', 'P1', 'GET', '/api/bash/bash_events/', 'several by id in the body'],
  ['bash', 'P1', 'DELETE', '/api/bash/bash_events', 'clears, with their number'],

  ['git', 'P0', 'GET', '/api/git/changes', 'changed files, [] without a repository'],
  ['git', 'P0', 'GET', '/api/git/diff', 'both sides of a file'],
  ['git', 'P1', 'GET', '/api/git/commits', 'history, newest first'],
  ['git', 'P1', 'GET', '/api/git/commits/{sha}/changes', 'changes of one commit'],

  ['files', 'P0', 'POST', '/api/file/upload', 'byte for byte; relative path 400'],
  ['files', 'P0', 'GET', '/api/file/download', 'octet-stream; 404 missing, 400 folder or relative'],
  ['files', 'P0', 'POST', '/api/file/create_directory', 'with parents, idempotent, both mounts'],
  ['files', 'P1', 'GET', '/api/file/home', 'home directory, favourites, locations'],
  ['files', 'P1', 'GET', '/api/file/search_subdirs', 'folders of a folder in pages'],
  ['files', 'P1', 'GET', '/api/file/download-trajectory/{id}', 'a zip without secrets'],

  ['workspace-static', 'P1', 'GET', '/api/conversations/{id}/workspace/{path}', 'files by header or cookie'],
  ['workspace-static', 'P1', 'POST', '/api/auth/workspace-session', '204 and a cookie'],
  ['workspace-static', 'P1', 'DELETE', '/api/auth/workspace-session', '204, the cookie is gone'],
  ['workspace-static', 'P1', 'GET', '/api/vscode/url', 'a url, null, or 503'],
  ['workspace-static', 'P1', 'GET', '/api/vscode/status', 'whether it runs'],

  ['skills', 'P0', 'POST', '/api/skills', 'all that there are, and from where'],
  ['skills', 'P1', 'POST', '/api/skills/sync', 'refreshes the public ones'],
  ['skills', 'P1', 'POST', '/api/skills/install', 'from a folder or a repository; 400, 409'],
  ['skills', 'P1', 'GET', '/api/skills/installed', 'list'],
  ['skills', 'P1', 'GET', '/api/skills/installed/{name}', 'one, 404'],
  ['skills', 'P1', 'PATCH', '/api/skills/installed/{name}', 'on and off, 404'],
  ['skills', 'P1', 'DELETE', '/api/skills/installed/{name}', 'gone, 404'],
  ['skills', 'P1', 'POST', '/api/skills/installed/{name}/refresh', 'fetched again, 404'],
  ['skills', 'P1', 'GET', '/api/skills/marketplace', 'list'],

  ['plugins', 'P1', 'POST', '/api/plugins', 'those of the user and the project'],
  ['plugins', 'P1', 'POST', '/api/plugins/install', 'from a folder or a repository; 400, 409'],
  ['plugins', 'P1', 'GET', '/api/plugins/installed', 'list'],
  ['plugins', 'P1', 'GET', '/api/plugins/installed/{name}', 'one, 404'],
  ['plugins', 'P1', 'PATCH', '/api/plugins/installed/{name}', 'on and off, 404'],
  ['plugins', 'P1', 'DELETE', '/api/plugins/installed/{name}', 'gone, 404'],
  ['plugins', 'P1', 'POST', '/api/plugins/installed/{name}/refresh', 'fetched again, 404'],
  ['plugins', 'P1', 'GET', '/api/plugins/marketplace', 'list'],
  ['plugins', 'P1', 'GET', '/api/canvas-extensions/installed', 'list, may be empty'],

  ['sub-agents', 'P1', 'POST', '/api/sub-agents', 'built-in ones and those of the project'],
  ['hooks', 'P1', 'POST', '/api/hooks', 'the hooks of a project, or null'],

  ['llm', 'P1', 'GET', '/api/llm/providers', 'sorted names'],
  ['llm', 'P1', 'GET', '/api/llm/models', 'sorted names, of one provider or all'],
  ['llm', 'P1', 'GET', '/api/llm/models/verified', 'by provider'],

  ['connections', 'P1', 'GET', '/api/llm/provider-connections', 'list without keys'],
  ['connections', 'P1', 'POST', '/api/llm/provider-connections', '201, unknown members 422'],
  ['connections', 'P1', 'PATCH', '/api/llm/provider-connections/{id}', 'a part; empty or null 422'],
  [
    'connections',
    'P1',
    'DELETE',
    '/api/llm/provider-connections/{id}',
    'the deleted one; 404; 409 while referred to',
  ],

  ['mcp', 'P1', 'POST', '/api/mcp/test', 'connects, lists tools, calls one'],
  ['mcp', 'P1', 'POST', '/api/mcp/oauth/start', 'a job or an error, always 200'],
  ['mcp', 'P1', 'GET', '/api/mcp/oauth/status/{job}', 'of an unknown job 404 or not ok'],
  ['mcp', 'P1', 'POST', '/api/mcp/oauth/callback/{job}', 'of an unknown job 404 or not ok'],

  ['settings', 'P0', 'GET', '/api/settings', 'masked, encrypted or plaintext'],
  ['settings', 'P1', 'PATCH', '/api/settings', 'merge patches, all or nothing'],
  ['settings', 'P1', 'GET', '/api/settings/agent-schema', 'sections of fields'],
  ['settings', 'P1', 'GET', '/api/settings/conversation-schema', 'sections of fields'],
  ['settings', 'P1', 'POST', '/api/settings/mcp/{key}', '201, 409 existing key'],
  ['settings', 'P1', 'PATCH', '/api/settings/mcp/{key}', 'a part, 404'],
  ['settings', 'P1', 'DELETE', '/api/settings/mcp/{key}', 'gone, 404'],
  ['settings', 'P0', 'GET', '/api/settings/secrets', 'names, never values'],
  ['settings', 'P0', 'GET', '/api/settings/secrets/{name}', 'the raw value as text'],
  ['settings', 'P1', 'PUT', '/api/settings/secrets', 'stored; an invalid name 422'],
  ['settings', 'P1', 'DELETE', '/api/settings/secrets/{name}', 'deleted, 404'],

  ['workspaces', 'P1', 'GET', '/api/workspaces', 'two lists in camel case'],
  ['workspaces', 'P1', 'POST', '/api/workspaces', 'added, once for a path'],
  ['workspaces', 'P1', 'DELETE', '/api/workspaces', 'by path'],
  ['workspaces', 'P1', 'POST', '/api/workspaces/parents', 'added'],
  ['workspaces', 'P1', 'DELETE', '/api/workspaces/parents', 'by path'],

  ['profiles', 'P1', 'GET', '/api/profiles', 'list without keys, the active one'],
  ['profiles', 'P0', 'GET', '/api/profiles/{name}', 'key null unless exposed'],
  ['profiles', 'P1', 'POST', '/api/profiles/{name}', '201, bad name 422'],
  ['profiles', 'P0', 'POST', '/api/profiles/{name}/validate', 'valid or not, never the key'],
  ['profiles', 'P1', 'DELETE', '/api/profiles/{name}', 'idempotent; 409 while referred to'],
  ['profiles', 'P1', 'POST', '/api/profiles/{name}/rename', 'references follow; 404, 409'],
  ['profiles', 'P1', 'POST', '/api/profiles/{name}/activate', 'the settings follow; 404'],

  ['agent-profiles', 'P1', 'GET', '/api/agent-profiles', 'list, the active one'],
  ['agent-profiles', 'P1', 'GET', '/api/agent-profiles/{name}', 'one, 404'],
  ['agent-profiles', 'P1', 'POST', '/api/agent-profiles/{name}', '201, id preserved, revision counted'],
  ['agent-profiles', 'P1', 'DELETE', '/api/agent-profiles/{name}', 'idempotent'],
  ['agent-profiles', 'P1', 'POST', '/api/agent-profiles/{name}/rename', '404, 409'],
  ['agent-profiles', 'P1', 'POST', '/api/agent-profiles/{id}/activate', 'by uuid; 404'],
  ['agent-profiles', 'P1', 'POST', '/api/agent-profiles/{name}/materialize', 'diagnostics'],

  ['gateway', 'P2', 'GET', '/v1/models', 'one for each profile'],
  ['gateway', 'P2', 'POST', '/v1/chat/completions', 'a conversation by another name'],
  ['gateway', 'P2', 'POST', '/v1/responses', 'one answer of a new conversation'],

  ['aliases', 'P0', 'POST', '/api/conversations/{id}/generate_title', 'a title, not stored'],
  ['aliases', 'P0', 'GET', '/api/git/changes/{path}', 'path in the URL, encoded or not'],
  ['aliases', 'P0', 'GET', '/api/git/diff/{path}', 'path in the URL, encoded or not'],
  ['aliases', 'P0', 'POST', '/api/file/upload/{path}', 'path in the URL, a double slash too'],
  ['aliases', 'P0', 'GET', '/api/file/download/{path}', 'path in the URL, a double slash too'],

  ['python-sdk', 'P0', 'ALL', 'A.1 attach', '404 means create; the info it validates'],
  ['python-sdk', 'P0', 'ALL', 'A.1 create', 'the request it sends'],
  ['python-sdk', 'P0', 'ALL', 'A.1 history', 'pages until there is no next; every item validates'],
  ['python-sdk', 'P0', 'ALL', 'A.1 socket', 'auth frame, a state update first'],
  ['python-sdk', 'P0', 'ALL', 'A.1 run', 'message, run, the snapshot that ends it'],
  ['python-sdk', 'P0', 'ALL', 'A.1 state', 'members from either source'],
  ['python-sdk', 'P0', 'ALL', 'A.1 others', 'the other calls of its conversation'],
  ['python-sdk', 'P0', 'ALL', 'A.2 workspace', 'health, commands, files, git, settings, secrets'],
  [
    'older-clients',
    'P0',
    'ALL',
    'A.3 third-party client',
    'create, socket, history, files by URL, bash pages',
  ],
  [
    'older-clients',
    'P0',
    'ALL',
    'A.4 old GUI and app server',
    'socket with resend_all, files and git by URL',
  ],
  ['older-clients', 'P0', 'ALL', 'A.5 automation', 'commands, files, final response, counts'],
] as const satisfies readonly (readonly [string, 'P0' | 'P1' | 'P2', string, string, string])[]

type ToRequirementId<R> = R extends readonly [
  string,
  string,
  infer M extends string,
  infer P extends string,
  string,
]
  ? `${M} ${P}`
  : never

/** The id by which a case names its row: method and path. */
export type RequirementId = ToRequirementId<(typeof requirementTable)[number]>

export interface Requirement {
  readonly id: string
  readonly section: string
  readonly priority: 'P0' | 'P1' | 'P2'
  readonly method: string
  readonly path: string
  readonly what: string
}

export const requirements: readonly Requirement[] = requirementTable.map(
  ([section, priority, method, path, what]) => ({
    id: `${method} ${path}`,
    section,
    priority,
    method,
    path,
    what,
  }),
)
