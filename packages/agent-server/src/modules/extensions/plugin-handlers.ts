import type { Handlers } from '@slipway/http'
import type { pluginRoutes } from '@slipway/protocol'
import { resolveProjectDirectory } from '../../core/conversations/project-directory.ts'
import { displayPluginAdditions } from '../../core/conversations/redacted-settings.ts'
import type { ConversationRegistry } from '../../core/conversations/registry.ts'
import type { InstalledExtensions } from './installed-extensions.ts'
import type { Marketplaces } from './marketplaces.ts'
import type { PluginList } from './plugin-list.ts'

/** Plugins: listed, installed, of marketplaces, and loaded into a conversation. */
export function pluginHandlers(options: {
  readonly plugins: PluginList
  readonly installed: InstalledExtensions
  readonly marketplaces: Marketplaces
  readonly registry: ConversationRegistry
}): Handlers<typeof pluginRoutes> {
  const { plugins: pluginList, installed, marketplaces, registry } = options
  return {
    async listPlugins({ body, signal }) {
      const project = body.load_project ? resolveProjectDirectory(body.project_dir) : undefined
      return { json: { plugins: await pluginList.list({ isUser: body.load_user, project }, signal) } }
    },
    async installPlugin({ body, signal }) {
      return { json: await pluginList.withContents(await installed.install(body, signal), signal) }
    },
    async listInstalledPlugins({ signal }) {
      const all = await installed.list()
      return { json: { plugins: await Promise.all(all.map((one) => pluginList.withContents(one, signal))) } }
    },
    async getInstalledPlugin({ params, signal }) {
      return { json: await pluginList.withContents(await installed.get(params.name), signal) }
    },
    async enablePlugin({ params: { name }, body: { enabled } }) {
      await installed.setEnabled(name, enabled)
      return { json: { name, enabled } }
    },
    async uninstallPlugin({ params: { name } }) {
      await installed.remove(name)
      return { json: { message: `Plugin '${name}' uninstalled` } }
    },
    async refreshPlugin({ params: { name }, signal }) {
      const plugin = await pluginList.withContents(await installed.refresh(name, signal), signal)
      return { json: { message: `Plugin '${name}' updated`, plugin } }
    },
    async listMarketplacePlugins({ signal }) {
      return { json: { plugins: await pluginList.listMarketplacePlugins(signal) } }
    },
    async loadPlugin({ params, body, signal }) {
      const conversation = await registry.get(params.conversation_id)
      const { agent_context } = conversation.settings.agent
      const others = agent_context?.registered_marketplaces ?? []
      await conversation.loadPlugin(await marketplaces.resolveReference(body.plugin_ref, others, signal))
      const { hooks } = displayPluginAdditions(conversation.settings, conversation.pluginAdditions)
      if (hooks !== undefined) await registry.publishMember(conversation.id, 'hook_config', hooks)
      return { json: { success: true } }
    },
  }
}
