import { text } from 'node:stream/consumers'
import { Problem } from '@slipway/protocol/client'
import type { CommandContext } from '../../context/command-context.ts'
import { isInteractive } from '../../conversation/confirmation-prompt.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote, printResult, table } from '../../output/terminal.ts'

/** Lists the names and descriptions of the stored secrets. */
export async function listSecretsCommand({ client, isJson, signal }: CommandContext): Promise<void> {
  const { secrets } = await client.call('listSecrets', { query: {}, signal })
  if (isJson) return await print(secrets.map((secret) => `${JSON.stringify(secret)}\n`).join(''))
  if (secrets.length === 0) return printNote('There is no secret. Store one with: slipway secrets set NAME')
  const rows = secrets.map(({ name, description }) => [sanitizeLine(name), sanitizeLine(description ?? '')])
  const width = Math.max(...rows.map(([name = '']) => name.length)) + 2
  await print(table(rows, [Math.max(6, width)], ['NAME', 'DESCRIPTION']))
}

/**
 * Stores a secret, whose value comes from standard input or the terminal: other users can see a command line.
 */
export async function setSecretCommand(
  { client, isJson, signal }: CommandContext,
  name: string,
  { source, description }: { readonly source: string | undefined; readonly description?: string },
): Promise<void> {
  const next = `slipway secrets set ${sanitizeLine(name)} - < FILE`
  if (source !== undefined && source !== '-')
    throw new Problem('bad_request', `Other users can see a command line. Give the value so: ${next}`)
  const value =
    source === '-' ? (await text(process.stdin)).replace(/\r?\n$/, '') : await askValue(name, next)
  if (value === '') throw new Problem('bad_request', 'The value is empty. Nothing was stored.')
  await client.call('saveSecret', { body: { name, value, description }, signal })
  await printResult(isJson, { name, status: 'stored' }, 'stored')
}

/** Deletes a secret. */
export async function removeSecretCommand(
  { client, isJson, signal }: CommandContext,
  name: string,
): Promise<void> {
  const { secrets } = await client.call('listSecrets', { query: {}, signal })
  if (!secrets.some((secret) => secret.name === name)) {
    const names = secrets.map((secret) => secret.name).join(', ') || 'none'
    throw new Problem(
      'not_found',
      `There is no secret ${sanitizeLine(name)}. There are: ${sanitizeLine(names)}`,
    )
  }
  await client.call('deleteSecret', { params: { name }, signal })
  await printResult(isJson, { name, status: 'removed' }, 'removed')
}

async function askValue(name: string, next: string): Promise<string> {
  if (!isInteractive()) throw new Problem('bad_request', `There is no terminal to ask at. Use: ${next}`)
  const { isCancel, password } = await import('@clack/prompts')
  const answer = await password({ message: `The value of ${sanitizeLine(name)}`, output: process.stderr })
  if (isCancel(answer)) throw new Problem('bad_request', 'Nothing was stored.')
  return answer
}
