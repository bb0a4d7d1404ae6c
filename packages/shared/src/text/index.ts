export { errorText } from './error-text.ts'
export { formatBytes } from './format-bytes.ts'
export { shellQuote } from './shell-quote.ts'
