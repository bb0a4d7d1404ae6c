export { isRecord, parseJson } from './json.ts'
