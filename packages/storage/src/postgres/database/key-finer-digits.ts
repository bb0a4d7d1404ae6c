import { farInstant, storedMoment } from '../../event-log/stored-moment.ts'
import type { Session } from './database.ts'

/** A statement must not take long, and bodies may be large. */
const eventsAtOnce = 500

type Key = readonly [conversation: number, position: number]

const endSql = `SELECT conversation, position FROM (
    SELECT conversation, position FROM event WHERE (conversation, position) > ($1::bigint, $2::integer)
    ORDER BY conversation, position LIMIT ${eventsAtOnce}
  ) AS part ORDER BY conversation DESC, position DESC LIMIT 1`
const candidatesSql = `SELECT conversation, position, instant, body FROM event
  WHERE (conversation, position) > ($1::bigint, $2::integer) AND (conversation, position) <= ($3::bigint, $4::integer)
    AND (abs(instant) >= ${farInstant} OR encode(body, 'escape') ~ '[.,][0-9]{6}[0-9]*[1-9]')`
const keySql = `UPDATE event SET instant = new.instant, finer = new.finer
  FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::text[]) AS new (conversation, position, instant, finer)
  WHERE event.conversation = new.conversation AND event.position = new.position`
const messagesSql = `UPDATE message SET instant = event.instant, finer = event.finer FROM event
  WHERE event.finer <> '' AND message.conversation = event.conversation AND message.position = event.position`
const conversationsSql = `UPDATE conversation SET has_finer = true, in_order = false
  WHERE ordinal IN (SELECT conversation FROM event WHERE finer <> '')`

/** Finds the digits below instants in the events of earlier versions. No byte of an event changes. */
export async function keyFinerDigits(session: Session): Promise<void> {
  let isFound = false
  for (let after: Key = [0, 0]; ; ) {
    const [end] = (await session.run<Key>(endSql, after)).rows
    if (end === undefined) break
    isFound = (await keyRange(session, after, end)) || isFound
    after = end
  }
  if (!isFound) return
  await session.run(messagesSql)
  await session.run(conversationsSql)
}

async function keyRange(session: Session, after: Key, end: Key): Promise<boolean> {
  type Row = readonly [...Key, instant: number, body: Buffer]
  const { rows } = await session.run<Row>(candidatesSql, [...after, ...end])
  const keyed = rows.flatMap(([conversation, position, instant, body]) => {
    const moment = storedMoment(body, instant)
    return moment === undefined ? [] : [{ conversation, position, moment }]
  })
  if (keyed.length === 0) return false
  await session.run(keySql, [
    keyed.map(({ conversation }) => conversation),
    keyed.map(({ position }) => position),
    keyed.map(({ moment }) => moment.instant),
    keyed.map(({ moment }) => moment.finer ?? ''),
  ])
  return true
}
