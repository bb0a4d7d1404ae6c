import { join } from 'node:path'
import { extensionReaders } from '@slipway/agent'
import { type Log, listSkillsRequest, type MarketplaceRegistration } from '@slipway/protocol'
import type { Agents } from './conversations/registry.ts'
import { type Described, Installed } from './extensions/installed-extensions.ts'
import { Marketplaces } from './extensions/marketplaces.ts'
import { OrgSkills } from './extensions/org-skills.ts'
import { PluginList } from './extensions/plugin-list.ts'
import { PublicSkills } from './extensions/public-skills.ts'
import { ServerExtensions } from './extensions/server-extensions.ts'
import { SkillList } from './extensions/skill-list.ts'
import { SkillSync } from './extensions/skill-sync.ts'
import { Fetched } from './extensions/source-cache.ts'
import { pluginHandlers } from './handlers/extensions/plugins.ts'
import { skillHandlers } from './handlers/extensions/skills.ts'

const retryMs = 30_000

interface Options {
  /** Of the server's data; nothing is in it before something is installed or fetched. */
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
  readonly home: string | undefined
  readonly skillsSource: string | undefined
  readonly marketplaces: readonly MarketplaceRegistration[]
  readonly log: Log
}

/** Skills and plugins from elsewhere: what conversations get of them, and the handlers of their routes. Nothing is read yet. */
export function openExtensions(options: Options) {
  const { directory, environment, home, log } = options
  const inside = (name: string) => join(directory, name)
  const collected = new Fetched({
    directory: inside('collections'),
    environment,
    keepsAll: false,
    retryMs,
    log,
  })
  const fetched = new Fetched({
    directory: inside('fetched-plugins'),
    environment,
    keepsAll: true,
    retryMs: 0,
    log,
  })
  const skills = new Installed({
    directory: inside('skills'),
    what: 'skill',
    environment,
    describe: async (folder) => await (await extensionReaders()).describeSkill(folder),
  })
  const plugins = new Installed({
    directory: inside('plugins'),
    what: 'plugin',
    environment,
    describe: describePlugin,
  })
  const marketplaces = new Marketplaces({ registrations: options.marketplaces, fetched: collected, log })
  const publicSkills = new PublicSkills({ source: options.skillsSource, fetched: collected, log })
  const extensions = new ServerExtensions({ skills, plugins, marketplaces, publicSkills, fetched })
  const orgSkills = new OrgSkills({ directory: inside('org-skills'), environment, log })
  const list = new SkillList({ home, log, extensions, publicSkills, orgSkills })
  const pluginList = new PluginList({ home, installed: plugins, marketplaces, log })
  const sync = new SkillSync({ publicSkills, marketplaces, log })
  const ofUser = listSkillsRequest.parse({ load_public: false, load_org: false, load_project: false })
  return {
    extensions,
    /** The skills that every conversation of the user has. */
    userSkills: async (signal: AbortSignal) =>
      (await list.skills({ ...ofUser, project: undefined }, signal)).skills,
    handlers: ({ agents, touch }: { readonly agents: Agents; readonly touch: () => void }) => ({
      ...skillHandlers({ skills: list, installed: skills, publicSkills, plugins: pluginList, sync, touch }),
      ...pluginHandlers({ plugins: pluginList, installed: plugins, marketplaces, agents, touch }),
    }),
    async [Symbol.asyncDispose]() {
      await Promise.all([collected[Symbol.asyncDispose](), fetched[Symbol.asyncDispose]()])
    },
  }
}

async function describePlugin(directory: string, signal: AbortSignal): Promise<Described> {
  const plugin = await (await extensionReaders()).readPlugin(directory, signal)
  if ('fault' in plugin) return plugin
  const { name, version, description } = plugin
  return { name, version, description }
}
