import * as z from 'zod'
import { ok, success } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { nullAsUndefined, trueByDefault } from '../../core/schemas.ts'
import { conversationId } from '../conversations/conversation.ts'
import {
  enableRequest,
  enableResponse,
  installedMembers,
  installRequest,
  uninstallResponse,
} from '../extensions/extension.ts'

const nameParams = z.object({ name: z.string() })

const bundledSkill = z
  .object({ name: z.string(), description: z.string().nullable() })
  .meta({ id: 'PluginSkillSummary' })
const files = z.array(z.string())

/** A plugin as it lies in a folder. `files` are relative to `path`. */
export const pluginInfo = z
  .object({
    name: z.string(),
    version: z.string(),
    description: z.string(),
    path: z.string(),
    skills: z.array(bundledSkill),
    files,
  })
  .meta({ id: 'PluginInfo' })
export type PluginInfo = z.infer<typeof pluginInfo>

/** `skills` and `files` are null when what is installed cannot be read any more. */
export const installedPlugin = z
  .object({ ...installedMembers, skills: z.array(bundledSkill).nullable(), files: files.nullable() })
  .meta({ id: 'InstalledPluginResponse' })
export type InstalledPlugin = z.infer<typeof installedPlugin>

/** A plugin of a marketplace with what a conversation or an installation names it by. */
export const marketplacePlugin = z
  .object({
    name: z.string(),
    description: z.string().nullable(),
    source: z.string(),
    ref: z.string().nullable(),
    repo_path: z.string().nullable(),
    installed: z.boolean(),
    path: z.string().nullable(),
    skills: z.array(bundledSkill).nullable(),
    files: files.nullable(),
  })
  .meta({ id: 'MarketplacePluginInfo' })
export type MarketplacePlugin = z.infer<typeof marketplacePlugin>

const notFetchedResponse = { description: 'The source cannot be fetched.' }

export const pluginRoutes = defineRoutes('plugins', {
  listPlugins: route.post('/api/plugins', {
    summary: 'List the plugins of the user and of a project',
    description:
      'Folders below `.agents/plugins` and `.openhands/plugins`. Of two of one name that of the project is listed.',
    body: z
      .object({
        load_user: trueByDefault,
        load_project: trueByDefault,
        project_dir: nullAsUndefined(z.string()),
      })
      .meta({ id: 'PluginsRequest' })
      .prefault({}),
    responses: ok('The plugins.', z.object({ plugins: z.array(pluginInfo) }).meta({ id: 'PluginsResponse' })),
  }),
  installPlugin: route.post('/api/plugins/install', {
    summary: 'Install a plugin',
    description: 'Every new conversation has it from then on.',
    body: installRequest,
    responses: {
      200: { description: 'It is.', schema: installedPlugin },
      400: notFetchedResponse,
      409: { description: 'A plugin of this name is installed.' },
    },
  }),
  listInstalledPlugins: route.get('/api/plugins/installed', {
    summary: 'List the installed plugins',
    responses: ok(
      'All of them.',
      z.object({ plugins: z.array(installedPlugin) }).meta({ id: 'InstalledPluginsListResponse' }),
    ),
  }),
  getInstalledPlugin: route.get('/api/plugins/installed/{name}', {
    summary: 'Get an installed plugin',
    params: nameParams,
    responses: ok('The plugin.', installedPlugin),
  }),
  enablePlugin: route.patch('/api/plugins/installed/{name}', {
    summary: 'Enable or disable an installed plugin',
    params: nameParams,
    body: enableRequest,
    responses: ok('It is.', enableResponse),
  }),
  uninstallPlugin: route.delete('/api/plugins/installed/{name}', {
    summary: 'Uninstall a plugin',
    params: nameParams,
    responses: ok('It is gone.', uninstallResponse),
  }),
  refreshPlugin: route.post('/api/plugins/installed/{name}/refresh', {
    summary: 'Fetch an installed plugin again',
    params: nameParams,
    responses: {
      200: {
        description: 'It is as its source has it now.',
        schema: z
          .object({ message: z.string(), plugin: installedPlugin })
          .meta({ id: 'UpdatePluginResponse' }),
      },
      400: notFetchedResponse,
    },
  }),
  listMarketplacePlugins: route.get('/api/plugins/marketplace', {
    summary: 'List the plugins of the marketplaces',
    responses: ok(
      'Those of all marketplaces that this server knows.',
      z.object({ plugins: z.array(marketplacePlugin) }).meta({ id: 'PluginCatalogResponse' }),
    ),
  }),
  loadPlugin: route.post('/api/conversations/{conversation_id}/load_plugin', {
    tag: 'conversations',
    summary: 'Give a conversation a plugin of a marketplace',
    params: z.object({ conversation_id: conversationId }),
    body: z
      .object({ plugin_ref: z.string().meta({ description: '`name@marketplace`.' }) })
      .meta({ id: 'LoadPluginRequest' }),
    responses: {
      ...ok('It has.', success),
      400: {
        description: 'The reference is no `name@marketplace`, or the plugin cannot be fetched or read.',
      },
      409: { description: 'The conversation is running.' },
    },
  }),
  listCanvasExtensions: route.get('/api/canvas-extensions/installed', {
    summary: 'List the extensions of the web client',
    description: 'This server installs none.',
    responses: ok(
      'None.',
      z
        .object({ canvas_extensions: z.array(z.unknown()) })
        .meta({ id: 'InstalledCanvasExtensionsListResponse' }),
    ),
  }),
})
