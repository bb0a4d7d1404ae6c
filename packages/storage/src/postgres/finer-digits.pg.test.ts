import { expect, test } from 'vitest'
import { toReceivedEvent } from '../event-log/received-event.ts'
import { finerLines, finerOrder } from '../testing/finer-lines.ts'
import { conversation, positions } from '../testing/fixtures.ts'
import { openPostgresStorage } from './storage.ts'
import { createTestSchema, describePostgres, runSql } from './testing/test-database.ts'

/** Makes the tables and what is in them those of the version before, which rounded a far time to 50 ms. */
const asBefore = `UPDATE event SET instant = instant + 1 WHERE instant > 9000000000000000;
  UPDATE message SET instant = event.instant FROM event WHERE message.position = event.position;
  UPDATE conversation SET in_order = true;
  ALTER TABLE event DROP COLUMN finer;
  ALTER TABLE message DROP COLUMN finer;
  ALTER TABLE conversation DROP COLUMN has_finer;
  ALTER TABLE sandbox DROP COLUMN caught_up_at, DROP COLUMN deletes_at, DROP COLUMN cost;
  ALTER TABLE app_conversation DROP COLUMN cost, DROP COLUMN counted;
  ALTER TABLE member DROP COLUMN role;
  ALTER TABLE org DROP COLUMN allowed_models, DROP COLUMN allowed_specs;
  DROP INDEX conversation_of_users, conversation_of_users_used, sandbox_of_users_used;
  DROP TABLE conversation_usage, sandbox_usage, sandbox_event, sandbox_log, audit;
  DROP TABLE budget, budget_month, budget_reservation, budget_request;
  UPDATE slipway_schema SET version = 4`

describePostgres('finer digits of earlier versions', () => {
  test('events that an earlier version sorted by microseconds are sorted to the last digit', async () => {
    await using schema = await createTestSchema()
    const { url } = schema
    const received = finerLines.map((line) =>
      toReceivedEvent(Buffer.from(line), JSON.parse(line), { keep: true, last: undefined, now: 0 }),
    )
    {
      await using storage = await openPostgresStorage({ url })
      const session = await storage.startImport(conversation)
      await session.add(received)
      await session.publish({})
    }
    await runSql(asBefore, url)
    for (const _ of ['migrated', 'opened again']) {
      await using storage = await openPostgresStorage({ url })
      const order = { limit: 10, sort_order: 'TIMESTAMP' } as const
      for (const query of [order, { ...order, body: 'LINE' }, { ...order, kind: 'MessageEvent' }])
        expect(positions((await storage.log.search(conversation, query)).items)).toEqual(finerOrder)
      const first = { instant: 1_772_359_200_000_000, finer: '9' }
      expect(await storage.log.count(conversation, { timestamp__lt: first })).toBe(4)
      const events = await storage.log.read(conversation, 0, 10)
      expect(events).toEqual(
        received.map(({ bytes, id, instant, finer }, at) => ({
          position: at + 1,
          bytes,
          id,
          instant,
          finer,
        })),
      )
    }
  })
})
