import { exportEvents } from '@slipway/storage'
import type { WriteFormat } from './format.ts'

export const writeJsonLines: WriteFormat = ({ log, record, meta }) => exportEvents(log, record, { meta })
