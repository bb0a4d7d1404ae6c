export { decodePercent } from './decode.ts'
export { RedirectError, sameOriginFetch } from './same-origin-fetch.ts'
