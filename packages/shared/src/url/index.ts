export { decodePercent } from './decode.ts'
