import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

/** A secret that can be told from all others by its name, wherever it turns up. */
export const plantedSecrets = new Map<string, string>()
export function plantSecret(location: string): string {
  const existing = plantedSecrets.get(location)
  if (existing !== undefined) return existing
  const value = `cnry-${location}-${randomBytes(9).toString('hex')}`
  plantedSecrets.set(location, value)
  return value
}

/** Each form in which a value could be written down. */
function encodedForms(value: string): string[] {
  const bytes = Buffer.from(value)
  const base64 = [0, 1, 2].map((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), bytes]).toString('base64')
    return text.slice(shift === 0 ? 0 : 4, -4)
  })
  return [value, ...base64, bytes.toString('hex'), encodeURIComponent(value), bytes.toString('base64url')]
}

/** The places whose secret stands in a text. */
export function findLeaks(text: string | Buffer): string[] {
  return [...plantedSecrets].flatMap(([location, value]) =>
    encodedForms(value).some((form) => text.includes(form)) ? [location] : [],
  )
}

/** What is in the list of processes, looked at again and again. */
export class ProcessListScanner implements AsyncDisposable {
  /** Secrets that were seen, with the program. */
  readonly leaks = new Set<string>()
  /** How many lists of arguments were read. */
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
