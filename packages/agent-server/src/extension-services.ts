import { join } from 'node:path'
import { extensionReaders } from '@slipway/agent'
import { OriginPool } from '@slipway/http'
import { type LogFunction, listSkillsRequest, type MarketplaceRegistration } from '@slipway/protocol'
import { ApplicationBackends } from './compat/applications/application-backends.ts'
import { ApplicationBridge } from './compat/applications/bridge/application-bridge.ts'
import { applicationHandlers } from './compat/applications/handlers.ts'
import { InstalledApplications } from './compat/applications/installed-applications.ts'
import type { ConversationRegistry } from './core/conversations/registry.ts'
import type { Ingress } from './core/server/ingress.ts'
import { InstalledExtensions } from './modules/extensions/installed-extensions.ts'
import { Marketplaces } from './modules/extensions/marketplaces.ts'
import { OrgSkills } from './modules/extensions/org-skills.ts'
import { pluginHandlers } from './modules/extensions/plugin-handlers.ts'
import { PluginList } from './modules/extensions/plugin-list.ts'
import { PublicSkills } from './modules/extensions/public-skills.ts'
import { ServerExtensions } from './modules/extensions/server-extensions.ts'
import { skillHandlers } from './modules/extensions/skill-handlers.ts'
import { SkillList } from './modules/extensions/skill-list.ts'
import { SourceCache } from './modules/extensions/source-cache.ts'

const retryMs = 30_000

interface ExtensionServicesOptions {
  /** Data directory of the server, unchanged before the first installation or fetch. */
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
  readonly homeDirectory: string | undefined
  readonly skillsSource: string | undefined
  readonly marketplaces: readonly MarketplaceRegistration[]
  readonly ingress: Ingress
  readonly applicationSessionMs: number
  readonly hasKeys: () => boolean
  /** Of the server, for programs of applications. */
  readonly findSecret: (name: string) => Promise<string | undefined>
  readonly log: LogFunction
}

/** Holds the programs of applications of a data directory. */
export function applicationDirectory(directory: string): string {
  return join(directory, 'canvas-extensions/backends')
}

/** Services for skills, plugins and applications, for conversations and handlers. Reads nothing yet. */
export function openExtensionServices(options: ExtensionServicesOptions) {
  const { directory, environment, homeDirectory, log } = options
  const subdirectory = (name: string) => join(directory, name)
  const shared = { environment, log }
  const collectionCache = new SourceCache({
    ...shared,
    directory: subdirectory('collections'),
    keepsAllCommits: false,
    retryMs,
  })
  const sourceCache = new SourceCache({
    ...shared,
    directory: subdirectory('fetched-plugins'),
    keepsAllCommits: true,
    retryMs: 0,
  })
  const skills = new InstalledExtensions({
    directory: subdirectory('skills'),
    kind: 'skill',
    environment,
    describe: async (folder) => await (await extensionReaders()).describeSkill(folder),
  })
  const plugins = new InstalledExtensions({
    directory: subdirectory('plugins'),
    kind: 'plugin',
    environment,
    describe: async (folder, signal) =>
      await (await extensionReaders()).readPlugin(folder, signal, {
        takesBareFolder: true,
        needsSchema: true,
      }),
  })
  const marketplaces = new Marketplaces({
    registrations: options.marketplaces,
    sourceCache: collectionCache,
    log,
  })
  const publicSkills = new PublicSkills({ source: options.skillsSource, sourceCache: collectionCache, log })
  const extensions = new ServerExtensions({
    ...{ skills, plugins, marketplaces, publicSkills, homeDirectory, sourceCache },
  })
  const orgSkills = new OrgSkills({ directory: subdirectory('org-skills'), environment, log })
  const skillList = new SkillList({ homeDirectory, log, extensions, publicSkills, orgSkills })
  const pluginList = new PluginList({
    ...{ homeDirectory, installed: plugins, marketplaces, publicSkills, log },
  })
  const backends = new ApplicationBackends({
    directory: applicationDirectory(directory),
    environment,
    find: async (name) => await applications.find(name),
    findSecret: options.findSecret,
  })
  const applications = new InstalledApplications({
    directory: subdirectory('canvas-extensions'),
    environment,
    assertReplaceable: () => backends.assertNoneRuns(),
    onReplace: async (name) => await backends.forgetApproval(name),
  })
  const bridge = new ApplicationBridge({
    ingress: options.ingress,
    sessionMs: options.applicationSessionMs,
    findReady: (name) => backends.findReady(name),
    hasKeys: options.hasKeys,
  })
  const origins = new OriginPool({ log })
  const userSkillsRequest = listSkillsRequest.parse({
    load_public: false,
    load_org: false,
    load_project: false,
  })
  return {
    extensions,
    applicationProxy: bridge.proxyRoute,
    /** The skills that every conversation of the user has. */
    userSkills: async (signal: AbortSignal) =>
      (await skillList.list({ ...userSkillsRequest, project: undefined }, signal)).skills,
    handlers: ({ registry }: { readonly registry: ConversationRegistry }) => ({
      ...skillHandlers({ skills: skillList, installed: skills, publicSkills, pluginList, marketplaces, log }),
      ...pluginHandlers({ plugins: pluginList, installed: plugins, marketplaces, registry }),
      ...applicationHandlers({ applications, backends, origins }),
      ...bridge.handlers,
    }),
    async [Symbol.asyncDispose]() {
      await Promise.all([
        collectionCache[Symbol.asyncDispose](),
        sourceCache[Symbol.asyncDispose](),
        backends[Symbol.asyncDispose](),
        origins[Symbol.asyncDispose](),
      ])
    },
  }
}
