import * as z from 'zod'
import { boundedText, component, looseComponent, nullAsUndefined, withDefault } from '../../core/schemas.ts'

const sourceMembers = {
  source: boundedText(1, 2048).meta({
    description:
      'An absolute directory, a git URL (https, ssh, file) or `github:owner/repo`; a path in the repository may follow as `github:owner/repo/path` or after a `#`.',
  }),
  ref: nullAsUndefined(boundedText(1, 250)).meta({
    description: 'Branch, tag or whole commit id; default: HEAD.',
  }),
  repo_path: nullAsUndefined(boundedText(1, 1024)).meta({ description: 'A folder below the source.' }),
}

/**
 * Source of a skill, a plugin or a marketplace. Credentials in an address are used to fetch it and stored
 * only sealed. Unknown members stay.
 */
export const extensionSource = looseComponent('PluginSource', sourceMembers)
export type ExtensionSource = z.output<typeof extensionSource>

/** What to install. `force` replaces what is installed by the same name. */
export const installRequest = component('InstallRequest', {
  ...sourceMembers,
  force: withDefault(z.boolean(), false),
})
export type InstallRequest = z.output<typeof installRequest>

export const enableRequest = component('UpdateStateRequest', { enabled: z.boolean() })
export const enableResponse = component('UpdateStateResponse', { name: z.string(), enabled: z.boolean() })
export const uninstallResponse = component('UninstallResponse', { message: z.string() })

/** A marketplace by name. `auto_load`: what of it every conversation gets: all, nothing, or these by name. */
export const marketplaceRegistration = looseComponent('MarketplaceRegistration', {
  name: boundedText(1, 200),
  ...sourceMembers,
  auto_load: withDefault(z.union([z.boolean(), z.array(z.string())]), false),
})
export type MarketplaceRegistration = z.output<typeof marketplaceRegistration>

/** Lower-case words with single hyphens between them. */
export const extensionName = z
  .string()
  .max(64)
  .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/, 'The name is not lower-case words with single hyphens between them')

/** What is installed, whatever it is. Times are ISO 8601 in UTC. */
export const installedMembers = {
  name: z.string(),
  version: z.string(),
  description: z.string(),
  enabled: z.boolean(),
  source: z.string(),
  resolved_ref: z.string().nullable().meta({ description: 'The commit, where it came from git.' }),
  repo_path: z.string().nullable(),
  installed_at: z.string(),
  install_path: z.string(),
}

/** The manifest of a plugin; unknown members stay. */
export const pluginManifest = looseComponent('PluginManifest', {
  name: extensionName,
  version: nullAsUndefined(z.string().max(200)),
  description: nullAsUndefined(z.string()),
})

export const marketplaceEntry = z.looseObject({
  name: z.string().min(1).max(200),
  source: z.unknown().optional(),
  description: nullAsUndefined(z.string()),
  version: nullAsUndefined(z.string()),
})

export type MarketplaceEntry = z.output<typeof marketplaceEntry>

/** Paths of a marketplace's manifest; the first that exists is used. */
export const marketplacePaths = [
  '.claude-plugin/marketplace.json',
  '.plugin/marketplace.json',
  'marketplace.json',
] as const

/** `marketplace.json`: plugins, and skills of no plugin. Entries are judged one by one by who reads them. */
export const marketplaceManifest = looseComponent('MarketplaceManifest', {
  name: nullAsUndefined(z.string()),
  metadata: nullAsUndefined(z.looseObject({ pluginRoot: nullAsUndefined(z.string()) })),
  plugins: withDefault(z.array(z.unknown()), []),
  skills: withDefault(z.array(z.unknown()), []),
})
