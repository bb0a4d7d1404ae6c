/**
 * Copies the files of one Pod to another one, by commands in both; their bytes pass through this server.
 *
 * Problem: a Pod cannot be paused, its user has no rights beyond those of its files, and no volume can be
 * read from elsewhere. Idea: a command in the Pod, which is no child of its agent server, stops all other
 * processes with SIGSTOP, packs the files, and continues them.
 *
 * Invariants:
 * - Processes continue whatever happens: the shell does it at its end, which comes when it hears nothing
 *   from this server for `silenceSeconds`, and after `packSeconds`. A lost connection does not end what it
 *   was opened for.
 * - The first process of the Pod, which is not the agent server (`shareProcessNamespace`), is not stopped.
 * - Files that their user may not read get the right to it while they are packed, and lose it before
 *   anything continues. Their modes travel in a list, as the tar has other ones.
 */

import { randomUUID } from 'node:crypto'
import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { firstChars, shellWord } from '@slipway/shared/text'
import { type CopiedFiles, FilesError } from '../backend.ts'
import { checkSize, emptyArguments, packArguments, unpackArguments } from '../file-tree.ts'
import type { Cluster } from './cluster.ts'
import { agentData, containerName, workspace } from './objects.ts'

const packSeconds = 600
const silenceSeconds = 15
const heartbeatMs = 3_000
const tooLargeCode = 75
/** A path has at most 4,096 bytes. */
const maxDepth = 2_100
const excluded = agentData.slice(workspace.length + 1)

export async function copyPodFiles(
  cluster: Cluster,
  from: string,
  to: string,
  maxBytes: number,
): Promise<CopiedFiles> {
  const list = `.slipway-modes-${randomUUID()}`
  const tar = new PassThrough({ highWaterMark: 1024 * 1024 })
  let isOver = false
  const heartbeat = async function* () {
    for (; !isOver; await sleep(heartbeatMs)) yield Buffer.from('.')
  }
  const run = (pod: string, script: string, streams: Parameters<Cluster['exec']>[3]) =>
    cluster.exec(pod, containerName, ['sh', '-c', script], streams)
  try {
    const [packed, unpacked] = await Promise.all([
      run(from, packScript(list, maxBytes), { output: tar, input: heartbeat() }),
      run(to, unpackScript(list), { input: tar }),
    ])
    const [line = '', ...complaints] = packed.errorOutput.split('\n')
    if (packed.exitCode === tooLargeCode) checkSize(Number(complaints[0]) * 1024, maxBytes)
    const takenAt = Number(line)
    if (packed.isOk && unpacked.isOk && takenAt > 0) return { takenAt }
    const text = [...complaints, unpacked.errorOutput].join(' ').trim()
    const codes = `exit codes ${packed.exitCode} and ${unpacked.exitCode}`
    throw new FilesError(`Its files cannot be copied (${codes}): ${firstChars(text, 2_000)}`)
  } catch (error) {
    tar.destroy()
    await run(from, 'kill -s CONT -- -1', {}).catch(() => undefined)
    throw error instanceof FilesError ? error : new FilesError(`Its files cannot be copied: ${String(error)}`)
  } finally {
    isOver = true
  }
}

const words = (args: readonly string[]) => args.map(shellWord).join(' ')

/** Children before the folders that hold them. */
const setModes = (list: string) =>
  `sort -z -r -k 2 "${list}" | xargs -0 -r sh -c 'for each; do chmod "\${each%% *}" "\${each#* }" || exit 255; done' sh`

function packScript(list: string, maxBytes: number): string {
  const without = '\\( -type d ! -perm -500 -o -type f ! -perm -400 \\)'
  const unreadable = `find . -path ./${excluded} -prune -o -user "$(id -u)" ${without}`
  // Without the folders of the mounts, which belong to others, in both Pods.
  const files = `find . -mindepth 1 -xdev -path ./${excluded} -prune -o -type d ! -user "$(id -u)" -o -print0`
  const pack = words(packArguments().slice(0, -1))
  return `export LC_ALL=C
cd ${workspace} && work=$(mktemp -d) && : > "$work/${list}" || exit 70
finish() { kill "$watch" $packer 2>/dev/null; ${setModes(`$work/${list}`)}; kill -s CONT -- -1; rm -rf "$work"; }
trap finish EXIT
trap 'exit 71' HUP INT TERM PIPE
exec 3<&0
kill -s STOP -- -1
(while [ "$(timeout ${silenceSeconds} head -c 1 <&3 | wc -c)" -eq 1 ]; do :; done; kill $$) >/dev/null 2>&1 & watch=$! packer=
date +%s%6N >&2
while ${unreadable} -printf '%m %p\\0' > "$work/found" 2>/dev/null; [ -s "$work/found" ]; do
  # Each round opens the folders that the one before has found. Opening them fails until then.
  rounds=$((\${rounds:-0} + 1)); [ "$rounds" -lt ${maxDepth} ] || exit 72
  cat "$work/found" >> "$work/${list}"
  ${unreadable} -exec chmod u+rwx {} + 2>/dev/null
done
kib=$(du -sk --exclude=./${excluded} . | cut -f1)
if [ ${maxBytes} != 0 ] && [ $((kib * 1024)) -gt ${maxBytes} ]; then echo "$kib" >&2; exit ${tooLargeCode}; fi
${files} > "$work/files"
timeout -s KILL ${packSeconds} tar ${pack} -C "$work" "./${list}" -C ${workspace} --no-recursion --null -T "$work/files" & packer=$!
wait "$packer"`
}

function unpackScript(list: string): string {
  return `export LC_ALL=C
cd ${workspace} && find ${words(emptyArguments(excluded))} && tar ${words(unpackArguments('user'))} && ${setModes(list)} && rm "${list}"`
}
