import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RepositoryCode } from '@slipway/agent'
import { llm } from '@slipway/protocol'
import { makeDirectory } from '@slipway/shared/fs'
import { Secret } from '@slipway/shared/redaction'
import { systemClock } from '@slipway/shared/time'
import { Cipher, type DocumentStore } from '@slipway/storage'
import { AgentProfiles } from '../compat/agent-profiles/agent-profiles.ts'
import { ApplicationBackends } from '../compat/applications/application-backends.ts'
import { InstalledApplications } from '../compat/applications/installed-applications.ts'
import { CredentialBindings } from '../compat/credential-bindings/credential-bindings.ts'
import { MetaProfiles } from '../compat/meta-profiles/meta-profiles.ts'
import { ProviderConnections } from '../compat/provider-connections/provider-connections.ts'
import { WorkspacesList } from '../compat/saved-workspaces/workspaces-list.ts'
import { openSessionKey } from '../core/config/session-key.ts'
import { ServerSecrets } from '../core/secrets/server-secrets.ts'
import { ConsoleSessions } from '../core/server/console-sessions.ts'
import { InstalledExtensions } from '../modules/extensions/installed-extensions.ts'
import { ExportKey } from '../modules/formats/export-key.ts'
import { ScopedKeys } from '../modules/keys/scoped-keys.ts'
import { LlmProfiles } from '../modules/llm-profiles/llm-profiles.ts'
import { SubscriptionLogin } from '../modules/llm-profiles/subscription-login.ts'
import { RepositoryConsents } from '../modules/repository-consents/repository-consents.ts'
import { ServerSettings } from '../modules/settings/server-settings.ts'

/** A document of a server, or a file that it keeps beside its databases. */
export interface StoredFile {
  /** In the data directory; the name of a document. */
  readonly path: string
  /** Below `packages`: the module that reads and writes it. */
  readonly source: string
  readonly isDocument?: boolean
  /** Files of one kind may be read in each other's place: nothing in them says which is which. */
  readonly kind?: string
  /** Writes it for the first time. */
  readonly fill: () => Promise<unknown>
  readonly read: () => Promise<unknown>
  /** Changes it; `read` where a start alone reads it. */
  readonly write?: () => Promise<unknown>
}

/**
 * Modules that read or write files which are not the state of a server, and why damage to them is harmless.
 */
export const otherSources = {
  'agent-server/src/core/documents/document.ts': 'the documents of others, by openDocument',
  'agent-server/src/core/documents/json-file.ts': 'the files of others, by openJsonFile',
  'agent-server/src/modules/extensions/source-cache.ts': 'a cache, which is fetched again',
  'agent-server/src/core/conversations/lifecycle/message-images.ts': 'copies of pictures for programs',
  'agent-server/src/modules/maintenance/backup-manifest.ts': 'backups, with their own checksum',
  'sandbox-server/src/accounts/user-documents.ts': 'documents in control.db',
  'sandbox-server/src/backends/process/sandbox-record.ts': 'tested beside it',
  'storage/src/documents/file-document-store.ts': 'the files of others',
  'storage/src/documents/import-files.ts': 'files of earlier versions, which are read once',
} as const

/**
 * Every document of an agent server, and every file that it keeps beside its databases; a sandbox server has
 * the first.
 */
export async function openStoredFiles(
  directory: string,
  documents: DocumentStore,
): Promise<readonly StoredFile[]> {
  const cipher = await Cipher.open({ directory, secretKey: new Secret('a key for the stored files') })
  const at = (path: string) => join(directory, path)
  const fillWith = (path: string, value: unknown) => async () => {
    await makeDirectory(join(at(path), '..'))
    await writeFile(at(path), typeof value === 'string' ? value : JSON.stringify(value), { mode: 0o600 })
  }
  const put = (name: string, value: unknown) => async () => {
    const text = JSON.stringify(value)
    await documents.update('', name, () => (name.endsWith('.sealed') ? cipher.seal(text) : Buffer.from(text)))
  }
  const stored = [
    ...settingsDocuments(documents, cipher),
    ...profileDocuments(documents, cipher, put),
    consentsDocument(documents, cipher),
    {
      path: 'credential-bindings.json',
      source: 'agent-server/src/compat/credential-bindings/credential-bindings.ts',
      fill: put('credential-bindings.json', { conversations: ['c'] }),
      read: () => new CredentialBindings(documents).isMissing('c'),
    },
    {
      path: 'workspaces.json',
      source: 'agent-server/src/compat/saved-workspaces/workspaces-list.ts',
      fill: put('workspaces.json', {
        schema_version: 1,
        workspaces: [{ id: 'w', name: 'w', path: '/w' }],
        workspaceParents: [],
      }),
      read: () => new WorkspacesList({ documents }).read(),
      write: () => new WorkspacesList({ documents }).remove('/w'),
    },
  ]
  return [
    ...keyFiles(directory),
    ...stored.map((one) => ({ ...one, isDocument: true })),
    ...extensionFiles(directory, { at, fillWith }),
  ]
}

type Fill = (path: string, value: unknown) => () => Promise<void>

interface Helpers {
  readonly at: (path: string) => string
  readonly fillWith: Fill
}

function keyFiles(directory: string): StoredFile[] {
  const openKey = async () => {
    return (await Cipher.open({ directory, secretKey: undefined })).keyTexts
  }
  const openSession = async () => (await openSessionKey(directory, () => {})).key.reveal()
  const sessionKey = new Secret('the key of a server')
  const openSessions = () => ConsoleSessions.open(directory, () => [sessionKey])
  const addSession = async () =>
    await (await openSessions()).addSession(sessionKey.reveal(), 'console', Date.now() + 3_600_000)
  return [
    { path: 'secret.key', source: 'storage/src/crypto/cipher.ts', fill: openKey, read: openKey },
    {
      path: 'session.key',
      source: 'agent-server/src/core/config/session-key.ts',
      fill: openSession,
      read: openSession,
    },
    {
      path: 'console.sessions',
      source: 'agent-server/src/core/server/console-sessions.ts',
      fill: addSession,
      // Session keys are valid without it: a change alone is refused.
      read: async () => {
        const sessions = await openSessions()
        await sessions.addSession(sessionKey.reveal(), 'other', Date.now() - 1)
        return sessions.isSessionKey('console')
      },
    },
  ]
}

function settingsDocuments(documents: DocumentStore, cipher: Cipher): StoredFile[] {
  const settings = new ServerSettings({ documents, cipher })
  const secrets = new ServerSecrets({ documents, cipher })
  const change = () => settings.modify((stored) => ({ ...stored, misc_settings: { theme: 'dark' } }))
  const save = () => secrets.save('NAME', { value: 'value' })
  return [
    {
      path: 'settings.sealed',
      source: 'agent-server/src/modules/settings/server-settings.ts',
      fill: change,
      read: () => settings.read(),
      write: change,
    },
    {
      path: 'secrets.sealed',
      source: 'agent-server/src/core/secrets/server-secrets.ts',
      fill: save,
      read: () => secrets.readAll(),
      write: save,
    },
  ]
}

function profileDocuments(documents: DocumentStore, cipher: Cipher, put: Fill): StoredFile[] {
  const settings = new ServerSettings({ documents, cipher })
  const profiles = new LlmProfiles({ documents, cipher, settings })
  const connections = new ProviderConnections({
    documents,
    cipher,
    findUsers: async () => [],
  })
  const metaProfiles = new MetaProfiles({ documents, settings })
  const agentProfiles = new AgentProfiles({
    ...{ documents, cipher, llmProfiles: profiles, settings },
    findMetaProfile: async () => undefined,
    listUserSkills: async () => [],
  })
  const subscription = new SubscriptionLogin({
    ...{
      documents,
      cipher,
      clientId: 'client',
      issuer: 'http://127.0.0.1:9',
      modelsUrl: 'http://127.0.0.1:9',
    },
  })
  const readExportKey = async () => await (await ExportKey.open({ documents, cipher })).get()
  const keys = new ScopedKeys({ documents, cipher, clock: systemClock })
  const addKey = () =>
    keys.create({ name: 'one', scopes: ['read'], conversation_id: undefined, expires_at: undefined })
  const tokens = { access_token: 'a', refresh_token: 'r', expires_at: 4_000_000_000_000 }
  const connection = { display_name: 'd', provider: 'openai', api_key: 'k', base_url: null }
  return [
    {
      path: 'profiles/one.json',
      source: 'agent-server/src/modules/llm-profiles/llm-profiles.ts',
      fill: () => profiles.save('one', llm.parse({ model: 'openai/a', api_key: 'k' })),
      read: () => profiles.get('one'),
      write: () => profiles.activate('one'),
    },
    {
      path: 'export-key.sealed',
      source: 'agent-server/src/modules/formats/export-key.ts',
      fill: readExportKey,
      read: readExportKey,
    },
    {
      path: 'keys.sealed',
      source: 'agent-server/src/modules/keys/scoped-keys.ts',
      fill: addKey,
      read: () => keys.list(),
      write: addKey,
    },
    {
      path: 'provider-connections.sealed',
      source: 'agent-server/src/compat/provider-connections/provider-connections.ts',
      fill: () => connections.add(connection),
      read: () => connections.list(),
      write: () => connections.add(connection),
    },
    {
      path: 'subscription.sealed',
      source: 'agent-server/src/modules/llm-profiles/subscription-login.ts',
      fill: put('subscription.sealed', tokens),
      read: () => subscription.status(),
      write: () => subscription.start(),
    },
    {
      path: 'meta-profiles.json',
      source: 'agent-server/src/compat/meta-profiles/meta-profiles.ts',
      fill: put('meta-profiles.json', [{ name: 'rule', config: {} }]),
      read: () => metaProfiles.list(),
      write: () => metaProfiles.remove('rule'),
    },
    {
      path: 'agent-profiles.sealed',
      source: 'agent-server/src/compat/agent-profiles/agent-profiles.ts',
      fill: () => agentProfiles.list(),
      read: () => agentProfiles.list(),
      write: () => agentProfiles.remove('default'),
    },
  ]
}

function extensionFiles(directory: string, { at, fillWith }: Helpers): StoredFile[] {
  const row = {
    ...{ name: 'one', version: '1', description: 'd', source: '/s', installed_at: 't', enabled: true },
    ...{ tree: '00000000-0000-4000-8000-000000000000', ref: null, repo_path: null, resolved_ref: null },
  }
  const environment = {}
  const installed = (['skill', 'plugin'] as const).map((kind): StoredFile => {
    const folder = `${kind}s`
    const describe = async () => ({ issue: 'is not read' })
    const extensions = new InstalledExtensions({ directory: at(folder), kind, environment, describe })
    return {
      path: `${folder}/installed.json`,
      source: 'agent-server/src/modules/extensions/installed-extensions.ts',
      kind: 'extensions',
      fill: fillWith(`${folder}/installed.json`, [row]),
      read: () => extensions.list(),
      write: () => extensions.remove('one'),
    }
  })
  const applications = new InstalledApplications({
    ...{ directory: at('canvas-extensions'), environment },
    assertReplaceable: () => {},
    onReplace: async () => {},
  })
  const application = { install_path: directory, resolved_ref: 'r', manifest: { backend: {} } }
  const backends = new ApplicationBackends({
    ...{ directory: at('applications'), environment },
    find: async () => application as never,
    findSecret: async () => undefined,
  })
  const approval = { revision: 'r', manifest: 'm', platform: 'p', artifact_sha256: 's', artifact_dir: 'd' }
  return [
    ...installed,
    {
      path: 'canvas-extensions/installed/.installed.json',
      source: 'agent-server/src/compat/applications/installed-applications.ts',
      fill: fillWith('canvas-extensions/installed/.installed.json', {
        one: { ...row, requested_ref: null },
      }),
      read: () => applications.find('one'),
      write: () => applications.list(),
    },
    {
      path: 'applications/approvals/one.json',
      source: 'agent-server/src/compat/applications/application-backends.ts',
      fill: fillWith('applications/approvals/one.json', approval),
      read: () => backends.status('one'),
      write: () => backends.start('one', 'r'),
    },
  ]
}

function consentsDocument(documents: DocumentStore, cipher: Cipher): StoredFile {
  const consents = new RepositoryConsents({ documents, cipher, trust: 'ask' })
  const nothing = { issues: [] }
  const code: RepositoryCode = {
    ...{ repository: '/r', hash: 'h', hooksHash: undefined },
    items: [{ kind: 'hook', path: 'hooks.json', name: 'stop', command: 'true' }],
    hooks: { config: undefined, ...nothing },
    agents: { agents: [], ...nothing },
    rules: { rules: [], ...nothing },
  }
  return {
    path: 'repository-consents.sealed',
    source: 'agent-server/src/modules/repository-consents/repository-consents.ts',
    fill: () => consents.register(code),
    read: () => consents.list(),
    write: () => consents.register({ ...code, hash: 'another' }),
  }
}
