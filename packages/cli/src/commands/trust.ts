import { resolve } from 'node:path'
import type { RepositoryConsent } from '@slipway/protocol'
import type { CommandContext } from '../context/command-context.ts'
import { isInteractive } from '../conversation/confirmation-prompt.ts'
import { sanitizeLine } from '../output/sanitize.ts'
import { printNote, printResult } from '../output/terminal.ts'

/** Shows what a repository brings and decides about it. Returns the exit code: 1 while nothing is decided. */
export async function trustCommand(
  context: CommandContext,
  path: string,
  options: { readonly list: boolean; readonly yes: boolean; readonly revoke: boolean },
): Promise<number> {
  const { client, isJson, signal } = context
  if (options.list) {
    const list = await client.call('listRepositoryConsents', { signal })
    await printResult(isJson, list, list.items.map(consentLine).join('\n') || 'No repository is known yet.')
    return 0
  }
  const directory = resolve(path)
  const { items } = await client.call('inspectRepository', { body: { directory }, signal })
  const [consent] = items
  if (consent === undefined) {
    await printResult(
      isJson,
      items,
      `${directory} brings no hooks, agents or rules: there is nothing to decide.`,
    )
    return 0
  }
  if (options.revoke) {
    const revoked = await client.call('revokeRepositoryConsent', {
      params: { consent_id: consent.id },
      signal,
    })
    await printResult(isJson, revoked, `Forgotten: ${consentLine(revoked)}`)
    return 0
  }
  printNote([consentLine(consent), ...consent.items.map(itemLine)].join('\n'))
  const decision = options.yes ? 'allow' : await promptForDecision(signal)
  if (decision === undefined) {
    await printResult(isJson, consent, 'Decide with: slipway trust DIRECTORY --yes')
    return consent.decision === 'pending' ? 1 : 0
  }
  const params = { consent_id: consent.id }
  const decided = await client.call('decideRepositoryConsent', { params, body: { decision }, signal })
  await printResult(isJson, decided, consentLine(decided))
  return 0
}

async function promptForDecision(signal: AbortSignal): Promise<'allow' | 'deny' | undefined> {
  if (!isInteractive()) return undefined
  const { isCancel, select } = await import('@clack/prompts')
  const answer = await select({
    message: 'May this run in conversations that work there?',
    options: [
      { value: 'allow' as const, label: 'Yes, as long as it does not change' },
      { value: 'deny' as const, label: 'No' },
      { value: 'later' as const, label: 'Decide later' },
    ],
    output: process.stderr,
    signal,
  })
  return isCancel(answer) || answer === 'later' ? undefined : answer
}

function consentLine({ decision, repository, hash }: RepositoryConsent): string {
  return `${decision}  ${sanitizeLine(repository)}  ${hash.slice(0, 12)}`
}

function itemLine({ kind, path, name, command }: RepositoryConsent['items'][number]): string {
  const text = command === null ? '' : `: ${command}`
  return sanitizeLine(`  ${kind.replace('_', ' ')} ${name} (${path})${text}`)
}
