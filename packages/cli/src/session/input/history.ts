import { dirname, join } from 'node:path'
import { makeDirectory, readPrivateFile, writeFileAtomic } from '@slipway/shared/fs'
import { parseJson } from '@slipway/shared/json'

const maxEntries = 500
const maxCharacters = 20_000

/** The messages that were sent from this account, the oldest first. */
export async function readHistory(directory: string): Promise<string[]> {
  const text = (await readPrivateFile(historyPath(directory))) ?? ''
  return text.split('\n').flatMap((line) => {
    const entry = parseJson(line)
    return typeof entry === 'string' ? [entry] : []
  })
}

/** Adds one; sessions that write at once may lose one. */
export async function addToHistory(directory: string, entry: string): Promise<void> {
  if (entry.length > maxCharacters) return
  const entries = (await readHistory(directory)).filter((other) => other !== entry)
  const lines = [...entries, entry].slice(-maxEntries).map((one) => `${JSON.stringify(one)}\n`)
  await makeDirectory(dirname(historyPath(directory)), 0o700)
  await writeFileAtomic(historyPath(directory), lines.join(''))
}

function historyPath(directory: string): string {
  return join(directory, 'history.jsonl')
}
