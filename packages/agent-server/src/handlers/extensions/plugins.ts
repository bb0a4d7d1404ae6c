import type { Handlers } from '@slipway/http'
import type { pluginRoutes } from '@slipway/protocol'
import type { Agents } from '../../conversations/registry.ts'
import type { Installed } from '../../extensions/installed-extensions.ts'
import type { Marketplaces } from '../../extensions/marketplaces.ts'
import type { PluginList } from '../../extensions/plugin-list.ts'
import { projectOf } from '../../workspaces/project-directory.ts'

/** Plugins: what there is, what is installed, what marketplaces offer, and what a conversation is given. */
export function pluginHandlers(options: {
  readonly plugins: PluginList
  readonly installed: Installed
  readonly marketplaces: Marketplaces
  readonly agents: Agents
  readonly touch: () => void
}): Handlers<typeof pluginRoutes> {
  const { plugins, installed, marketplaces, agents, touch } = options
  return {
    async listPlugins({ body, signal }) {
      const project = body.load_project ? projectOf(body.project_dir) : undefined
      return { json: { plugins: await plugins.plugins({ isUser: body.load_user, project }, signal) } }
    },
    async installPlugin({ body, signal }) {
      touch()
      return { json: await plugins.withContents(await installed.install(body, signal), signal) }
    },
    async listInstalledPlugins({ signal }) {
      const all = await installed.list()
      return { json: { plugins: await Promise.all(all.map((one) => plugins.withContents(one, signal))) } }
    },
    async getInstalledPlugin({ params, signal }) {
      return { json: await plugins.withContents(await installed.get(params.name), signal) }
    },
    async enablePlugin({ params: { name }, body: { enabled } }) {
      touch()
      await installed.enable(name, enabled)
      return { json: { name, enabled } }
    },
    async uninstallPlugin({ params: { name } }) {
      touch()
      await installed.remove(name)
      return { json: { message: `The plugin ${name} was uninstalled` } }
    },
    async refreshPlugin({ params: { name }, signal }) {
      touch()
      const plugin = await plugins.withContents(await installed.refresh(name, signal), signal)
      return { json: { message: `The plugin ${name} was fetched again`, plugin } }
    },
    async listMarketplacePlugins({ signal }) {
      return { json: { plugins: await plugins.catalogue(signal) } }
    },
    async loadPlugin({ params, body, signal }) {
      touch()
      const conversation = await agents.get(params.conversation_id)
      const { agent_context } = conversation.settings.agent
      const others = agent_context?.registered_marketplaces ?? []
      await conversation.loadPlugin(await marketplaces.find(body.plugin_ref, others, signal))
      return { json: { success: true } }
    },
    async listCanvasExtensions() {
      return { json: { canvas_extensions: [] } }
    },
  }
}
