export { firstChars, isInSurrogatePair, lastChars } from './cut.ts'
export { errorText, errorTextWithCause } from './error-text.ts'
export { formatBytes } from './format-bytes.ts'
export { shellQuote, shellWord } from './shell-quote.ts'
