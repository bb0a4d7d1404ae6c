import { open } from 'node:fs/promises'

/** The value, or undefined when it fails with one of these codes of the system. */
export async function ignoreErrors<T>(codes: readonly string[], work: Promise<T>): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if (error instanceof Error && 'code' in error && codes.includes(String(error.code))) return undefined
    throw error
  }
}

/** A small text file; undefined when it is not there, also when what it tells of (a process, a group) ends meanwhile. */
export function readSmallFile(path: string): Promise<string | undefined> {
  return ignoreErrors(['ENOENT', 'ENOTDIR', 'ESRCH', 'ENODEV', 'EACCES', 'EPERM'], readChunks(path))
}

/** Node's own way takes 64 KiB for each file of `/proc` and of control groups, which do not tell their size. */
async function readChunks(path: string): Promise<string> {
  await using file = await open(path)
  const parts: Buffer[] = []
  for (;;) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(1024))
    if (bytesRead === 0) return Buffer.concat(parts).toString()
    parts.push(buffer.subarray(0, bytesRead))
  }
}

export function sleep(timeMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, timeMs))
}

/** Whether something came true in time: looks again and again, at first often. */
export async function waitUntil(check: () => Promise<boolean>, timeoutMs: number): Promise<boolean> {
  const deadline = Date.now() + timeoutMs
  for (let delayMs = 1; ; delayMs = Math.min(delayMs * 2, 50)) {
    if (await check()) return true
    if (Date.now() >= deadline) return false
    await sleep(delayMs)
  }
}
