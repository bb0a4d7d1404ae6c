import { readdir, rm, statfs } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { exists } from '@slipway/shared/fs'
import { assertUntracked } from '@slipway/shared/process'
import { errorText } from '@slipway/shared/text'
import { DirectoryLock } from '@slipway/storage'
import {
  inspectDatabase,
  inspectIndex,
  inspectMark,
  readUsage,
  repairLog,
  verifyLog,
} from '@slipway/storage/maintenance'
import { draftPattern, logName, migrationCopyPattern, statOrUndefined } from './data-files.ts'

export type FindingLevel = 'ok' | 'warning' | 'error'

export interface Finding {
  readonly area: string
  readonly level: FindingLevel
  readonly message: string
  /** What to do, for a person. */
  readonly next?: string
}

interface DoctorOptions {
  readonly data: string
  /** Read every event and every indexed text, and compare the indexes with the tables. */
  readonly isDeep: boolean
}

const newestEvents = 100
const lowSpaceBytes = 1024 ** 3
const restoreAdvice = 'Restore a backup: "slipway restore BACKUP --data NEW".'
const maxListed = 20

/** Examines a data directory, also while a server uses it. Changes nothing. */
export async function examine({ data, isDeep }: DoctorOptions): Promise<Finding[]> {
  const directory = resolve(data)
  await assertUntracked(directory)
  if (!(await exists(join(directory, logName)))) return [await missingLog(directory)]
  const findings = [...(await examineDirectory(directory)), ...examineMark(directory)]
  for (const name of ['log.db', 'bash.db', 'control.db'])
    if (await exists(join(directory, name))) findings.push(...examineDatabase(directory, name, isDeep))
  findings.push(...examineEvents(directory, isDeep), ...examineIndex(directory, isDeep))
  return [...findings, ...(await examineLeftovers(directory))]
}

/**
 * Repairs what can be: replaces damaged events, whose bytes it sets aside in the folder `damaged`, drops what
 * was never acknowledged, rebuilds the index, removes drafts. Returns what it did. Rejects when a server uses
 * the directory.
 */
export async function repair(data: string): Promise<string[]> {
  const directory = resolve(data)
  using _ = await DirectoryLock.acquire(directory)
  const done: string[] = []
  const logPath = join(directory, logName)
  const aside = join(directory, 'damaged', new Date().toISOString().replaceAll(/[:.]/g, '-'))
  const { damaged, extended, records, dropped, rebuilt, problems } = repairLog(logPath, aside)
  if (rebuilt.length > 0 && problems.length === 0)
    done.push(`the indexes and pages of ${logName} were made again from its tables: ${rebuilt.join('; ')}`)
  for (const problem of problems) done.push(`${logName} cannot be repaired: ${problem}. ${restoreAdvice}`)
  for (const { conversation, position, reason } of damaged)
    done.push(`event ${position} of conversation ${conversation} ${reason}: it was replaced`)
  for (const conversation of extended)
    done.push(
      `the record of conversation ${conversation} had a wrong end, or ended too early: it ends with its last event again`,
    )
  for (const conversation of records)
    done.push(
      `the title, tags, status or settings of conversation ${conversation} did not match their checksum: what is there is used now, look at it`,
    )
  if (await exists(aside)) done.push(`what was damaged is in ${aside}`)
  if (dropped > 0) done.push(`${dropped} events that were never acknowledged, or were deleted, were dropped`)
  const indexPath = join(directory, 'index.db')
  const isIndexStale =
    damaged.length + extended.length > 0 || inspectIndex(indexPath, logPath, true) !== undefined
  if (isIndexStale && (await exists(indexPath))) {
    for (const suffix of ['', '-wal', '-shm']) await rm(indexPath + suffix, { force: true })
    done.push('the text index was removed: the next start builds it again')
  }
  for (const path of await listDrafts(directory)) {
    await rm(path)
    done.push(`${path} was removed: a file that was not finished`)
  }
  return done
}

async function missingLog(directory: string): Promise<Finding> {
  if ((await statOrUndefined(directory))?.isDirectory() === false)
    return {
      area: 'data',
      level: 'error',
      message: `${directory} is a file`,
      next: 'Name another with --data.',
    }
  const names = await readdir(directory).catch(() => undefined)
  if (names === undefined || names.length === 0) {
    const message = `${directory} ${names === undefined ? 'does not exist' : 'is empty'}: a server makes it at its first start`
    return { area: 'data', level: 'warning', message, next: 'Name the data directory with --data.' }
  }
  return {
    area: 'data',
    level: 'error',
    message: `${directory} has no ${logName}, but ${names[0]}`,
    next: `Name the data directory with --data. If this is it: ${restoreAdvice}`,
  }
}

async function examineDirectory(directory: string): Promise<Finding[]> {
  const area = 'data'
  const findings: Finding[] = [{ area, level: 'ok', message: directory }]
  if (process.platform !== 'win32') {
    for (const name of ['.', logName, 'secret.key', 'session.key']) {
      const path = join(directory, name)
      const stats = await statOrUndefined(path)
      if (stats === undefined) continue
      if ((stats.mode & 0o077) !== 0)
        findings.push({
          area,
          level: 'warning',
          message: `${path} may be read by other users`,
          next: `chmod ${stats.isDirectory() ? '700' : '600'} ${path}`,
        })
      if (process.getuid !== undefined && process.getuid() !== 0 && stats.uid !== process.getuid())
        findings.push({
          area,
          level: 'error',
          message: `${path} belongs to another user (${stats.uid})`,
          next: `chown -R ${process.getuid()} ${directory}, or run as that user`,
        })
    }
  }
  const { bavail, bsize } = await statfs(directory)
  const freeBytes = bavail * bsize
  const mib = Math.floor(freeBytes / 1024 ** 2)
  findings.push(
    freeBytes < lowSpaceBytes
      ? {
          area: 'space',
          level: 'warning',
          message: `${mib} MiB are free`,
          next: '"slipway du" shows what takes space.',
        }
      : { area: 'space', level: 'ok', message: `${mib} MiB are free` },
  )
  return findings
}

function examineMark(directory: string): Finding[] {
  const problem = attempt(() => inspectMark(join(directory, 'log.mark'), join(directory, logName)))
  return problem === undefined ? [] : [{ area: 'log', level: 'error', message: problem, next: restoreAdvice }]
}

function examineDatabase(directory: string, name: string, isDeep: boolean): Finding[] {
  const area = name
  const path = join(directory, name)
  try {
    const { schema, current, schemaProblem, problems, areIndexesCompared } = inspectDatabase(
      path,
      name,
      isDeep,
    )
    if (schema > current)
      return [
        {
          area,
          level: 'error',
          message: `it was written by a newer version (schema ${schema}, this one knows ${current})`,
          next: 'Install that version, or restore a backup from before it.',
        },
      ]
    const next =
      name === logName
        ? `Stop the server, then "slipway doctor --repair --data ${directory}". Or: ${restoreAdvice}`
        : restoreAdvice
    const findings = problems.map((message): Finding => ({ area, level: 'error', message, next }))
    // An index or a table of another form is not made again from what is there.
    if (schemaProblem !== undefined)
      findings.unshift({ area, level: 'error', message: schemaProblem, next: restoreAdvice })
    if (findings.length > 0) return findings
    const notes = [
      `schema ${schema}`,
      ...(schema < current ? [`the next start migrates it to ${current}`] : []),
      ...(name === logName && !areIndexesCompared ? ['--deep compares its indexes with its tables'] : []),
    ]
    return [{ area, level: 'ok', message: notes.join('; ') }]
  } catch (error) {
    return [{ area, level: 'error', message: errorText(error), next: restoreAdvice }]
  }
}

function examineEvents(directory: string, isDeep: boolean): Finding[] {
  const area = 'events'
  try {
    const { conversations, events, unchecked, damaged, records } = verifyLog(
      join(directory, logName),
      isDeep ? {} : { newest: newestEvents },
    )
    const findings = damaged.slice(0, maxListed).map(({ conversation, position, reason }): Finding => {
      const message = `event ${position} of conversation ${conversation} ${reason}`
      const next = `Stop the server, then "slipway doctor --repair" sets it aside. Or: ${restoreAdvice}`
      return { area, level: 'error', message, next }
    })
    if (damaged.length > maxListed)
      findings.push({ area, level: 'error', message: `${damaged.length - maxListed} more, or even more` })
    for (const conversation of records.slice(0, maxListed)) {
      const message = `the title, tags, status or settings of conversation ${conversation} do not match their checksum`
      const next = `Stop the server, then "slipway doctor --repair" takes what is there. Or: ${restoreAdvice}`
      findings.push({ area, level: 'error', message, next })
    }
    const scope = isDeep ? 'all' : `the newest ${newestEvents} of each`
    const note = unchecked > 0 ? `; ${unchecked} are of versions without checksums` : ''
    const message = `${conversations} conversations, ${events} events read (${scope})${note}`
    return findings.length > 0 ? findings : [{ area, level: 'ok', message }]
  } catch (error) {
    return [{ area, level: 'error', message: errorText(error), next: restoreAdvice }]
  }
}

function examineIndex(directory: string, isDeep: boolean): Finding[] {
  const path = join(directory, 'index.db')
  const problem = inspectIndex(path, join(directory, logName), isDeep)
  const next = `Stop the server and delete ${path}, or "slipway doctor --repair": the next start builds it again.`
  return [
    problem === undefined
      ? { area: 'index', level: 'ok', message: 'in order' }
      : { area: 'index', level: 'error', message: problem, next },
  ]
}

async function examineLeftovers(directory: string): Promise<Finding[]> {
  const area = 'leftovers'
  const findings: Finding[] = []
  const add = (message: string, next: string) => findings.push({ area, level: 'warning', message, next })
  const usage = attemptValue(() => readUsage(join(directory, logName)))
  if (usage !== undefined && usage.leftovers > 0)
    add(
      `${usage.leftovers} unpublished or deleted conversations take space`,
      'A running server removes them; otherwise "slipway doctor --repair".',
    )
  for (const path of await listDrafts(directory))
    add(`${path} was not finished`, '"slipway doctor --repair" removes it.')
  const names = await readdir(directory)
  for (const name of names.filter((name) => migrationCopyPattern.test(name)))
    add(
      `${name} is a copy from before a migration`,
      `Delete ${join(directory, name)} when the new version works.`,
    )
  const known = new Set(usage?.conversations.map(({ id }) => id.replaceAll('-', '')))
  const folders = await readdir(join(directory, 'conversations')).catch(() => [])
  const orphans = usage === undefined ? [] : folders.filter((name) => !known.has(name))
  for (const name of orphans.slice(0, maxListed))
    add(
      `${join(directory, 'conversations', name)} belongs to no conversation`,
      'Delete it when no one needs its files.',
    )
  if (orphans.length > maxListed) add(`${orphans.length - maxListed} more such folders`, 'Delete them too.')
  return findings
}

async function listDrafts(directory: string): Promise<string[]> {
  const names = await readdir(directory)
  return names.filter((name) => draftPattern.test(name)).map((name) => join(directory, name))
}

function attempt(work: () => string | undefined): string | undefined {
  try {
    return work()
  } catch (error) {
    return errorText(error)
  }
}

function attemptValue<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}
