import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { OwnMapServer } from './map-server.ts'

/** A file in the data directory of a server, as a crash, a disk or an editor may change it. */
export class StoredFile {
  readonly path: string

  constructor(server: Pick<OwnMapServer, 'data'>, name: string) {
    this.path = join(server.data, name)
  }

  async read(): Promise<string> {
    return await readFile(this.path, 'latin1')
  }

  async write(text: string): Promise<void> {
    await writeFile(this.path, text, 'latin1')
  }

  async readJson<T>(): Promise<T> {
    return JSON.parse(await readFile(this.path, 'utf8'))
  }

  /** Another one after each write. */
  async stamp(): Promise<string> {
    const { ino, mtimeNs, ctimeNs, size } = await stat(this.path, { bigint: true })
    return [ino, mtimeNs, ctimeNs, size].join(' ')
  }

  /** Runs the requests while the file is as given, which they must not change, and puts it back. */
  async whileDamaged(text: string, requests: () => Promise<void>): Promise<void> {
    const before = await this.read()
    await this.write(text)
    try {
      await requests()
      expect(await this.read()).toBe(text)
    } finally {
      await this.write(before)
    }
  }
}

/** A text of the same length with one other character. */
export function withChangedCharacter(text: string): string {
  const at = Math.floor(text.length / 2)
  return `${text.slice(0, at)}${text[at] === 'A' ? 'B' : 'A'}${text.slice(at + 1)}`
}
