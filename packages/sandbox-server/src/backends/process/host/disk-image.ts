import { chmod, mkdir, mkdtemp, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { exists, isWithin } from '@slipway/shared/fs'
import { readSmallFile, succeeds } from './files.ts'
import { type ProgramResult, runProgram } from './run-program.ts'

/** A file system in a sparse file limits the disk of a sandbox. Needs root, loop devices and ext4. */

/** Whether such a file system can be made and mounted here, found by trying. */
export async function canLimitDisk(probePrefix: string): Promise<boolean> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return false
  const probeDirectory = await mkdtemp(probePrefix)
  const target = join(probeDirectory, 'files')
  try {
    await mkdir(target)
    return (await mountDisk(join(probeDirectory, 'disk.img'), target, 4 << 20)) === undefined
  } finally {
    await unmountAllBelow(probeDirectory)
    await succeeds(rm(probeDirectory, { recursive: true, force: true }))
  }
}

/** Makes the image if it is missing, and mounts it if it is not mounted. Returns why that failed. */
export async function mountDisk(
  image: string,
  target: string,
  sizeBytes: number,
): Promise<string | undefined> {
  if ((await listMountsBelow(target)).includes(target)) return undefined
  const failure = (await exists(image)) ? undefined : await createImage(image, sizeBytes)
  if (failure !== undefined) return failure
  let mounted = await mount(image, target)
  if (!mounted.isOk) {
    // The host may have crashed during a write.
    await runProgram('e2fsck', ['-p', image], 600_000)
    mounted = await mount(image, target)
  }
  if (!mounted.isOk) return `Its disk cannot be mounted: ${mounted.output}`
  await chmod(target, 0o700)
  return undefined
}

async function createImage(image: string, sizeBytes: number): Promise<string | undefined> {
  const draft = `${image}.draft`
  await rm(draft, { force: true })
  await using file = await open(draft, 'wx', 0o600)
  await file.truncate(Math.max(2 << 20, Math.floor(sizeBytes / 4096) * 4096))
  // Tables are written when they are needed.
  const options = 'lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0'
  const made = await runProgram('mkfs.ext4', ['-q', '-F', '-m', '0', '-E', options, draft], 120_000)
  if (!made.isOk) {
    await rm(draft, { force: true })
    return `Its disk cannot be made: ${made.output}`
  }
  await file.sync()
  await rename(draft, image)
  return undefined
}

function mount(image: string, target: string): Promise<ProgramResult> {
  // Discard: deleted files free space of the host.
  return runProgram('mount', ['-t', 'ext4', '-o', 'loop,nosuid,nodev,discard', image, target], 120_000)
}

/** Mounts at a path and below, the deepest first. */
export async function listMountsBelow(path: string): Promise<string[]> {
  const lines = (await readSmallFile('/proc/self/mounts'))?.split('\n') ?? []
  const octal = (text: string) =>
    text.replaceAll(/\\([0-7]{3})/g, (_, digits) => String.fromCharCode(Number.parseInt(digits, 8)))
  const targets = lines.map((line) => octal(line.split(' ')[1] ?? ''))
  return targets.filter((each) => isWithin(path, each)).toReversed()
}

/** Unmounts everything at a path and below, at last also what is in use. False: something stays mounted. */
export async function unmountAllBelow(path: string): Promise<boolean> {
  for (const option of [[], ['--lazy']]) {
    for (const target of await listMountsBelow(path)) await runProgram('umount', [...option, target], 60_000)
    if ((await listMountsBelow(path)).length === 0) return true
  }
  return false
}
