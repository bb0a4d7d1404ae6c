import { setTimeout } from 'node:timers/promises'
import { shellWord } from '@slipway/shared/text'
import type { ContainerCreateOptions, ContainerInspectInfo } from 'dockerode'
import { FilesError } from '../backend.ts'
import { bytesLocale, checkSize, emptyArguments, packArguments, unpackArguments } from '../file-tree.ts'
import type { DockerObjects } from './docker-objects.ts'
import type { Engine } from './engine.ts'
import { decodeLastLines } from './inspect.ts'
import { ledgerLabel } from './labels.ts'
import { agentData, workspace } from './sandbox-paths.ts'

const timeoutMs = 1_800_000
const pollMs = 100
const tooLargeCode = 75

/** The name of the container that fills a volume. No id of a sandbox has a dot. */
export const copierName = (volume: string) => `${volume}.copy`

interface VolumeCopy {
  readonly from: string
  readonly to: string
  /** With a shell, `find` and GNU `tar`. */
  readonly image: string
  readonly maxBytes: number
  readonly ledgerId: string
}

/**
 * Copies one volume into another by a container that sees these two alone. It is root there, as the user of
 * sandboxes may not read its own files of mode 000.
 */
export async function copyVolume(engine: Engine, objects: DockerObjects, copy: VolumeCopy): Promise<void> {
  const name = copierName(copy.to)
  await removeCopier(objects, copy)
  try {
    const created = await engine.call<{ readonly Id: string }>('POST', '/containers/create', {
      query: { name },
      body: copierOptions(copy),
    })
    const started = created.ok ? await engine.call('POST', `/containers/${created.value.Id}/start`) : created
    if (!started.ok) throw new FilesError(`The container that copies files does not start: ${started.reason}`)
    const ended = await waitUntilEnded(objects, name)
    const { ExitCode: code } = ended.State
    if (code === 0) return
    const logs = await engine.call<unknown>('GET', `/containers/${name}/logs`, {
      query: { stdout: true, stderr: true, tail: 20 },
    })
    const output = logs.ok && Buffer.isBuffer(logs.value) ? decodeLastLines(logs.value) : ''
    if (code === tooLargeCode) checkSize(Number(/^\d+/.exec(output)?.[0] ?? 0) * 1024, copy.maxBytes)
    throw new FilesError(`Its files cannot be copied: ${output || `exit code ${code}`}`)
  } finally {
    await removeCopier(objects, copy)
  }
}

/** One that a killed server left, or that is no longer needed. */
export async function removeCopier(
  objects: DockerObjects,
  { to, ledgerId }: Pick<VolumeCopy, 'to' | 'ledgerId'>,
): Promise<void> {
  const found = await objects.inspect(copierName(to))
  if (found?.Config.Labels?.[ledgerLabel] === ledgerId) await objects.removeContainer(found.Id)
}

async function waitUntilEnded(objects: DockerObjects, name: string): Promise<ContainerInspectInfo> {
  for (const deadline = Date.now() + timeoutMs; Date.now() < deadline; await setTimeout(pollMs)) {
    const found = await objects.inspect(name)
    if (found === undefined) throw new FilesError('The container that copies files was removed.')
    if (found.State.Status === 'exited' || found.State.Status === 'dead') return found
  }
  throw new FilesError('Copying its files takes too long.')
}

function copierOptions({ from, to, image, maxBytes, ledgerId }: VolumeCopy): ContainerCreateOptions {
  const excluded = agentData.slice(workspace.length + 1)
  const words = (args: readonly string[]) => args.map(shellWord).join(' ')
  // A shell has no status of both ends of a pipe.
  const script = `set -e
cd /from
kib=$(du -sk --exclude=./${excluded} . | cut -f1)
if [ ${maxBytes} != 0 ] && [ $((kib * 1024)) -gt ${maxBytes} ]; then echo "$kib"; exit ${tooLargeCode}; fi
(cd /to && find ${words(emptyArguments(excluded))})
{ tar ${words(packArguments(excluded))} || echo failed > /tmp/pack; } | (cd /to && tar ${words(unpackArguments('same'))})
[ ! -e /tmp/pack ]`
  return {
    Image: image,
    User: '0:0',
    Labels: { [ledgerLabel]: ledgerId },
    Env: Object.entries(bytesLocale).map(([name, value]) => `${name}=${value}`),
    Entrypoint: ['/bin/sh'],
    Cmd: ['-c', script],
    WorkingDir: '/',
    Healthcheck: { Test: ['NONE'] },
    HostConfig: {
      NetworkMode: 'none',
      Mounts: [
        { Type: 'volume', Source: from, Target: '/from', ReadOnly: true },
        { Type: 'volume', Source: to, Target: '/to' },
      ],
      CapDrop: ['ALL'],
      CapAdd: ['DAC_OVERRIDE', 'CHOWN', 'FOWNER', 'FSETID'],
      SecurityOpt: ['no-new-privileges'],
      ReadonlyRootfs: true,
      Tmpfs: { '/tmp': 'rw,noexec,nosuid,nodev,size=1m' },
      RestartPolicy: { Name: 'no' },
      LogConfig: { Type: 'json-file', Config: { 'max-size': '1m' } },
    },
  }
}
