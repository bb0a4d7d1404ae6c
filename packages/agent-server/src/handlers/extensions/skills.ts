import type { Handlers } from '@slipway/http'
import type { skillRoutes } from '@slipway/protocol'
import type { Installed } from '../../extensions/installed-extensions.ts'
import type { PluginList } from '../../extensions/plugin-list.ts'
import type { PublicSkills } from '../../extensions/public-skills.ts'
import type { SkillList } from '../../extensions/skill-list.ts'
import type { SkillSync } from '../../extensions/skill-sync.ts'
import { projectOf } from '../../workspaces/project-directory.ts'

/** What a project and a user have for an agent, and what is installed. */
export function skillHandlers(options: {
  readonly skills: SkillList
  readonly installed: Installed
  readonly publicSkills: PublicSkills
  readonly plugins: PluginList
  readonly sync: SkillSync
  readonly touch: () => void
}): Handlers<typeof skillRoutes> {
  const { skills, installed, publicSkills, plugins, sync, touch } = options
  return {
    async listSkills({ body, signal }) {
      const project = body.load_project ? projectOf(body.project_dir) : undefined
      return { json: await skills.skills({ ...body, project }, signal) }
    },
    async syncSkills({ signal }) {
      touch()
      return { json: await sync.sync(signal) }
    },
    async installSkill({ body, signal }) {
      touch()
      return { json: await installed.install(body, signal) }
    },
    async listInstalledSkills() {
      return { json: { skills: [...(await installed.list())] } }
    },
    async getInstalledSkill({ params }) {
      return { json: await installed.get(params.name) }
    },
    async enableSkill({ params: { name }, body: { enabled } }) {
      touch()
      await installed.enable(name, enabled)
      return { json: { name, enabled } }
    },
    async uninstallSkill({ params: { name } }) {
      touch()
      await installed.remove(name)
      return { json: { message: `The skill ${name} was uninstalled` } }
    },
    async refreshSkill({ params: { name }, signal }) {
      touch()
      const skill = await installed.refresh(name, signal)
      return { json: { message: `The skill ${name} was fetched again`, skill } }
    },
    async listMarketplaceSkills({ signal }) {
      const isInstalled = await installed.isInstalled()
      const all = [
        ...(await publicSkills.catalogue(isInstalled, signal)),
        ...(await plugins.skillCatalogue(isInstalled, signal)),
      ]
      const first = new Map(all.reverse().map((skill) => [skill.name, skill]))
      return { json: { skills: [...first.values()].reverse() } }
    },
    async getHooks({ body }) {
      return { json: { hook_config: await skills.hooks(projectOf(body.project_dir)) } }
    },
  }
}
