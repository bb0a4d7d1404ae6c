import { join } from 'node:path'
import { extensionReaders } from '@slipway/agent'
import { type LogFunction, listSkillsRequest, type MarketplaceRegistration } from '@slipway/protocol'
import type { ConversationRegistry } from '../../core/conversations/registry.ts'
import { InstalledExtensions } from './installed-extensions.ts'
import { Marketplaces } from './marketplaces.ts'
import { OrgSkills } from './org-skills.ts'
import { pluginHandlers } from './plugin-handlers.ts'
import { PluginList } from './plugin-list.ts'
import { PublicSkills } from './public-skills.ts'
import { ServerExtensions } from './server-extensions.ts'
import { skillHandlers } from './skill-handlers.ts'
import { SkillList } from './skill-list.ts'
import { SourceCache } from './source-cache.ts'

const retryMs = 30_000

interface ExtensionsOptions {
  /** Data directory of the server, unchanged before the first installation or fetch. */
  readonly directory: string
  readonly environment: Readonly<Record<string, string>> & { readonly HOME?: string }
  readonly skillsSource: string | undefined
  readonly marketplaces: readonly MarketplaceRegistration[]
  readonly registry: ConversationRegistry
  readonly log: LogFunction
}

/** Services for skills and plugins, for conversations and handlers. Reads nothing yet. */
export function openExtensions(options: ExtensionsOptions) {
  const { directory, environment, registry, log } = options
  const homeDirectory = environment.HOME
  const caches = openCaches(options)
  const skills = new InstalledExtensions({
    directory: join(directory, 'skills'),
    kind: 'skill',
    environment,
    describe: async (folder) => await (await extensionReaders()).describeSkill(folder),
  })
  const plugins = new InstalledExtensions({
    directory: join(directory, 'plugins'),
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
    sourceCache: caches.collections,
    log,
  })
  const publicSkills = new PublicSkills({
    source: options.skillsSource,
    sourceCache: caches.collections,
    log,
  })
  const extensions = new ServerExtensions({
    ...{ skills, plugins, marketplaces, publicSkills, homeDirectory, sourceCache: caches.plugins },
  })
  const orgSkills = new OrgSkills({ directory: join(directory, 'org-skills'), environment, log })
  const skillList = new SkillList({ homeDirectory, log, extensions, publicSkills, orgSkills })
  const pluginList = new PluginList({
    ...{ homeDirectory, installed: plugins, marketplaces, publicSkills, log },
  })
  const userSkillsRequest = listSkillsRequest.parse({
    load_public: false,
    load_org: false,
    load_project: false,
  })
  return {
    extensions,
    /** The skills that every conversation of the user has. */
    userSkills: async (signal: AbortSignal) =>
      (await skillList.list({ ...userSkillsRequest, project: undefined }, signal)).skills,
    handlers: {
      ...skillHandlers({ skills: skillList, installed: skills, publicSkills, pluginList, marketplaces, log }),
      ...pluginHandlers({ plugins: pluginList, installed: plugins, marketplaces, registry }),
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(Object.values(caches).map((cache) => cache[Symbol.asyncDispose]()))
    },
  }
}

function openCaches({ directory, environment, log }: ExtensionsOptions) {
  const shared = { environment, log }
  return {
    collections: new SourceCache({
      ...shared,
      directory: join(directory, 'collections'),
      keepsAllCommits: false,
      retryMs,
    }),
    plugins: new SourceCache({
      ...shared,
      directory: join(directory, 'fetched-plugins'),
      keepsAllCommits: true,
      retryMs: 0,
    }),
  }
}
