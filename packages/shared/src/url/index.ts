export { decodePercent } from './decode.ts'
export { isBrowserLoopback, isLoopback } from './loopback.ts'
export { RedirectError, sameOriginFetch } from './same-origin-fetch.ts'
