import { randomUUID } from 'node:crypto'
import { openAsBlob } from 'node:fs'
import { Client } from '@slipway/client'
import { Problem } from '@slipway/protocol/client'
import { maxAnswerBytes, readLimited, readText } from '@slipway/shared/async'
import { firstChars } from '@slipway/shared/text'
import { sameOriginFetch } from '@slipway/shared/url'
import { sanitizeLine } from '../output/sanitize.ts'
import type { Snapshot } from './snapshot.ts'

/** In the repository of the sandbox: what it got. */
const baseRef = 'refs/slipway/base'
const commandSeconds = 120

/** An agent server in a sandbox. */
export interface SandboxServer {
  readonly url: string
  readonly key: string
}

/** Uploads the pack of a snapshot and checks it out in an empty directory of a sandbox. */
export async function checkOutSnapshot(
  server: SandboxServer,
  target: { readonly directory: string; readonly snapshot: Snapshot; readonly pack: string },
  signal: AbortSignal,
): Promise<void> {
  const { directory, snapshot, pack } = target
  // Without a sandbox it is a directory that everybody may write.
  const remote = `/tmp/slipway-${randomUUID()}.pack`
  await upload(server, pack, remote, signal)
  const { exitCode, stderr } = await runBash(server, checkOutCommand(directory, snapshot, remote), signal)
  if (exitCode === 0) return
  throw new Problem('bad_gateway', `The folder was not copied: ${firstChars(sanitizeLine(stderr), 500)}`)
}

function checkOutCommand(directory: string, snapshot: Snapshot, pack: string): string {
  const { commit, branch, isDirty, hasHistory } = snapshot
  return `set -e
trap ${quote(`rm -f -- ${quote(pack)}`)} EXIT
command -v git >/dev/null || { echo 'git is not installed in the sandbox' >&2; exit 1; }
mkdir -p -- ${quote(directory)}
cd -- ${quote(directory)}
[ ! -e .git ] || { echo 'there is a repository already' >&2; exit 1; }
git init --quiet
git config --get-all safe.directory | grep -Fxq -- "$PWD" || git config --global --add safe.directory "$PWD"
git index-pack --stdin --strict < ${quote(pack)} >/dev/null
git update-ref ${baseRef} ${commit}
git symbolic-ref HEAD ${quote(`refs/heads/${branch}`)}
git reset --hard --quiet ${commit}
${hasHistory ? `git reset --quiet ${isDirty ? '--mixed' : '--soft'} ${commit}^` : ':'}`
}

/** What a conversation changed since its folder was copied. */
export interface SandboxChanges {
  /** Binary, with whole object ids; empty when nothing changed. */
  readonly patch: Buffer
  /** The commit that was checked out when the folder was copied. */
  readonly head: string | undefined
  /** The copied tree. */
  readonly tree: string
}

/** Reads the changes in a directory of a sandbox, committed or not. Ignored files are not among them. */
export async function readChanges(
  client: Client,
  directory: string,
  signal: AbortSignal,
): Promise<SandboxChanges> {
  const { exitCode, stdout, stderr } = await runBash(client, changesCommand(directory), signal)
  if (exitCode === 4) {
    throw new Problem(
      'conflict',
      'This conversation has no copy of a folder. Start one with: slipway app start --here TASK',
    )
  }
  const [, file, tree] = /^(\/[\w./-]+)\n([0-9a-f]{40,64})\n/.exec(stdout) ?? []
  const [, head] = /^Slipway-Head: ([0-9a-f]{40,64})$/m.exec(stdout) ?? []
  if (exitCode !== 0 || file === undefined || tree === undefined)
    throw new Problem('bad_gateway', `The changes cannot be read: ${firstChars(sanitizeLine(stderr), 500)}`)
  try {
    const response = await client.open('downloadFile', { query: { path: `${file}/patch` }, signal })
    const patch = await readLimited(response, maxAnswerBytes)
    if (patch === undefined) throw new Problem('bad_gateway', 'The changes are too large')
    return { patch, tree, head }
  } finally {
    await runBash(client, `rm -rf -- ${quote(file)}`, AbortSignal.timeout(10_000)).catch(() => undefined)
  }
}

function changesCommand(directory: string): string {
  return `cd -- ${quote(directory)} || exit 1
base=$(git rev-parse --quiet --verify '${baseRef}^{commit}') || exit 4
cd -- "$(git rev-parse --show-toplevel)" || exit 1
umask 077
temporary=$(mktemp -d) || exit 1
trap '[ "$done" = 1 ] || rm -rf -- "$temporary"' EXIT
cp -p -- "$(git rev-parse --git-path index)" "$temporary/index" 2>/dev/null
export GIT_INDEX_FILE="$temporary/index"
git add --all -- :/ && tree=$(git write-tree) || exit 1
git diff --binary --full-index --no-color --no-ext-diff --no-textconv --no-renames \\
  --src-prefix=a/ --dst-prefix=b/ "$base" "$tree" > "$temporary/patch" || exit 1
done=1
echo "$temporary"
git rev-parse "$base^{tree}"
git log -1 --format=%B "$base"`
}

async function runBash(server: SandboxServer | Client, command: string, signal: AbortSignal) {
  const client = 'call' in server ? server : new Client({ url: server.url, sessionApiKey: server.key })
  const { exit_code, stdout, stderr } = await client.call('executeBashCommand', {
    body: { command, timeout: commandSeconds },
    signal,
  })
  return { exitCode: exit_code, stdout: stdout ?? '', stderr: stderr ?? '' }
}

async function upload({ url, key }: SandboxServer, file: string, path: string, signal: AbortSignal) {
  const form = new FormData()
  form.append('file', await openAsBlob(file), 'pack')
  const response = await sameOriginFetch()(`${url}/api/file/upload?path=${encodeURIComponent(path)}`, {
    method: 'POST',
    headers: { 'x-session-api-key': key },
    body: form,
    signal,
  })
  const text = await readText(response)
  if (!response.ok)
    throw new Problem(
      'bad_gateway',
      `The folder was not copied: HTTP ${response.status} ${firstChars(sanitizeLine(text), 300)}`,
    )
}

/** A text as one word of bash. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
