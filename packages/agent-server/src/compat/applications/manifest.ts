import { readFile, realpath } from 'node:fs/promises'
import { type ApplicationManifest, applicationManifest, applicationManifestFile } from '@slipway/protocol'
import { type ResolvedPath, resolveWithin } from '@slipway/shared/fs'
import { parseJson } from '@slipway/shared/json'

const maxBytes = 256 * 1024

/**
 * The manifest of a folder, when it is valid and its entrypoint is a file of the folder, not a link out of
 * it. Never rejects.
 */
export async function readManifest(
  folder: string,
): Promise<ApplicationManifest | { readonly issue: string }> {
  const bytes = await readManifestBytes(folder)
  const parsed = applicationManifest.safeParse(bytes === undefined ? undefined : parseJson(bytes.toString()))
  if (!parsed.success) return { issue: 'has no valid manifest' }
  const entrypoint = await resolvePackageFile(folder, parsed.data.entrypoint)
  return entrypoint.kind === 'file' ? parsed.data : { issue: 'has no file of its entrypoint' }
}

/** The bytes of a manifest; undefined when there is none, or one that is too large. */
export async function readManifestBytes(folder: string): Promise<Buffer | undefined> {
  const file = await resolvePackageFile(folder, applicationManifestFile)
  if (file.kind !== 'file' || file.stats.size > maxBytes) return undefined
  return await readFile(file.path).catch(() => undefined)
}

/** The target of a path of a package; `outside` when links lead out of it. */
export async function resolvePackageFile(folder: string, path: string): Promise<ResolvedPath> {
  return await resolveWithin(await realpath(folder).catch(() => folder), path)
}
