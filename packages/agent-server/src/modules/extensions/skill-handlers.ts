import type { Handlers } from '@slipway/http'
import type { LogFunction, skillRoutes } from '@slipway/protocol'
import { resolveProjectDirectory } from '../../core/conversations/project-directory.ts'
import type { InstalledExtensions } from './installed-extensions.ts'
import type { Marketplaces } from './marketplaces.ts'
import type { PluginList } from './plugin-list.ts'
import type { PublicSkills } from './public-skills.ts'
import type { SkillList } from './skill-list.ts'
import { syncCollections } from './skill-sync.ts'

export function skillHandlers(options: {
  readonly skills: SkillList
  readonly installed: InstalledExtensions
  readonly publicSkills: PublicSkills
  readonly pluginList: PluginList
  readonly marketplaces: Marketplaces
  readonly log: LogFunction
}): Handlers<typeof skillRoutes> {
  const { skills: skillList, installed, publicSkills, pluginList } = options
  return {
    async listSkills({ body, signal }) {
      const project = body.load_project ? resolveProjectDirectory(body.project_dir) : undefined
      return { json: await skillList.list({ ...body, project }, signal) }
    },
    syncSkills: async ({ signal }) => ({ json: await syncCollections(options, signal) }),
    installSkill: async ({ body, signal }) => ({ json: await installed.install(body, signal) }),
    listInstalledSkills: async () => ({ json: { skills: [...(await installed.list())] } }),
    getInstalledSkill: async ({ params }) => ({ json: await installed.get(params.name) }),
    async enableSkill({ params: { name }, body: { enabled } }) {
      await installed.setEnabled(name, enabled)
      return { json: { name, enabled } }
    },
    async uninstallSkill({ params: { name } }) {
      await installed.remove(name)
      return { json: { message: `Skill '${name}' uninstalled` } }
    },
    async refreshSkill({ params: { name }, signal }) {
      const skill = await installed.refresh(name, signal)
      return { json: { message: `Skill '${name}' updated`, skill } }
    },
    async listMarketplaceSkills({ signal }) {
      const isInstalled = await installed.getInstalledCheck()
      const all = [
        ...(await publicSkills.listMarketplaceSkills(isInstalled, signal)),
        ...(await pluginList.listMarketplaceSkills(isInstalled, signal)),
      ]
      const byName = new Map(all.reverse().map((skill) => [skill.name, skill]))
      return { json: { skills: [...byName.values()].reverse() } }
    },
    async getHooks({ body }) {
      return { json: { hook_config: await skillList.hooks(resolveProjectDirectory(body.project_dir)) } }
    },
  }
}
