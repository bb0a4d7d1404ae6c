import { resolve } from 'node:path'
import type { RepositoryConsent } from '@slipway/protocol'
import { Problem } from '@slipway/protocol/client'
import type { CommandContext } from '../../context/command-context.ts'
import { isInteractive } from '../../conversation/confirmation-prompt.ts'
import type { ConversationSource } from '../../conversation/source/source.ts'
import { utcTime } from '../../output/relative-time.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { printNote, printResult } from '../../output/terminal.ts'

interface TrustContext {
  readonly source: ConversationSource
  readonly isJson: boolean
  readonly signal: AbortSignal
  /** The agent server; a Problem where the server is another. */
  agent(): CommandContext
}

interface TrustOptions {
  readonly list: boolean
  readonly yes: boolean
  readonly deny: boolean
  readonly revoke: boolean
}

/**
 * Shows what a repository brings and decides about it. `target`: a directory on the machine of an agent server,
 * or the id of a consent. Returns the exit code: 1 while something is not decided.
 */
export async function trustCommand(
  context: TrustContext,
  target: string | undefined,
  options: TrustOptions,
): Promise<number> {
  const { source, isJson } = context
  if (options.list) {
    const list = await source.consents.list()
    await printResult(isJson, list, list.items.map(listEntry).join('\n') || 'No repository is known yet.')
    return 0
  }
  const { items: consents, issues = [] } = await findConsents(context, target)
  for (const issue of issues) printNote(`Skipped, it does not run: ${sanitizeLine(issue)}`)
  if (consents.length === 0 && issues.length > 0) {
    await printResult(isJson, [], 'There is nothing to decide until that is corrected.')
    return 1
  }
  if (consents.length === 0) {
    await printResult(
      isJson,
      [],
      'It brings nothing that runs, or nothing waits: there is nothing to decide.',
    )
    return 0
  }
  let code = 0
  for (const consent of consents) code = Math.max(code, await decide(context, consent, options))
  return code
}

async function findConsents(
  { source, signal, agent }: TrustContext,
  target: string | undefined,
): Promise<{
  readonly items: readonly RepositoryConsent[]
  readonly issues?: readonly string[] | undefined
}> {
  const isId = target !== undefined && /^[0-9a-f]{8,32}$/.test(target)
  if (source.kind === 'agent' && !isId) {
    const { client } = agent()
    return await client.call('inspectRepository', { body: { directory: resolve(target ?? '.') }, signal })
  }
  const { items } = await source.consents.list()
  if (target === undefined) return { items: items.filter(({ decision }) => decision === 'pending') }
  const found = items.filter(({ id }) => isId && id.startsWith(target))
  if (found.length === 1) return { items: found }
  throw new Problem('not_found', `No consent has the id ${target}. "slipway trust --list --json" lists them.`)
}

async function decide(
  { source, isJson, signal }: TrustContext,
  consent: RepositoryConsent,
  options: TrustOptions,
): Promise<number> {
  const { consents, kind } = source
  if (options.revoke) {
    const revoked = await consents.revoke(consent.id)
    await printResult(isJson, revoked, `Forgotten: ${consentLine(revoked)}`)
    return 0
  }
  printNote([consentLine(consent), ...consent.items.flatMap(itemLines)].join('\n'))
  const decision = options.yes ? 'allow' : options.deny ? 'deny' : await promptForDecision(signal)
  if (decision === undefined) {
    const target = kind === 'agent' ? 'DIRECTORY' : consent.id
    await printResult(isJson, consent, `Decide with: slipway trust ${target} --yes`)
    return consent.decision === 'pending' ? 1 : 0
  }
  const decided = await consents.decide(consent.id, decision)
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

/** With the time of the decision and the files that it covers. */
function listEntry(consent: RepositoryConsent): string {
  const { decided_at, created_at, items } = consent
  const time = decided_at === null ? `waits since ${minute(created_at)}` : `decided ${minute(decided_at)}`
  const files = [...new Set(items.map(({ path }) => path))].join(', ')
  return `${consentLine(consent)}\n  ${time}: ${sanitizeLine(files)}`
}

function minute(timestamp: string): string {
  return `${sanitizeLine(utcTime(timestamp)).slice(0, 16)} UTC`
}

function consentLine({ decision, repository, hash }: RepositoryConsent): string {
  return `${decision}  ${sanitizeLine(repository)}  ${hash.slice(0, 12)}`
}

function itemLines({ kind, path, name, command }: RepositoryConsent['items'][number]): string[] {
  const head = `${kind.replace('_', ' ')} ${name} (${path})`
  if (kind !== 'script') return [`  ${sanitizeLine(command === null ? head : `${head}: ${command}`)}`]
  const lines = (command ?? '').trimEnd().split('\n')
  return [`  ${sanitizeLine(head)}`, ...lines.map((line) => `    | ${sanitizeLine(line)}`)]
}
