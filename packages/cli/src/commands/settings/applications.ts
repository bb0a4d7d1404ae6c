import { type ApplicationManifest, applicationManifest } from '@slipway/protocol'
import { Problem } from '@slipway/protocol/client'
import type { CommandContext } from '../../context/command-context.ts'
import { askYesOrNo, isInteractive } from '../../conversation/confirmation-prompt.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote, printResult, table } from '../../output/terminal.ts'

/** Lists the applications and the states of their programs. */
export async function listApplicationsCommand({ client, isJson, signal }: CommandContext): Promise<void> {
  const { canvas_extensions } = await client.call('listCanvasExtensions', { signal })
  const rows = await Promise.all(
    canvas_extensions.map(async ({ name, version }) => {
      const params = { extension_name: name }
      const { state } = await client.call('getCanvasExtensionBackend', { params, signal })
      return { name, version, state }
    }),
  )
  if (isJson) return await print(rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
  if (rows.length === 0) return printNote('No application is installed.')
  const lines = rows.map(({ name, version, state }) => [sanitizeLine(name), sanitizeLine(version), state])
  const width = (column: number) => Math.max(7, ...lines.map((line) => line[column]?.length ?? 0)) + 2
  await print(table(lines, [width(0), width(1)], ['NAME', 'VERSION', 'PROGRAM']))
}

/** Shows the program of an application and the secrets that it gets, and approves both when the user does. */
export async function approveApplicationCommand(
  { client, isJson, signal }: CommandContext,
  name: string,
  { yes }: { readonly yes: boolean },
): Promise<void> {
  const params = { extension_name: name }
  const found = await client.call('getCanvasExtension', { params, signal })
  const { revision } = await client.call('getCanvasExtensionBackend', { params, signal })
  const { data: manifest } = applicationManifest.safeParse(found.manifest)
  if (manifest?.backend == null || revision === null)
    throw new Problem('conflict', `${sanitizeLine(name)} has no program to approve`)
  printNote(approvalLines(manifest, found.source, revision).map(sanitizeLine).join('\n'))
  const isApproved =
    yes || (isInteractive() && (await askYesOrNo('May it run, and get these secrets?', signal)))
  if (!isApproved)
    throw new Problem(
      'conflict',
      `Nothing was approved. Approve it with: slipway applications approve ${sanitizeLine(name)} --yes`,
    )
  const { secrets } = manifest.backend
  const body = { revision, secrets }
  const status = await client.call('prepareCanvasExtensionBackend', { params, body, signal })
  await printResult(isJson, { ...status, secrets }, 'approved')
}

function approvalLines(
  { name, version, backend }: ApplicationManifest,
  source: string,
  revision: string,
): string[] {
  const secrets = backend?.secrets ?? []
  return [
    `${name} ${version} of ${source}, revision ${revision}`,
    `runs as the user of the server: ${backend?.argv.join(' ')}`,
    secrets.length === 0 ? 'gets no secret' : `gets these secrets of the server: ${secrets.join(', ')}`,
  ]
}

/** Starts the approved program of an application. */
export async function startApplicationCommand(
  { client, isJson, signal }: CommandContext,
  name: string,
): Promise<void> {
  const params = { extension_name: name }
  const { revision } = await client.call('getCanvasExtensionBackend', { params, signal })
  if (revision === null) throw new Problem('conflict', `${sanitizeLine(name)} has no program to start`)
  const status = await client.call('startCanvasExtensionBackend', { params, body: { revision }, signal })
  if (status.state !== 'ready')
    throw new Problem('conflict', `The program is ${status.state}: ${sanitizeLine(status.detail ?? '')}`)
  await printResult(isJson, status, 'started')
}

/** Stops the program of an application. */
export async function stopApplicationCommand(
  { client, isJson, signal }: CommandContext,
  name: string,
): Promise<void> {
  const params = { extension_name: name }
  await printResult(isJson, await client.call('stopCanvasExtensionBackend', { params, signal }), 'stopped')
}

/** Prints an address that opens an application once. */
export async function openApplicationCommand(
  { client, isJson, signal }: CommandContext,
  name: string,
): Promise<void> {
  const params = { extension_name: name }
  const link = await client.call('createApplicationLink', { params, signal })
  await printResult(isJson, link, sanitizeLine(link.url))
}
