import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

/** A secret that can be told from all others by its name, wherever it turns up. */
export const planted = new Map<string, string>()
export function plant(place: string): string {
  const known = planted.get(place)
  if (known !== undefined) return known
  const value = `cnry-${place}-${randomBytes(9).toString('hex')}`
  planted.set(place, value)
  return value
}

/** Each form in which a value could be written down. */
function formsOf(value: string): string[] {
  const bytes = Buffer.from(value)
  const base64 = [0, 1, 2].map((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), bytes]).toString('base64')
    return text.slice(shift === 0 ? 0 : 4, -4)
  })
  return [value, ...base64, bytes.toString('hex'), encodeURIComponent(value), bytes.toString('base64url')]
}

/** The places whose secret stands in a text. */
export function leaks(text: string | Buffer): string[] {
  return [...planted].flatMap(([place, value]) =>
    formsOf(value).some((form) => text.includes(form)) ? [place] : [],
  )
}

/** What is in the list of processes, looked at again and again. */
export class ProcessList implements AsyncDisposable {
  /** Secrets that were seen, with the program. */
  readonly found = new Set<string>()
  /** How many lists of arguments were read. */
  count = 0
  #isOver = false
  readonly #looking: Promise<void>

  constructor() {
    this.#looking = this.#look()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true
    await this.#looking
  }

  async #look(): Promise<void> {
    for (; !this.#isOver; await sleep(20)) {
      for (const name of await readdir('/proc')) {
        if (!/^\d+$/.test(name)) continue
        const text = await readFile(`/proc/${name}/cmdline`, 'latin1').catch(() => '')
        this.count++
        if (/cnry|Y25ye|NucnkN|jbnJ5|636e7279/.test(text))
          for (const place of leaks(text)) this.found.add(`${place} in ${text.slice(0, 200)}`)
      }
    }
  }
}
