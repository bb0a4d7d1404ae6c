import { expect, test } from 'vitest'
import { logOperations } from '../testing/faults/log-operations.ts'
import { logRounds } from '../testing/faults/log-setting.ts'
import { openFaultyStorage } from './testing/open-faulty-storage.ts'

const commits = (sql: string) => (sql.startsWith('COMMIT') ? [{ fault: 'lose' } as const] : [])

const operations = logOperations.filter(({ name }) =>
  ['append', 'delete', 'import into a conversation'].includes(name),
)

test.for(
  [false, true].flatMap((isFast) =>
    operations.map((operation) => ({ name: operation.name, operation, disk: isFast ? 'fast' : 'slow' })),
  ),
)(
  'a commit that is done and reported as failed changes nothing twice: $name, $disk disk',
  async ({ operation, disk }) => {
    await using fixture = await openFaultyStorage(disk === 'fast')
    const { rounds } = await logRounds.runAll(fixture, operation, commits)
    expect(rounds).toBeGreaterThan(0)
    await fixture.verify()
  },
)
