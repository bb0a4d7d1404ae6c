import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

/** A secret that identifies the place where it was planted, wherever it leaks. */
export const plantedSecrets = new Map<string, string>()
export function plantSecret(location: string): string {
  const existing = plantedSecrets.get(location)
  if (existing !== undefined) return existing
  const value = `cnry-${location}-${randomBytes(9).toString('hex')}`
  plantedSecrets.set(location, value)
  return value
}

/** Each encoding in which a value could leak. */
function encodedForms(value: string): string[] {
  const bytes = Buffer.from(value)
  const base64 = [0, 1, 2].map((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), bytes]).toString('base64')
    return text.slice(shift === 0 ? 0 : 4, -4)
  })
  return [value, ...base64, bytes.toString('hex'), encodeURIComponent(value), bytes.toString('base64url')]
}

/** The places whose secrets a text contains. */
export function findLeaks(text: string | Buffer): string[] {
  return [...plantedSecrets].flatMap(([location, value]) =>
    encodedForms(value).some((form) => text.includes(form)) ? [location] : [],
  )
}

/** Samples the process list again and again. */
export class ProcessListScanner implements AsyncDisposable {
  /** Secrets found, with the program. */
  readonly leaks = new Set<string>()
  /** How many argument lists were read. */
  scannedCount = 0
  #isStopped = false
  readonly #scanning: Promise<void>

  constructor() {
    this.#scanning = this.#scan()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopped = true
    await this.#scanning
  }

  async #scan(): Promise<void> {
    for (; !this.#isStopped; await sleep(20)) {
      for (const name of await readdir('/proc')) {
        if (!/^\d+$/.test(name)) continue
        const text = await readFile(`/proc/${name}/cmdline`, 'latin1').catch(() => '')
        this.scannedCount++
        if (/cnry|Y25ye|NucnkN|jbnJ5|636e7279/.test(text))
          for (const location of findLeaks(text)) this.leaks.add(`${location} in ${text.slice(0, 200)}`)
      }
    }
  }
}
