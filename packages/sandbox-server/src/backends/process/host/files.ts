import { open } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { errorCode } from '@slipway/shared/fs'

/** The result of the work; undefined when it fails with one of these codes of the system. */
export async function ignoreErrors<T>(codes: readonly string[], work: Promise<T>): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if (codes.includes(errorCode(error) ?? '')) return undefined
    throw error
  }
}

export async function succeeds(work: Promise<unknown>): Promise<boolean> {
  return await work.then(
    () => true,
    () => false,
  )
}

/** A small text file; undefined when it is missing, also when its process or control group ends meanwhile. */
export function readSmallFile(path: string): Promise<string | undefined> {
  return ignoreErrors(['ENOENT', 'ENOTDIR', 'ESRCH', 'ENODEV', 'EACCES', 'EPERM'], readChunks(path))
}

/** `readFile` allocates 64 KiB for each file of `/proc` and of control groups, whose size is unknown. */
async function readChunks(path: string): Promise<string> {
  await using file = await open(path)
  const parts: Buffer[] = []
  for (;;) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(1024))
    if (bytesRead === 0) return Buffer.concat(parts).toString()
    parts.push(buffer.subarray(0, bytesRead))
  }
}

/** Checks with a growing delay. False: the check was not true in time. */
export async function waitUntil(check: () => Promise<boolean>, timeoutMs: number): Promise<boolean> {
  const deadline = Date.now() + timeoutMs
  for (let delayMs = 1; ; delayMs = Math.min(delayMs * 2, 50)) {
    if (await check()) return true
    if (Date.now() >= deadline) return false
    await sleep(delayMs)
  }
}
