import { zipTrajectory } from '../../../core/conversations/trajectory.ts'
import type { WriteFormat } from './format.ts'

export const writeArchive: WriteFormat = async function* ({ log, record, infoReader }) {
  const { id, head, updated_at: updatedAt } = record
  const meta = await infoReader.readInfo(record)
  const state = await infoReader.readArchivedState(record)
  yield* zipTrajectory({ log, id, head, meta, state, updatedAt })
}
