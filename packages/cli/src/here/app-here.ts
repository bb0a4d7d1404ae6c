import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { Problem } from '@slipway/protocol/client'
import { makeTemporaryFolder, removeTemporaryLeftovers } from '@slipway/shared/tool-files'
import { exitCodes } from '../commands/conversations/follow-run.ts'
import { startAppCommand } from '../commands/sandboxes/app-start.ts'
import { reasonLines, waitUntilStarted } from '../commands/sandboxes/sandboxes.ts'
import type { SandboxServerContext } from '../context/command-context.ts'
import { findConversationId } from '../conversation/source/find-id.ts'
import { sandboxSource } from '../conversation/source/sandbox-source.ts'
import type { StartRequest } from '../conversation/start-tasks.ts'
import { countText } from '../output/count-text.ts'
import { sanitizeLine, sanitizeLines } from '../output/sanitize.ts'
import { paint, print, printNote, printResult } from '../output/terminal.ts'
import { applyToBranch, applyToWorkingTree, type ChangedFile, changedFiles } from './apply-changes.ts'
import { openWorkingTree } from './git.ts'
import { checkOutSnapshot, readChanges } from './sandbox-tree.ts'
import { selfRunningFiles } from './self-running-files.ts'
import { takeSnapshot, writePack } from './snapshot.ts'

type Env = Readonly<Record<string, string | undefined>>

/**
 * Copies the working tree that `directory` is in into a new sandbox and starts a conversation on it. The
 * sandbox is deleted when the conversation does not start. Returns the exit code.
 */
export async function startHereCommand(
  context: SandboxServerContext,
  request: StartRequest,
  options: { readonly directory: string; readonly env: Env; readonly isFollowing: boolean },
): Promise<number> {
  const { client, isJson, signal } = context
  await removeTemporaryLeftovers()
  await using git = await openWorkingTree(options.directory, options.env)
  const snapshot = await takeSnapshot(git, signal)
  const note = isJson ? () => undefined : printNote
  if (snapshot.head !== undefined && !snapshot.hasHistory)
    note('The history of the repository is long or shallow: only its files are copied.')
  const temporary = await makeTemporaryFolder('here')
  let sandbox: string | undefined
  let isStarted = false
  try {
    const pack = join(temporary, 'pack')
    await writePack(git, snapshot, pack, signal)
    const spec = request.sandbox_spec_id
    const { id } = await client.call('startSandbox', {
      query: spec === undefined || spec === null ? {} : { sandbox_spec_id: spec },
      signal,
    })
    sandbox = id
    note(`Copies ${sanitizeLine(git.directory)} into sandbox ${sanitizeLine(id)}`)
    const info = await waitUntilStarted(context, id)
    const url = info.exposed_urls?.find(({ name }) => name === 'AGENT_SERVER')?.url
    if (info.status !== 'RUNNING' || url === undefined || info.session_api_key === null) {
      const why = reasonLines(info) || 'The server does not say why.'
      throw new Problem('bad_gateway', `The sandbox did not start.\n${why}`)
    }
    const conversation = randomUUID()
    const settings = await client.call('getSettings', { signal })
    // Where the server puts the project of a conversation without a repository.
    const directory =
      settings.sandbox_grouping_strategy === 'NO_GROUPING'
        ? info.working_dir
        : posix.join(info.working_dir ?? '/', conversation.replaceAll('-', ''))
    if (directory === null) throw new Problem('bad_gateway', 'The sandbox has no working directory.')
    await checkOutSnapshot({ url, key: info.session_api_key }, { directory, snapshot, pack }, signal)
    const body = { ...request, conversation_id: conversation, sandbox_id: id }
    const code = await startAppCommand(context, body, {
      isFollowing: options.isFollowing,
      onReady: () => {
        isStarted = true
      },
    })
    if (isStarted && !isJson && code !== exitCodes.failed) {
      const short = conversation.slice(0, 8)
      note(`See its work with: slipway app diff ${short}\nBring it back with: slipway app apply ${short}`)
    }
    return code
  } finally {
    await rm(temporary, { recursive: true, force: true })
    if (sandbox !== undefined && !isStarted) {
      const params = { sandbox_id: sandbox }
      await client
        .call('deleteSandbox', { params, query: {}, signal: AbortSignal.timeout(30_000) })
        .catch(() =>
          note(`Its sandbox was not deleted: slipway sandbox rm ${sanitizeLine(params.sandbox_id)}`),
        )
    }
  }
}

/** Prints what a conversation changed in the copy of a folder, as a patch for `git apply`. */
export async function diffAppCommand(
  context: SandboxServerContext,
  text: string,
  options: { readonly isStat: boolean; readonly directory: string; readonly env: Env },
): Promise<void> {
  const { changes } = await findChanges(context, text)
  if (context.isJson) return await print(`${JSON.stringify({ patch: changes.patch.toString('utf8') })}\n`)
  if (changes.patch.length === 0) return printNote('Nothing changed.')
  if (options.isStat) {
    await using git = await openWorkingTree(options.directory, options.env)
    return await print(`${(await changedFiles(git, changes)).map(fileLine).join('\n')}\n`)
  }
  if (!process.stdout.isTTY) return await print(changes.patch)
  await print(`${sanitizeLines(changes.patch.toString('utf8')).map(paintLine).join('\n')}\n`)
}

function paintLine(line: string): string {
  if (/^(diff|index|\+\+\+|---) /.test(line)) return paint('bold', line)
  if (line.startsWith('@@')) return paint('cyan', line)
  if (line.startsWith('+')) return paint('green', line)
  return line.startsWith('-') ? paint('red', line) : line
}

/** Brings what a conversation changed into the working tree, or to a new branch. All of it or nothing. */
export async function applyAppCommand(
  context: SandboxServerContext,
  text: string,
  options: { readonly branch?: string | undefined; readonly directory: string; readonly env: Env },
): Promise<void> {
  const { branch, directory, env } = options
  await using git = await openWorkingTree(directory, env)
  const { id, changes, title } = await findChanges(context, text)
  const { isJson } = context
  if (changes.patch.length === 0) {
    await printResult(isJson, { conversation_id: id, files: [], self_running_files: [] }, 'Nothing changed.')
    return
  }
  const files = await changedFiles(git, changes)
  let advice: string[] = []
  if (branch === undefined) {
    if ((await applyToWorkingTree(git, changes)) === 'present') {
      const result = { conversation_id: id, files: [], self_running_files: [], branch: null }
      return await printResult(isJson, result, 'Already applied: nothing was changed.')
    }
  } else {
    const message = `${title}\n\nSlipway-Conversation: ${id}`
    advice = branchAdvice(branch, await applyToBranch(git, changes, { branch, title: message }))
  }
  const where = branch === undefined ? 'in your working tree' : `on the branch ${sanitizeLine(branch)}`
  const names = files.map(({ path }) => sanitizeLine(path))
  const count = `${countText(files.length, 'file')} changed`
  const running = selfRunningFiles(files.map(({ path }) => path)).map(sanitizeLine)
  if (running.length > 0)
    advice.unshift(`Review these files: programs run or load them without asking: ${running.join(', ')}`)
  const lines = [...files.map((file) => `  ${fileLine(file)}`), `${count} ${where}.`, ...advice]
  const members = { files: names, self_running_files: running, branch: branch ?? null }
  await printResult(isJson, { conversation_id: id, ...members }, lines.join('\n'))
}

/** `+1 -2 notes.txt`. */
function fileLine({ path, added, removed }: ChangedFile): string {
  return `${added === '-' ? 'binary' : `+${added} -${removed}`} ${sanitizeLine(path)}`
}

function branchAdvice(branch: string, { hasUncommitted }: { readonly hasUncommitted: boolean }): string[] {
  const name = sanitizeLine(branch)
  if (!hasUncommitted) return [`Take it with: git merge ${name}`]
  return [
    'The commit before it has the changes that were uncommitted when the work began, so a merge would meet them in your working tree.',
    `Commit them, then take the work alone with: git cherry-pick ${name}`,
  ]
}

async function findChanges({ client, signal }: SandboxServerContext, text: string) {
  const source = sandboxSource(client, signal)
  const id = await findConversationId(source, text)
  const { title } = await source.get(id)
  const agent = await source.agent(id)
  const { workspace } = await agent.call('getConversation', { params: { conversation_id: id }, signal })
  const changes = await readChanges(agent, workspace.working_dir, signal)
  return { id, changes, title: sanitizeLine(title) || 'Work of an agent' }
}
