import * as z from 'zod'
import { ok, success } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component, nullAsUndefined, trueByDefault } from '../../core/schemas.ts'
import { installedApplication } from '../applications/application.ts'
import { conversationParams } from '../conversations/conversation.ts'
import {
  enableRequest,
  enableResponse,
  extensionName,
  installedMembers,
  installRequest,
  uninstallResponse,
} from '../extensions/extension.ts'

const nameParams = z.object({ name: extensionName })

const bundledSkill = component('PluginSkillSummary', { name: z.string(), description: z.string().nullable() })
const files = z.array(z.string())

/** A plugin as it lies in a folder. `files` are relative to `path`. */
export const pluginInfo = component('PluginInfo', {
  name: z.string(),
  version: z.string(),
  description: z.string(),
  path: z.string(),
  skills: z.array(bundledSkill),
  files,
})
export type PluginInfo = z.infer<typeof pluginInfo>

/** `skills` and `files` are null when what is installed cannot be read any more. */
export const installedPlugin = component('InstalledPluginResponse', {
  ...installedMembers,
  skills: z.array(bundledSkill).nullable(),
  files: files.nullable(),
})
export type InstalledPlugin = z.infer<typeof installedPlugin>

/** A plugin of a marketplace with what a conversation or an installation names it by. */
export const marketplacePlugin = component('MarketplacePluginInfo', {
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
export type MarketplacePlugin = z.infer<typeof marketplacePlugin>

const updatedPlugin = component('UpdatePluginResponse', { message: z.string(), plugin: installedPlugin })
const notFetchedResponse = { description: 'The source cannot be fetched.' }

export const pluginRoutes = defineRoutes('plugins', {
  listPlugins: route.post('/api/plugins', {
    summary: 'List the plugins that a new conversation would have',
    description:
      'Folders below `.agents/plugins` and `.openhands/plugins`, and the enabled installed ones. Of one name that of the project is listed, then that of the user.',
    body: component('PluginsRequest', {
      load_user: trueByDefault,
      load_project: trueByDefault,
      project_dir: nullAsUndefined(z.string()),
    }),
    responses: ok('The plugins.', component('PluginsResponse', { plugins: z.array(pluginInfo) })),
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
      component('InstalledPluginsListResponse', { plugins: z.array(installedPlugin) }),
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
      ...ok('It is as its source has it now.', updatedPlugin),
      400: notFetchedResponse,
    },
  }),
  listMarketplacePlugins: route.get('/api/plugins/marketplace', {
    compressed: true,
    summary: 'List the plugins of the marketplaces',
    responses: ok(
      'Those of all marketplaces that this server knows.',
      component('PluginCatalogResponse', { plugins: z.array(marketplacePlugin) }),
    ),
  }),
  loadPlugin: route.post('/api/conversations/{conversation_id}/load_plugin', {
    tag: 'conversations',
    summary: 'Give a conversation a plugin of a marketplace',
    params: conversationParams,
    body: component('LoadPluginRequest', {
      plugin_ref: z.string().meta({ description: '`name@marketplace`.' }),
    }),
    responses: {
      ...ok('It has.', success),
      400: {
        description: 'The reference is no `name@marketplace`, or the plugin cannot be fetched or read.',
      },
      409: { description: 'The conversation is running.' },
    },
  }),
})

/** Installed applications, which are plugins with a page. */
export const applicationListRoutes = defineRoutes('plugins', {
  listCanvasExtensions: route.get('/api/canvas-extensions/installed', {
    summary: 'List the installed applications',
    description:
      'Valid folders that were copied beside them are installed, disabled; those that are gone are not listed.',
    responses: ok(
      'All of them.',
      component('InstalledCanvasExtensionsListResponse', {
        canvas_extensions: z.array(installedApplication),
      }),
    ),
  }),
})
