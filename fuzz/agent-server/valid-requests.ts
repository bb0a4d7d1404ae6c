/**
 * One valid request for each operation of the agent server, in an order in which each finds what it needs.
 * They prove that the random requests reach real operations.
 */
export interface ValidRequest {
  /** Values of the path parameters. */
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** The body is a form with a file. */
  readonly isUpload?: true
  /** The body is lines of events. */
  readonly isLog?: true
  readonly headers?: Readonly<Record<string, string>>
  /** The expected status, when that is not 200 to 299: operations that this server has not enabled. */
  readonly status?: number
}

/** Requests by operation; some are built when it is their turn, from the results of earlier ones. */
export type ValidRequests = Readonly<Record<string, ValidRequest | (() => ValidRequest)>>

export interface ExistingResources {
  readonly conversation: string
  readonly event: string
  readonly directory: string
  /** A repository with two commits, a skill and a plugin inside. */
  readonly repository: string
  readonly commit: string
  readonly agentProfileId: () => string
  readonly connectionId: () => string
  readonly bashEventId: () => string
  /** Of a command of the conversation. */
  readonly conversationBashEventId: () => string
  readonly consentId: string
}

const llm = { model: 'scripted/fuzz', script: [{ text: 'Yes.' }] }

export function validRequests(resources: ExistingResources): ValidRequests {
  return {
    ...conversationRequests(resources),
    ...serverRequests,
    ...workspaceRequests(resources),
    ...scopedRequests(resources),
    ...extensionRequests(resources),
    ...applicationRequests(resources),
    ...modelRequests(resources),
    ...consentRequests(resources),
    ...settingsRequests(resources),
    ...finalRequests(resources),
  }
}

const serverRequests: ValidRequests = {
  alive: {},
  health: {},
  ready: {},
  serverInfo: {},
  root: {},
  getConsoleSession: {},
  startConsoleSession: { body: { key: 'wrong' }, status: 401 },
  endConsoleSession: { status: 401 },
  createConsoleToken: {},
  getInit: { status: 404 },
  postInit: { body: {}, status: 401 },
  listTools: {},
  compactStorage: {},
  getEditorStatus: {},
  getEditorUrl: { status: 503 },
  getDesktopUrl: { status: 503 },
  listCanvasExtensions: {},
  createApplicationLink: { params: { extension_name: 'none' }, status: 503 },
  createApplicationSession: { params: { extension_name: 'none' }, status: 503 },
  revokeApplicationSession: { params: { extension_name: 'none' }, status: 503 },
  getAutomation: { params: { path: 'v1' }, status: 503 },
  postAutomation: { params: { path: 'v1' }, body: {}, status: 503 },
}

function conversationRequests({ conversation, event, directory }: ExistingResources): ValidRequests {
  const params = { conversation_id: conversation }
  return {
    createConversation: {
      body: { agent: { llm }, workspace: { working_dir: directory } },
      headers: { 'x-slipway-wire': 'current' },
    },
    importConversation: { isLog: true },
    searchConversations: { query: { limit: '1', status: 'idle', sort_order: 'UPDATED_AT_DESC' } },
    countConversations: {},
    getConversations: { query: { ids: conversation } },
    getConversation: { params },
    patchConversation: { params, body: { title: 'Valid', tags: { a: 'b' } } },
    sendMessage: {
      params,
      body: { content: [{ type: 'text', text: 'Hello' }] },
      headers: { 'idempotency-key': 'a' },
    },
    runConversation: { params },
    interruptConversation: { params },
    pauseConversation: { params },
    updateSecrets: { params, body: { secrets: { A: 'b' } } },
    setConfirmationPolicy: { params, body: { policy: { kind: 'NeverConfirm' } } },
    setSecurityAnalyzer: { params, body: { security_analyzer: null } },
    askAgent: { params, body: { question: 'Why?' } },
    condenseConversation: { params, status: 409 },
    listCheckpoints: { params },
    getCheckpointDiff: { params: { ...params, checkpoint_id: '0'.repeat(40) }, status: 404 },
    restoreCheckpoint: { params: { ...params, checkpoint_id: '0'.repeat(40) }, status: 404 },
    finalResponse: { params },
    getRuntime: { params },
    reprovisionRuntime: { params },
    forkConversation: { params, body: { title: 'Copy' } },
    navigateConversation: { params, body: { event_id: event } },
    resumeGoal: { params, status: 400 },
    startGoal: { params, body: { objective: 'All of it', max_iterations: 1 } },
    stopGoal: { params },
    generateTitle: { params, body: { max_length: 20 } },
    switchLlm: { params, body: { llm } },
    switchAcpModel: { params, body: { model: 'x' }, status: 400 },
    exportConversation: { params, query: { meta: 'true' } },
    searchEvents: { params, query: { kind: 'MessageEvent', limit: '1' } },
    countEvents: { params },
    streamEvents: { params, query: { until: 'idle' } },
    readEventRange: { params, query: { first: '1' } },
    eventsOverview: { params },
    getModelView: { params },
    findEvents: { params, query: { kind: 'MessageEvent' } },
    searchConversationTexts: { query: { body: 'Valid' } },
    getEvents: { params, query: { ids: event } },
    respondToConfirmation: { params, body: { accept: false } },
    getEvent: { params: { ...params, event_id: event } },
    prepareForSandboxPause: {},
    // Its source is a closed port.
    activateCredentialBinding: {
      params: { ...params, secret_name: 'CODEX_AUTH_JSON' },
      body: { url: 'http://127.0.0.1:9/' },
      status: 502,
    },
  }
}

function workspaceRequests({
  conversation,
  directory,
  repository,
  commit,
  bashEventId,
}: ExistingResources): ValidRequests {
  const file = `${directory}/valid.txt`
  const tracked = `${repository}/tracked.txt`
  const params = { conversation_id: conversation }
  return {
    uploadFile: { query: { path: file }, isUpload: true },
    uploadFileTo: { params: { path: file }, isUpload: true },
    downloadFile: { query: { path: file } },
    downloadFileFrom: { params: { path: file } },
    createDirectory: { query: { path: `${directory}/made` } },
    createDirectoryAlias: { body: { path: `${directory}/made` } },
    downloadTrajectory: { params },
    archiveDirectory: { query: { path: directory, format: 'tar.gz' } },
    fileHome: {},
    searchRepositories: { query: { provider: 'github' } },
    searchSubdirectories: { query: { path: directory } },
    listDirectory: { query: { path: directory } },
    workspaceFile: { params: { ...params, path: 'valid.txt' } },
    workspaceRoot: { params, status: 404 },
    createWorkspaceTicket: { params, body: { path: 'valid.txt', expires_in_seconds: 5 } },
    startWorkspaceSession: {},
    endWorkspaceSession: {},
    startBashCommand: { body: { command: 'true' } },
    executeBashCommand: { body: { command: 'true', cwd: directory, timeout: 20 } },
    searchBashEvents: { query: { kind__eq: 'BashCommand' } },
    getBashEvent: () => ({ params: { event_id: bashEventId() } }),
    stopBashCommand: () => ({ params: { command_id: bashEventId() } }),
    getBashEvents: () => ({ query: { ids: bashEventId() } }),
    clearBashEvents: {},
    gitChanges: { query: { path: repository, ref: 'HEAD' } },
    gitDiff: { query: { path: tracked } },
    gitChangesOf: { params: { path: repository } },
    gitDiffOf: { params: { path: tracked } },
    gitCommits: { query: { path: repository, limit: '1' } },
    gitCommitChanges: { params: { sha: commit }, query: { path: repository } },
    addWorkspaces: { body: { workspaces: [{ id: 'w', name: 'w', path: directory }] } },
    addWorkspaceParents: { body: { parents: [{ id: 'p', name: 'p', path: directory }] } },
    listWorkspaces: {},
    removeWorkspace: { query: { path: directory } },
    removeWorkspaceParent: { query: { path: directory } },
  }
}

/** The routes below a conversation; the repository is in its workspace. */
function scopedRequests({
  conversation,
  directory,
  commit,
  conversationBashEventId,
}: ExistingResources): ValidRequests {
  const params = { runtime_conversation_id: conversation }
  const path = `${directory}/scoped.txt`
  const repository = `${directory}/repository`
  return {
    uploadConversationFile: { params, query: { path }, isUpload: true },
    downloadConversationFile: { params, query: { path } },
    listConversationDirectory: { params, query: { path: directory } },
    createConversationDirectory: { params, query: { path: `${directory}/made` } },
    archiveConversationDirectory: { params, query: { path: directory, format: 'tar.gz' } },
    downloadConversationTrajectory: { params: { ...params, conversation_id: conversation } },
    conversationGitChanges: { params, query: { path: repository, ref: 'HEAD' } },
    conversationGitDiff: { params, query: { path: `${repository}/tracked.txt` } },
    conversationGitCommits: { params, query: { path: repository, limit: '1' } },
    conversationGitCommitChanges: { params: { ...params, sha: commit }, query: { path: repository } },
    getConversationEditorStatus: { params },
    getConversationEditorUrl: { params, status: 503 },
    startConversationBashCommand: { params, body: { command: 'true' } },
    executeConversationBashCommand: { params, body: { command: 'true', timeout: 20 } },
    searchConversationBashEvents: { params, query: { kind__eq: 'BashCommand' } },
    getConversationBashEvent: () => ({ params: { ...params, event_id: conversationBashEventId() } }),
    stopConversationBashCommand: () => ({ params: { ...params, command_id: conversationBashEventId() } }),
    getConversationBashEvents: () => ({ params, query: { ids: conversationBashEventId() } }),
    clearConversationBashEvents: { params },
  }
}

/** Of an application without a program, which the cases of the conformance map start. */
function applicationRequests({ repository }: ExistingResources): ValidRequests {
  const params = { extension_name: 'fuzz-app' }
  const body = { revision: 'sha256:none' }
  return {
    installCanvasExtension: { body: { source: `${repository}/fuzz-app` } },
    getCanvasExtension: { params },
    enableCanvasExtension: { params, body: { enabled: true } },
    getCanvasExtensionBundle: { params },
    getCanvasExtensionIcon: { params },
    getCanvasExtensionBackend: { params },
    prepareCanvasExtensionBackend: { params, body, status: 409 },
    startCanvasExtensionBackend: { params, body, status: 409 },
    getCanvasExtensionBackendLogs: { params },
    stopCanvasExtensionBackend: { params },
    deleteCanvasExtensionBackendData: { params },
    uninstallCanvasExtension: { params },
  }
}

function extensionRequests({ conversation, repository }: ExistingResources): ValidRequests {
  const skill = { name: 'fuzz-skill' }
  const plugin = { name: 'fuzz-plugin' }
  return {
    listSkills: { body: { load_public: false, load_org: false, project_dir: repository } },
    syncSkills: {},
    installSkill: { body: { source: `${repository}/fuzz-skill` } },
    listInstalledSkills: {},
    getInstalledSkill: { params: skill },
    enableSkill: { params: skill, body: { enabled: false } },
    refreshSkill: { params: skill },
    uninstallSkill: { params: skill },
    listMarketplaceSkills: {},
    getHooks: { body: { project_dir: repository } },
    listPlugins: { body: { project_dir: repository } },
    installPlugin: { body: { source: `${repository}/fuzz-plugin` } },
    listInstalledPlugins: {},
    getInstalledPlugin: { params: plugin },
    enablePlugin: { params: plugin, body: { enabled: true } },
    refreshPlugin: { params: plugin },
    loadPlugin: {
      params: { conversation_id: conversation },
      body: { plugin_ref: 'none@nowhere' },
      status: 400,
    },
    uninstallPlugin: { params: plugin },
    listMarketplacePlugins: {},
    getToolCatalog: {},
    listSubAgents: { body: { project_dir: repository } },
  }
}

function consentRequests({ directory, consentId }: ExistingResources): ValidRequests {
  const params = { consent_id: consentId }
  return {
    inspectRepository: { body: { directory } },
    listRepositoryConsents: {},
    decideRepositoryConsent: { params, body: { decision: 'allow' } },
    revokeRepositoryConsent: { params },
  }
}

function modelRequests({ conversation, agentProfileId, connectionId }: ExistingResources): ValidRequests {
  const server = { type: 'stdio', command: '/nothing/there', args: [] }
  return {
    saveProfile: { params: { name: 'valid' }, body: { llm } },
    listProfiles: {},
    getProfile: { params: { name: 'valid' }, headers: { 'x-expose-secrets': 'encrypted' } },
    validateProfile: { params: { name: 'valid' }, body: { llm } },
    switchProfile: { params: { conversation_id: conversation }, body: { profile_name: 'valid' } },
    renameProfile: { params: { name: 'valid' }, body: { new_name: 'renamed' } },
    activateProfile: { params: { name: 'renamed' } },
    listModels: {},
    completeChat: { body: { model: 'openhands_renamed', messages: [{ role: 'user', content: 'Hi' }] } },
    createResponse: { body: { model: 'openhands_renamed', input: 'Hi' } },
    saveAgentProfile: {
      params: { name: 'valid' },
      body: { agent_kind: 'openhands', llm_profile_ref: 'renamed' },
    },
    listAgentProfiles: {},
    getAgentProfile: { params: { name: 'valid' } },
    materializeAgentProfile: { params: { name: 'valid' } },
    activateAgentProfile: () => ({ params: { profile_id: agentProfileId() } }),
    renameAgentProfile: { params: { name: 'valid' }, body: { new_name: 'renamed' } },
    deleteAgentProfile: { params: { name: 'renamed' } },
    deleteProfile: { params: { name: 'renamed' } },
    saveMetaProfile: {
      params: { name: 'valid' },
      body: { classifier_model: 'known', classes: [{ description: 'any', model: 'known' }] },
    },
    listMetaProfiles: {},
    getMetaProfile: { params: { name: 'valid' } },
    activateMetaProfile: { params: { name: 'valid' } },
    deleteMetaProfile: { params: { name: 'valid' } },
    createProviderConnection: { body: { display_name: 'Valid', api_key: 'x' } },
    listProviderConnections: {},
    updateProviderConnection: () => ({
      params: { connection_id: connectionId() },
      body: { display_name: 'Other' },
    }),
    deleteProviderConnection: () => ({ params: { connection_id: connectionId() } }),
    listLlmProviders: {},
    listLlmModels: { query: { provider: 'openai' } },
    listVerifiedModels: {},
    listSubscriptionModels: {},
    getSubscriptionStatus: {},
    startSubscriptionLogin: { status: 400 },
    pollSubscriptionLogin: { body: { device_code: 'x' }, status: 404 },
    endSubscription: {},
    discoverAcpModels: {
      body: { agent_settings: { agent_kind: 'acp', acp_server: 'custom', acp_command: ['/nothing/there'] } },
    },
    testMcpServer: { body: { server, timeout: 5 } },
    startMcpOAuth: {
      body: {
        server: { type: 'http', url: 'http://127.0.0.1:9/mcp', auth: { strategy: 'oauth2' } },
        timeout: 5,
      },
    },
    getMcpOAuthStatus: { params: { job_id: 'none' }, status: 404 },
    finishMcpOAuth: { params: { job_id: 'none' }, body: { callback_url: 'http://127.0.0.1/' }, status: 404 },
  }
}

function settingsRequests(_: ExistingResources): ValidRequests {
  return {
    getSettings: { headers: { 'x-expose-secrets': 'encrypted' } },
    updateSettings: { body: { misc_settings_diff: { fuzz: 1 } } },
    getAgentSettingsSchema: {},
    getConversationSettingsSchema: {},
    createMcpServer: { params: { settings_key: 'valid' }, body: { command: 'true' } },
    updateMcpServer: { params: { settings_key: 'valid' }, body: { enabled: false } },
    deleteMcpServer: { params: { settings_key: 'valid' } },
    saveSecret: { body: { name: 'VALID', value: 'x' } },
    listSecrets: {},
    getSecretValue: { params: { name: 'VALID' } },
    deleteSecret: { params: { name: 'VALID' } },
  }
}

function finalRequests({ conversation }: ExistingResources): ValidRequests {
  return { deleteConversation: { params: { conversation_id: conversation } } }
}
