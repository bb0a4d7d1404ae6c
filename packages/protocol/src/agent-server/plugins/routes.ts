import * as z from 'zod'
import type { RouteTable } from '../../core/route.ts'
import { nullAsUndefined, trueByDefault } from '../../core/schemas.ts'
import { conversationId, success } from '../conversations/conversation.ts'
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

export const pluginRoutes = {
  listPlugins: {
    method: 'POST',
    path: '/api/plugins',
    tag: 'plugins',
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
    responses: {
      200: {
        description: 'The plugins.',
        schema: z.object({ plugins: z.array(pluginInfo) }).meta({ id: 'PluginsResponse' }),
      },
    },
  },
  installPlugin: {
    method: 'POST',
    path: '/api/plugins/install',
    tag: 'plugins',
    summary: 'Install a plugin',
    description: 'Every new conversation has it from then on.',
    body: installRequest,
    responses: {
      200: { description: 'It is.', schema: installedPlugin },
      400: notFetchedResponse,
      409: { description: 'A plugin of this name is installed.' },
    },
  },
  listInstalledPlugins: {
    method: 'GET',
    path: '/api/plugins/installed',
    tag: 'plugins',
    summary: 'List the installed plugins',
    responses: {
      200: {
        description: 'All of them.',
        schema: z.object({ plugins: z.array(installedPlugin) }).meta({ id: 'InstalledPluginsListResponse' }),
      },
    },
  },
  getInstalledPlugin: {
    method: 'GET',
    path: '/api/plugins/installed/{name}',
    tag: 'plugins',
    summary: 'Get an installed plugin',
    params: nameParams,
    responses: { 200: { description: 'The plugin.', schema: installedPlugin } },
  },
  enablePlugin: {
    method: 'PATCH',
    path: '/api/plugins/installed/{name}',
    tag: 'plugins',
    summary: 'Enable or disable an installed plugin',
    params: nameParams,
    body: enableRequest,
    responses: { 200: { description: 'It is.', schema: enableResponse } },
  },
  uninstallPlugin: {
    method: 'DELETE',
    path: '/api/plugins/installed/{name}',
    tag: 'plugins',
    summary: 'Uninstall a plugin',
    params: nameParams,
    responses: { 200: { description: 'It is gone.', schema: uninstallResponse } },
  },
  refreshPlugin: {
    method: 'POST',
    path: '/api/plugins/installed/{name}/refresh',
    tag: 'plugins',
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
  },
  listMarketplacePlugins: {
    method: 'GET',
    path: '/api/plugins/marketplace',
    tag: 'plugins',
    summary: 'List the plugins of the marketplaces',
    responses: {
      200: {
        description: 'Those of all marketplaces that this server knows.',
        schema: z.object({ plugins: z.array(marketplacePlugin) }).meta({ id: 'PluginCatalogResponse' }),
      },
    },
  },
  loadPlugin: {
    method: 'POST',
    path: '/api/conversations/{conversation_id}/load_plugin',
    tag: 'conversations',
    summary: 'Give a conversation a plugin of a marketplace',
    params: z.object({ conversation_id: conversationId }),
    body: z
      .object({ plugin_ref: z.string().meta({ description: '`name@marketplace`.' }) })
      .meta({ id: 'LoadPluginRequest' }),
    responses: {
      200: { description: 'It has.', schema: success },
      400: {
        description: 'The reference is no `name@marketplace`, or the plugin cannot be fetched or read.',
      },
      409: { description: 'The conversation is running.' },
    },
  },
  listCanvasExtensions: {
    method: 'GET',
    path: '/api/canvas-extensions/installed',
    tag: 'plugins',
    summary: 'List the extensions of the web client',
    description: 'This server installs none.',
    responses: {
      200: {
        description: 'None.',
        schema: z
          .object({ canvas_extensions: z.array(z.unknown()) })
          .meta({ id: 'InstalledCanvasExtensionsListResponse' }),
      },
    },
  },
} as const satisfies RouteTable
